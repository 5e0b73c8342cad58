//! `/log-level`: what is logged, until the next start.

use std::sync::Arc;

use axum::extract;
use serde::{Deserialize, Serialize};

use crate::admin::extract::Json;
use crate::admin::problem::{Kind, Problem};
use crate::admin::state::{LogLevel, State};

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::admin) struct Level {
    /// A level, or directives such as `info,hermitmq::storage=debug`.
    log_level: String,
}

/// `GET /log-level`
pub(super) async fn get(
    extract::State(state): extract::State<Arc<State>>,
) -> Result<Json<Level>, Problem> {
    Ok(Json(Level { log_level: log_of(&state)?.get() }))
}

/// `PUT /log-level`
pub(super) async fn put(
    extract::State(state): extract::State<Arc<State>>,
    Json(level): Json<Level>,
) -> Result<Json<Level>, Problem> {
    let log = log_of(&state)?;
    if level.log_level.trim().is_empty() {
        return Err(Problem::invalid("log_level", "must not be empty; `off` logs nothing"));
    }
    let before = log.get();
    log.set(&level.log_level).map_err(|error| Problem::invalid("log_level", error))?;
    tracing::info!(before, now = log.get(), "the log level was changed");
    Ok(Json(Level { log_level: log.get() }))
}

fn log_of(state: &State) -> Result<&dyn LogLevel, Problem> {
    let none = || Problem::new(Kind::Conflict, "this process has no log of its own");
    state.about.log_level.as_deref().ok_or_else(none)
}
