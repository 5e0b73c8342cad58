//! `/api/v1`: one file for each thing that is administered.

mod cluster;
mod config;
mod log_level;
mod messages;

use std::sync::Arc;

use axum::Router;
use axum::routing::get;

use super::state::State;

/// Everything below `/api/v1`.
pub(super) fn router() -> Router<Arc<State>> {
    Router::new()
        .route("/cluster", get(cluster::get))
        .route("/config", get(config::get))
        .route("/log-level", get(log_level::get).put(log_level::put))
        .route(
            "/topics/{topic}/partitions/{partition}/messages",
            get(messages::list).post(messages::produce),
        )
}
