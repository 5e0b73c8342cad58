//! `/cluster`: the broker as a whole.

use std::sync::Arc;

use axum::extract;
use serde::Serialize;

use crate::admin::extract::Json;
use crate::admin::state::State;

#[derive(Debug, Serialize)]
pub(super) struct Cluster {
    version: &'static str,
    /// `starting`, `running` or `stopping`.
    state: &'static str,
    process_id: u32,
    uptime_seconds: u64,
    data_dir: String,
    /// Where clients connect, once it is running.
    #[serde(skip_serializing_if = "Option::is_none")]
    listen: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    counts: Option<Counts>,
}

#[derive(Debug, Serialize)]
struct Counts {
    reactors: usize,
    /// Without the broker's own.
    topics: usize,
    /// All of them.
    partitions: usize,
    committed_offsets: usize,
    connections: i64,
}

/// `GET /cluster`
pub(super) async fn get(extract::State(state): extract::State<Arc<State>>) -> Json<Cluster> {
    let running = state.running();
    Json(Cluster {
        version: env!("CARGO_PKG_VERSION"),
        state: state.stage(),
        process_id: std::process::id(),
        uptime_seconds: state.uptime().as_secs(),
        data_dir: state.about.data_dir.display().to_string(),
        listen: running.map(|running| running.addr.to_string()),
        counts: running.map(|running| Counts {
            reactors: running.reactors,
            topics: running.broker.topic_count(),
            partitions: running.broker.partitions().len(),
            committed_offsets: running.broker.committed_count(),
            connections: state.about.metrics.connections.get(),
        }),
    })
}
