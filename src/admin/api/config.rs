//! `/config`: the settings in effect, and what set each.

use std::sync::Arc;

use axum::extract;
use serde::Serialize;

use crate::admin::extract::Json;
use crate::admin::state::{Setting, State};

#[derive(Debug, Serialize)]
pub(super) struct Settings {
    settings: Vec<Setting>,
}

/// `GET /config`
pub(super) async fn get(extract::State(state): extract::State<Arc<State>>) -> Json<Settings> {
    Json(Settings { settings: state.about.settings.clone() })
}
