//! `/topics/{topic}/traffic`: what has gone in and out of it since the start. Two looks make a rate.

use std::sync::Arc;

use axum::extract;
use serde::Serialize;

use crate::admin::extract::{self as parts, Json, PathParts};
use crate::admin::problem::Problem;
use crate::admin::refusals::of_partition;
use crate::admin::state::State;
use crate::broker::{Broker, Partition, PartitionError};
use crate::model::{PartitionId, TopicName};

#[derive(Debug, Serialize)]
pub(super) struct Traffic {
    /// When it was looked at, in ms since the start of the broker: what rates are made with.
    time_ms: u64,
    partitions: Vec<Of>,
}

#[derive(Debug, Serialize)]
struct Of {
    partition: PartitionId,
    records_in: u64,
    bytes_in: u64,
    bytes_out: u64,
    /// Consumers that have all there is and wait for more.
    waiting_consumers: usize,
}

/// `GET /topics/{topic}/traffic`
pub(super) async fn get(
    extract::State(state): extract::State<Arc<State>>,
    PathParts(topic): PathParts<String>,
) -> Result<Json<Traffic>, Problem> {
    let topic = parts::topic(&topic)?;
    let uptime = state.uptime();
    state
        .with_broker(move |broker| {
            let partitions = find(broker, &topic)?;
            let time_ms = u64::try_from(uptime.as_millis()).unwrap_or(u64::MAX);
            Ok(Json(Traffic { time_ms, partitions }))
        })
        .await
}

fn find(broker: &Broker, topic: &TopicName) -> Result<Vec<Of>, Problem> {
    let partitions: Vec<_> = broker.partitions_of(topic).iter().map(|one| of(one)).collect();
    if partitions.is_empty() {
        return Err(of_partition(&PartitionError::UnknownTopic(topic.clone())));
    }
    Ok(partitions)
}

fn of(partition: &Partition) -> Of {
    let traffic = partition.traffic();
    Of {
        partition: partition.name().partition,
        records_in: traffic.records_in.get(),
        bytes_in: traffic.bytes_in.get(),
        bytes_out: traffic.bytes_out.get(),
        waiting_consumers: partition.parked(),
    }
}
