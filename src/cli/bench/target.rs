//! The broker that is measured: one that runs, or else one in this process.

use std::io::ErrorKind;
use std::net::TcpStream;

use crate::cli::args::{BROKER_DEFAULT, broker_from_env};
use crate::cli::failure::{Failure, causes};
use crate::cli::runtime;
use crate::client::raw::{self, ACK_LEN};
use crate::client::{self, ConnectError};
use crate::config::Config;
use crate::model::{GroupName, Offset, TopicName};
use crate::server::Server;

use super::args::TargetArgs;
use super::produce::{self, Load, Until};
use super::progress::Progress;
use super::report;
use super::scratch::Scratch;
use super::shape::Shape;

/// The partition of everything here.
const PARTITION: u32 = 0;

/// How the results name a broker in this process.
const IN_PROCESS: &str = "in-process";

/// A broker to connect to.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) addr: String,
    /// The broker in this process, and then its directory: dropped in this order.
    own: Option<(Server, Scratch)>,
}

impl Target {
    /// The broker that the arguments name, else the environment, else the default address; else a new one.
    pub(super) fn find(args: &TargetArgs) -> Result<Self, Failure> {
        if let Some(addr) = args.broker.clone().or_else(broker_from_env) {
            return Ok(Self::at(addr));
        }
        match TcpStream::connect(BROKER_DEFAULT) {
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => Self::start(args),
            _ => Ok(Self::at(BROKER_DEFAULT.to_owned())),
        }
    }

    /// A broker elsewhere.
    pub(super) fn at(addr: String) -> Self {
        Self { addr, own: None }
    }

    fn start(args: &TargetArgs) -> Result<Self, Failure> {
        let scratch = Scratch::new(args.dir.as_deref())?;
        let mut config = Config::default();
        config.server.port = 0;
        config.storage.data_dir = scratch.path().join("data");
        let server = Server::start(&config).map_err(|error| Failure::Runtime(causes(&error)))?;
        let addr = server.addr().to_string();
        report::note(&format!(
            "no broker on {BROKER_DEFAULT}: one runs in this process, with its data in {}",
            scratch.path().display()
        ));
        Ok(Self { addr, own: Some((server, scratch)) })
    }

    /// How the results name it.
    pub(super) fn name(&self) -> String {
        if self.own.is_some() { IN_PROCESS.to_owned() } else { self.addr.clone() }
    }

    /// Ends a broker in this process.
    pub(super) fn stop(self) -> Result<(), Failure> {
        match self.own {
            Some((server, _scratch)) => {
                server.stop().map_err(|error| Failure::Runtime(causes(&error)))
            }
            None => Ok(()),
        }
    }

    /// Connections of producers.
    pub(super) fn producers(
        &self,
        topic: &TopicName,
        count: u32,
    ) -> Result<Vec<TcpStream>, Failure> {
        let connect = |_| raw::produce(&self.addr, topic, PARTITION);
        let streams: Result<_, ConnectError> = (0..count).map(connect).collect();
        streams.map_err(|error| Failure::connect(&error))
    }

    /// A connection of a consumer in a group that has read nothing.
    pub(super) fn consumer(&self, topic: &TopicName) -> Result<TcpStream, Failure> {
        self.consumer_of(&new_group()?, topic)
    }

    /// A connection of a consumer that is sent only what is stored from now on.
    pub(super) fn consumer_at_end(&self, topic: &TopicName) -> Result<TcpStream, Failure> {
        let group = new_group()?;
        runtime::block_on(async {
            // The broker lowers it to the next offset that it will give.
            client::commit(&self.addr, &group, topic, PARTITION, Offset::MAX)
                .await
                .map_err(|error| Failure::commit(&error))
        })?;
        self.consumer_of(&group, topic)
    }

    fn consumer_of(&self, group: &GroupName, topic: &TopicName) -> Result<TcpStream, Failure> {
        raw::consume(&self.addr, group, topic, PARTITION).map_err(|error| Failure::connect(&error))
    }

    /// Stores a frame more, and tells how many records were there before.
    pub(super) fn touch(&self, topic: &TopicName, shape: Shape) -> Result<u64, Failure> {
        use std::io::{Read as _, Write as _};
        let (frame, _) = shape.chunk(1)?;
        let mut ack = [0; ACK_LEN];
        for stream in &mut self.producers(topic, 1)? {
            super::link::be_patient(stream)?;
            let exchanged = stream.write_all(&frame).and_then(|()| stream.read_exact(&mut ack));
            exchanged.map_err(|error| super::link::broken(&error, "no frame"))?;
        }
        let mut acks = raw::Acks::default();
        acks.add(&ack);
        match acks.last {
            Some(offset) if acks.stored == 1 => Ok(offset),
            _ => Err(Failure::Runtime("the broker refused the first frame".to_owned())),
        }
    }

    /// Fills the topic up to so many frames; tells how many it stored.
    pub(super) fn fill(
        &self,
        topic: &TopicName,
        shape: Shape,
        frames: u64,
        progress: &Progress,
    ) -> Result<u64, Failure> {
        let records = self.touch(topic, shape)? + u64::from(shape.batch);
        let missing = shape.frames_for(shape.records_in(frames).saturating_sub(records));
        if missing > 0 {
            let load = Load { shape, window: None, until: Until::Frames(missing) };
            produce::run(&self.producers(topic, 1)?, &load, progress)?;
        }
        Ok(missing)
    }
}

/// A group that nobody has used.
fn new_group() -> Result<GroupName, Failure> {
    crate::cli::consume::ephemeral_group()
}
