//! `/api/v1`: one file for each thing that is administered.

mod cluster;
mod config;
mod connections;
mod events;
mod groups;
pub(super) mod log_level;
pub(super) mod messages;
mod openapi;
mod segments;
mod topics;
mod traffic;

use std::sync::Arc;

use axum::Router;
use axum::routing::{delete, get, post};

use super::state::State;

/// Everything below `/api/v1`.
pub(super) fn router() -> Router<Arc<State>> {
    Router::new()
        .route("/cluster", get(cluster::get))
        .route("/config", get(config::get))
        .route("/connections", get(connections::list))
        .route("/connections/{connection}", delete(connections::close))
        .route("/events", get(events::watch))
        .route("/log-level", get(log_level::get).put(log_level::put))
        .route("/openapi.json", get(openapi::get))
        .route("/topics", get(topics::list).post(topics::create))
        .route("/topics/{topic}", get(topics::describe).patch(topics::alter).delete(topics::delete))
        .route("/topics/{topic}/traffic", get(traffic::get))
        .route("/topics/{topic}/partitions/{partition}/segments", get(segments::list))
        .route("/groups", get(groups::list))
        .route("/groups/{group}", get(groups::describe).delete(groups::delete))
        .route("/groups/{group}/reset", post(groups::reset))
        .route(
            "/topics/{topic}/partitions/{partition}/messages",
            get(messages::list).post(messages::produce),
        )
}
