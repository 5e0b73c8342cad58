//! `/metrics`: the instruments and the state of the broker at the time of asking, in the text format of Prometheus.
//!
//! There is no second set of counters: `instruments` reads those of the layers below, `partitions` and `groups` look at
//! the broker, `process` asks the operating system. `docs/METRICS.md` lists them all; a test compares the two.

mod groups;
mod instruments;
mod partitions;
mod process;
mod text;

use std::sync::Arc;

use axum::extract;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};

use super::problem::{Kind, Problem};
use super::state::State;
use text::Text;

/// `GET /metrics`
pub(super) async fn scrape(
    extract::State(state): extract::State<Arc<State>>,
) -> Result<Response, Problem> {
    // Thousands of partitions are looked at: off the thread that answers everybody.
    let text = tokio::task::spawn_blocking(move || collect(&state)).await.map_err(|error| {
        tracing::error!(%error, "the metrics could not be collected");
        Problem::new(Kind::Internal, "the metrics could not be collected; the log says more")
    })?;
    Ok(([(CONTENT_TYPE, text::MEDIA_TYPE)], text).into_response())
}

fn collect(state: &State) -> String {
    let mut text = Text::default();
    process::write(&mut text, state);
    instruments::write(&mut text, &state.about.metrics);
    let broker = state.running().map(|running| &*running.broker);
    let max_series = state.about.metrics_max_series as usize;
    partitions::write(&mut text, broker, max_series);
    groups::write(&mut text, broker, max_series);
    text.finish()
}
