//! `/topics/{topic}/partitions/{partition}/messages`: looking at records, and storing one.

use std::sync::Arc;
use std::time::SystemTime;

use axum::extract;
use axum::http::StatusCode;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Serialize};

use crate::admin::extract::{self as parts, Json, Params, PathParts};
use crate::admin::problem::Problem;
use crate::admin::refusals::{of_partition, of_peek, of_store};
use crate::admin::state::State;
use crate::broker::{Broker, Partition, PartitionError, Peek, PeekFrom, PeekedFrame};
use crate::model::{Offset, PartitionId, TopicName, limits};

/// Messages that are given unless the request says how many.
const LIMIT_DEFAULT: usize = 10;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Query {
    offset: Option<Offset>,
    /// In ns since the Unix epoch.
    timestamp: Option<u64>,
    limit: Option<usize>,
}

#[derive(Debug, Serialize)]
pub(super) struct Messages {
    start_offset: Offset,
    end_offset: Offset,
    /// Where to look next.
    next_offset: Offset,
    /// What is there is damaged.
    damaged: bool,
    #[serde(rename = "messages")]
    found: Vec<Message>,
}

#[derive(Debug, Serialize)]
struct Message {
    offset: Offset,
    timestamp_ns: u64,
    /// Records in the payload: more than one is a batch.
    record_count: u32,
    key: Option<Data>,
    payload: Data,
}

/// Bytes as JSON can have them.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::admin) struct Data {
    #[serde(default)]
    encoding: Encoding,
    #[serde(rename = "data")]
    content: String,
    /// Bytes that they are, more than there are here if they were cut.
    #[serde(default, skip_deserializing)]
    bytes: u32,
    #[serde(default, skip_deserializing)]
    cut: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Encoding {
    /// As they are.
    #[default]
    Text,
    /// They are no UTF-8.
    Base64,
}

/// A record to be stored.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::admin) struct Record {
    #[serde(default)]
    key: Option<Data>,
    payload: Data,
    /// The time of the broker if it is left out.
    #[serde(default)]
    timestamp_ns: Option<u64>,
}

#[derive(Debug, Serialize)]
pub(super) struct Stored {
    offset: Offset,
}

/// `GET …/messages`: without a place, the last ones.
pub(super) async fn list(
    extract::State(state): extract::State<Arc<State>>,
    PathParts((topic, partition)): PathParts<(String, String)>,
    Params(query): Params<Query>,
) -> Result<Json<Messages>, Problem> {
    let (topic, partition) = (parts::topic(&topic)?, parts::partition(&partition)?);
    let peek = query.peek()?;
    state
        .with_broker(move |broker| {
            let partition = find(broker, &topic, partition)?;
            let peeked = partition.peek(&peek).map_err(|error| of_peek(&error))?;
            Ok(Json(Messages {
                start_offset: partition.start_offset(),
                end_offset: partition.end_offset(),
                next_offset: peeked.next_offset,
                damaged: peeked.damaged,
                found: peeked.frames.into_iter().map(Message::of).collect(),
            }))
        })
        .await
}

/// `POST …/messages`
pub(super) async fn produce(
    extract::State(state): extract::State<Arc<State>>,
    PathParts((topic, partition)): PathParts<(String, String)>,
    Json(record): Json<Record>,
) -> Result<(StatusCode, Json<Stored>), Problem> {
    let (topic, partition) = (parts::topic(&topic)?, parts::partition(&partition)?);
    let timestamp_ns = record.timestamp_ns;
    let (key, payload) = record.decode()?;
    state
        .with_broker(move |broker| {
            let partition = find(broker, &topic, partition)?;
            let timestamp_ns = timestamp_ns.unwrap_or_else(now_ns);
            let stored = partition.store(timestamp_ns, &key, &payload);
            let offset = stored.map_err(|error| of_store(&error))?;
            Ok((StatusCode::CREATED, Json(Stored { offset })))
        })
        .await
}

/// The time that a producer here would give a record.
fn now_ns() -> u64 {
    let since = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

impl Record {
    /// Its key, empty for none, and its payload.
    pub(in crate::admin) fn decode(self) -> Result<(Vec<u8>, Vec<u8>), Problem> {
        let key = self.key.map(|key| key.decode("key")).transpose()?.unwrap_or_default();
        Ok((key, self.payload.decode("payload")?))
    }
}

impl Query {
    fn peek(&self) -> Result<Peek, Problem> {
        let limit = self.limit.unwrap_or(LIMIT_DEFAULT);
        if !(1..=limits::PEEK_MESSAGES_MAX).contains(&limit) {
            let max = limits::PEEK_MESSAGES_MAX;
            return Err(Problem::invalid("limit", format!("limit must be from 1 to {max}")));
        }
        let from = match (self.offset, self.timestamp) {
            (Some(_), Some(_)) => {
                return Err(Problem::invalid(
                    "timestamp",
                    "give an offset or a timestamp, not both",
                ));
            }
            (Some(offset), None) => PeekFrom::Offset(offset),
            (None, Some(timestamp)) => PeekFrom::Timestamp(timestamp),
            (None, None) => PeekFrom::BeforeEnd(limit as u64),
        };
        Ok(Peek { from, max_frames: limit, max_bytes: limits::PEEK_BYTES_MAX })
    }
}

impl Message {
    fn of(frame: PeekedFrame) -> Self {
        let PeekedFrame { header, key, payload } = frame;
        Self {
            offset: header.offset,
            timestamp_ns: header.timestamp,
            record_count: header.records(),
            key: (header.key_size > 0).then(|| Data::of(key, header.key_size)),
            payload: Data::of(payload, header.payload_size),
        }
    }
}

impl Data {
    /// Some of `bytes` bytes.
    fn of(some: Vec<u8>, bytes: u32) -> Self {
        let cut = some.len() < bytes as usize;
        let (encoding, content) = match String::from_utf8(some) {
            Ok(text) => (Encoding::Text, text),
            // Cut in the middle of a character, perhaps: the bytes are what is sure.
            Err(error) => (Encoding::Base64, BASE64.encode(error.as_bytes())),
        };
        Self { encoding, content, bytes, cut }
    }

    fn decode(self, field: &str) -> Result<Vec<u8>, Problem> {
        match self.encoding {
            Encoding::Text => Ok(self.content.into_bytes()),
            Encoding::Base64 => BASE64
                .decode(&self.content)
                .map_err(|error| Problem::invalid(format!("{field}.data"), error.to_string())),
        }
    }
}

pub(super) fn find(
    broker: &Broker,
    topic: &TopicName,
    partition: PartitionId,
) -> Result<Arc<Partition>, Problem> {
    let none = || Err(PartitionError::UnknownTopic(topic.clone()));
    broker.existing(topic, partition).unwrap_or_else(none).map_err(|error| of_partition(&error))
}
