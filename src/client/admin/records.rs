//! Records of a partition, without a consumer or a producer: looking at some, and storing one.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use serde::{Deserialize, Serialize, Serializer};

use super::{AdminClient, AdminError};
use crate::client::Record;
use crate::model::{Offset, PartitionId, TopicName};

/// Where to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeekFrom {
    /// At the last ones.
    End,
    /// From this offset on.
    Offset(Offset),
    /// From the first one on whose timestamp is this or later, in ns since the Unix epoch.
    Timestamp(u64),
}

/// Some records of a partition.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct PeekedRecords {
    /// Offset of the oldest record kept.
    pub start_offset: Offset,
    /// Offset after the last record.
    pub end_offset: Offset,
    /// Where to look next.
    pub next_offset: Offset,
    /// What is at [`PeekedRecords::next_offset`] is damaged.
    pub damaged: bool,
    /// The records, in the order of their offsets.
    #[serde(rename = "messages")]
    pub records: Vec<PeekedRecord>,
}

/// A record, or a batch of them.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct PeekedRecord {
    /// Its offset; of the first one of a batch.
    pub offset: Offset,
    /// Its timestamp, in ns since the Unix epoch.
    pub timestamp_ns: u64,
    /// Records in the payload: more than one is a batch.
    pub record_count: u32,
    /// `None` if it has none.
    pub key: Option<PeekedBytes>,
    /// Its content.
    pub payload: PeekedBytes,
}

/// A key or a payload, or its beginning.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Encoded")]
pub struct PeekedBytes {
    /// The first ones; all of them if there are no more.
    pub bytes: Bytes,
    /// How many bytes there are in the log.
    pub full_len: u32,
}

impl PeekedBytes {
    /// Whether some were left out, because it is large.
    pub fn is_cut(&self) -> bool {
        self.bytes.len() < self.full_len as usize
    }
}

/// Bytes as JSON has them.
#[derive(Deserialize)]
struct Encoded {
    encoding: Encoding,
    data: String,
    bytes: u32,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Encoding {
    Text,
    Base64,
}

impl TryFrom<Encoded> for PeekedBytes {
    type Error = base64::DecodeError;

    fn try_from(Encoded { encoding, data, bytes: full_len }: Encoded) -> Result<Self, Self::Error> {
        let bytes = match encoding {
            Encoding::Text => data.into_bytes(),
            Encoding::Base64 => BASE64.decode(data)?,
        };
        Ok(Self { bytes: bytes.into(), full_len })
    }
}

/// A record on its way.
#[derive(Serialize)]
struct NewRecord<'a> {
    #[serde(skip_serializing_if = "no_bytes")]
    key: Encode<'a>,
    payload: Encode<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timestamp_ns: Option<u64>,
}

struct Encode<'a>(&'a [u8]);

fn no_bytes(bytes: &Encode<'_>) -> bool {
    bytes.0.is_empty()
}

impl Serialize for Encode<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct as _;
        let mut fields = serializer.serialize_struct("Data", 2)?;
        if let Ok(text) = std::str::from_utf8(self.0) {
            fields.serialize_field("encoding", &Encoding::Text)?;
            fields.serialize_field("data", text)?;
        } else {
            fields.serialize_field("encoding", &Encoding::Base64)?;
            fields.serialize_field("data", &BASE64.encode(self.0))?;
        }
        fields.end()
    }
}

#[derive(Deserialize)]
struct Stored {
    offset: Offset,
}

impl AdminClient {
    /// Looks at up to `limit` records (1 to 1,000), fewer if they are large. Nothing is consumed, no group moves.
    pub async fn peek(
        &self,
        topic: &TopicName,
        partition: PartitionId,
        from: PeekFrom,
        limit: usize,
    ) -> Result<PeekedRecords, AdminError> {
        let place = match from {
            PeekFrom::End => String::new(),
            PeekFrom::Offset(offset) => format!("&offset={offset}"),
            PeekFrom::Timestamp(ns) => format!("&timestamp={ns}"),
        };
        self.get(&format!("{}?limit={limit}{place}", path(topic, partition))).await
    }

    /// Stores one record and waits until it is as durable as the topic wants it; gives its offset. For a record now and then:
    /// a [`Producer`](crate::client::Producer) is for many.
    pub async fn store(
        &self,
        topic: &TopicName,
        partition: PartitionId,
        record: &Record,
    ) -> Result<Offset, AdminError> {
        let record = NewRecord {
            key: Encode(&record.key),
            payload: Encode(&record.payload),
            timestamp_ns: record.timestamp,
        };
        let answer = self.send("POST", &path(topic, partition), &record).await?;
        let Stored { offset } = answer.value()?;
        Ok(offset)
    }
}

fn path(topic: &TopicName, partition: PartitionId) -> String {
    format!("/api/v1/topics/{topic}/partitions/{partition}/messages")
}
