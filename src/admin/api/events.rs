//! `/events`: how the broker is and what it does, told once a second for as long as somebody listens.

use std::sync::Arc;

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::{Extension, extract};

use crate::admin::authorize::Caller;
use crate::admin::live;
use crate::admin::problem::Problem;
use crate::admin::state::State;

/// `GET /events`: server-sent events.
pub(super) async fn watch(
    extract::State(state): extract::State<Arc<State>>,
    Extension(caller): Extension<Caller>,
) -> Result<Response, Problem> {
    let events = live::watch(&state, caller.generation())?;
    Ok(([(CONTENT_TYPE, "text/event-stream")], Body::new(events)).into_response())
}
