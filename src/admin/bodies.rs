//! The bodies of requests without the requests: what fuzzing and its twin read as the listener does.

use std::fmt::Debug;

use serde::de::DeserializeOwned;

use super::api::log_level::Level;
use super::api::messages::Record;
use super::extract::parse;
use super::problem::Problem;
use crate::broker::{GroupReset, TopicChange, TopicOptions};

/// What a body is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestBody {
    /// `POST /topics`
    CreateTopic,
    /// `PATCH /topics/{topic}`
    AlterTopic,
    /// `POST /groups/{group}/reset`
    ResetGroup,
    /// `POST …/messages`
    Produce,
    /// `PUT /log-level`
    SetLogLevel,
}

impl RequestBody {
    /// All of them.
    pub const ALL: &[Self] =
        &[Self::CreateTopic, Self::AlterTopic, Self::ResetGroup, Self::Produce, Self::SetLogLevel];

    /// Reads a body: the value in words of the program, or the status and the words of the answer.
    pub fn read(self, bytes: &[u8]) -> Result<String, (u16, String)> {
        let read = match self {
            Self::CreateTopic => shown::<TopicOptions>(bytes),
            Self::AlterTopic => shown::<TopicChange>(bytes),
            Self::ResetGroup => shown::<GroupReset>(bytes),
            Self::Produce => {
                parse::<Record>(bytes).and_then(Record::decode).map(|record| format!("{record:?}"))
            }
            Self::SetLogLevel => shown::<Level>(bytes),
        };
        read.map_err(|problem| {
            let (status, detail) = problem.said();
            (status, detail.to_owned())
        })
    }
}

fn shown<T: DeserializeOwned + Debug>(bytes: &[u8]) -> Result<String, Problem> {
    parse::<T>(bytes).map(|value| format!("{value:?}"))
}
