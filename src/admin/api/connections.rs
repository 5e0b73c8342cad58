//! `/connections`: who is connected, and ending one.

use std::sync::Arc;

use axum::extract;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};

use crate::admin::extract::{Json, Params, PathParts};
use crate::admin::problem::Problem;
use crate::admin::refusals::of_close;
use crate::admin::state::{Connection, State};
use crate::model::limits;

/// Connections that are listed unless the request says how many.
const LIMIT_DEFAULT: usize = 1000;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Query {
    limit: Option<usize>,
}

#[derive(Debug, Serialize)]
pub(super) struct Listed {
    connections: Vec<Connection>,
    /// Whether these are all.
    complete: bool,
}

/// `GET /connections`
pub(super) async fn list(
    extract::State(state): extract::State<Arc<State>>,
    Params(Query { limit }): Params<Query>,
) -> Result<Json<Listed>, Problem> {
    let limit = limit.unwrap_or(LIMIT_DEFAULT);
    let max = limits::CONNECTIONS_LISTED_MAX;
    if !(1..=max).contains(&limit) {
        return Err(Problem::invalid("limit", format!("limit must be from 1 to {max}")));
    }
    state
        .with_connections(move |connections| {
            let (mut connections, mut complete) = connections.list(limit);
            complete &= connections.len() <= limit;
            connections.truncate(limit);
            Ok(Json(Listed { connections, complete }))
        })
        .await
}

/// `DELETE /connections/{connection}`
pub(super) async fn close(
    extract::State(state): extract::State<Arc<State>>,
    PathParts(id): PathParts<String>,
) -> Result<StatusCode, Problem> {
    state
        .with_connections(move |connections| connections.close(&id).map_err(|e| of_close(&e)))
        .await
        .map(|()| StatusCode::NO_CONTENT)
}
