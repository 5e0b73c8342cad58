//! `/topics/{topic}/partitions/{partition}/segments`: the pieces of a partition's log.

use std::sync::Arc;

use axum::extract;
use serde::Serialize;

use super::messages::find;
use crate::admin::extract::{self as parts, Json, PathParts};
use crate::admin::problem::Problem;
use crate::admin::state::State;
use crate::broker::SegmentSize;
use crate::model::Offset;

#[derive(Debug, Serialize)]
pub(super) struct Segments {
    /// Oldest first; the last one is being written.
    segments: Vec<Segment>,
}

#[derive(Debug, Serialize)]
struct Segment {
    /// Offset of its first record; its files are named after it.
    base_offset: Offset,
    bytes: u64,
    /// When it was last appended to, in the broker's time, in ns since the Unix epoch.
    last_append_ns: u64,
}

/// `GET …/segments`
pub(super) async fn list(
    extract::State(state): extract::State<Arc<State>>,
    PathParts((topic, partition)): PathParts<(String, String)>,
) -> Result<Json<Segments>, Problem> {
    let (topic, partition) = (parts::topic(&topic)?, parts::partition(&partition)?);
    let segment = |size: SegmentSize| Segment {
        base_offset: size.base_offset,
        bytes: size.bytes,
        last_append_ns: size.last_ns,
    };
    state
        .with_broker(move |broker| {
            let sizes = find(broker, &topic, partition)?.sizes();
            Ok(Json(Segments { segments: sizes.into_iter().map(segment).collect() }))
        })
        .await
}
