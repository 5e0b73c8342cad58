//! The broker that is measured: one that runs and is named, or else one in this process.

use std::net::TcpStream;

use crate::cli::args::{TokenArgs, broker_from_env, with_port};
use crate::cli::failure::{Failure, causes};
use crate::cli::runtime;
use crate::cli::serve;
use crate::client::raw::{self, ACK_LEN};
use crate::client::{Committer, ConnectOptions, Protocol, Start, Token};
use crate::model::{GroupName, Offset, PartitionId, TopicName};
use crate::server::Server;

use super::args::TargetArgs;
use super::produce::{self, Load, Until};
use super::progress::Progress;
use super::report;
use super::scratch::Scratch;
use super::shape::Shape;

/// How the results name a broker in this process.
const IN_PROCESS: &str = "in-process";

/// A broker to connect to.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) addr: String,
    /// Partitions of its topics that are used, at least one.
    partitions: u32,
    /// What is shown to it; without one protocol 1.0 is spoken.
    token: Option<Token>,
    /// The broker in this process, and then its directory: dropped in this order.
    own: Option<(Server, Scratch)>,
}

impl Target {
    /// The broker that the arguments name, else the environment; else a new one. One that nobody has named may be in use: its
    /// disk is not for records that mean nothing.
    pub(super) fn find(args: &TargetArgs) -> Result<Self, Failure> {
        match args.broker.as_deref().map(with_port).or_else(broker_from_env) {
            Some(addr) => Self::running(addr, args),
            None => Self::start(args),
        }
    }

    /// A broker elsewhere.
    pub(super) fn at(addr: String, partitions: u32) -> Self {
        Self { addr, partitions, token: None, own: None }
    }

    /// As who the token says.
    pub(super) fn with_token(self, args: &TokenArgs) -> Result<Self, Failure> {
        Ok(Self { token: args.find()?, ..self })
    }

    /// A broker that runs already, so that nothing can be set of it.
    fn running(addr: String, args: &TargetArgs) -> Result<Self, Failure> {
        match args.start.settings().first() {
            Some(setting) => Err(Failure::Usage(format!(
                "{setting} cannot be set: the broker at {addr} runs already"
            ))),
            None => Ok(Self::at(addr, args.partitions)),
        }
    }

    fn start(args: &TargetArgs) -> Result<Self, Failure> {
        let scratch = Scratch::new(args.start.dir.as_deref())?;
        let mut set = vec![partitions_setting(args.partitions)];
        set.extend(args.start.settings());
        // Nobody is to look after it.
        let server = serve::in_process(scratch.path().join("data"), set, "")?;
        let addr = server.addr().to_string();
        report::note(&format!(
            "no --broker: one runs in this process, with its data in {}",
            scratch.path().display()
        ));
        let own = Some((server, scratch));
        Ok(Self { addr, partitions: args.partitions, token: None, own })
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

    /// Flushes so far of a broker in this process.
    pub(super) fn flushes(&self) -> Option<u64> {
        self.own.as_ref().map(|(server, _)| server.metrics().flushes.get())
    }

    /// The partition of a connection.
    fn partition(&self, number: u32) -> PartitionId {
        number % self.partitions
    }

    /// Connections of producers, spread over the partitions.
    pub(super) fn producers(
        &self,
        topic: &TopicName,
        count: u32,
    ) -> Result<Vec<TcpStream>, Failure> {
        (0..count).map(|number| self.producer(topic, number)).collect()
    }

    fn producer(&self, topic: &TopicName, number: u32) -> Result<TcpStream, Failure> {
        let partition = self.partition(number);
        let connected = match &self.token {
            Some(token) => raw::produce_as(&self.addr, token, topic, partition),
            None => raw::produce(&self.addr, topic, partition),
        };
        connected.map_err(|error| Failure::connect(&error))
    }

    /// The connection of consumer `number`, which begins with the first record.
    pub(super) fn consumer(&self, topic: &TopicName, number: u32) -> Result<TcpStream, Failure> {
        if let Some(token) = &self.token {
            return self.consumer_as(token, Start::Earliest, topic, self.partition(number));
        }
        self.consumer_of(&new_group()?, topic, self.partition(number))
    }

    /// A connection of a consumer that is sent only what is stored in the first partition from now on.
    pub(super) fn consumer_at_end(&self, topic: &TopicName) -> Result<TcpStream, Failure> {
        let (group, partition) = (new_group()?, self.partition(0));
        if let Some(token) = &self.token {
            return self.consumer_as(token, Start::Latest, topic, partition);
        }
        runtime::block_on(async {
            // The broker lowers it to the next offset that it will give.
            let options = ConnectOptions { protocol: Protocol::V1_0, ..ConnectOptions::default() };
            let (addr, topic) = (self.addr.as_str(), topic.clone());
            let mut committer = Committer::new(addr, group.clone(), topic, partition, options);
            committer.commit(Offset::MAX).await.map_err(|error| Failure::commit(&error))
        })?;
        self.consumer_of(&group, topic, partition)
    }

    fn consumer_as(
        &self,
        token: &Token,
        start: Start,
        topic: &TopicName,
        partition: PartitionId,
    ) -> Result<TcpStream, Failure> {
        raw::consume_as(&self.addr, token, start, topic, partition)
            .map_err(|error| Failure::connect(&error))
    }

    fn consumer_of(
        &self,
        group: &GroupName,
        topic: &TopicName,
        partition: PartitionId,
    ) -> Result<TcpStream, Failure> {
        raw::consume(&self.addr, group, topic, partition).map_err(|error| Failure::connect(&error))
    }

    /// Stores a frame more in the partition of connection `number`, and tells how many records were there before.
    pub(super) fn touch(
        &self,
        topic: &TopicName,
        number: u32,
        shape: Shape,
    ) -> Result<u64, Failure> {
        use std::io::{Read as _, Write as _};
        let (frame, _) = shape.chunk(1)?;
        let mut ack = [0; ACK_LEN];
        let mut stream = self.producer(topic, number)?;
        super::link::be_patient(&stream)?;
        let exchanged = stream.write_all(&frame).and_then(|()| stream.read_exact(&mut ack));
        exchanged.map_err(|error| super::link::broken(&error, "no frame"))?;
        let mut acks = raw::Acks::default();
        acks.add(&ack);
        match acks.last {
            Some(offset) if acks.stored == 1 => Ok(offset),
            _ => Err(Failure::Runtime("the broker refused the first frame".to_owned())),
        }
    }

    /// Fills each of the partitions that `connections` connections use up to so many frames; tells how many it stored
    /// in all.
    pub(super) fn fill(
        &self,
        topic: &TopicName,
        shape: Shape,
        connections: u32,
        frames: u64,
        progress: &Progress,
    ) -> Result<u64, Failure> {
        let mut filled = 0;
        for number in 0..connections.min(self.partitions) {
            let records = self.touch(topic, number, shape)? + u64::from(shape.batch);
            let missing = shape.frames_for(shape.records_in(frames).saturating_sub(records));
            if missing > 0 {
                let load = Load { shape, window: None, until: Until::Frames(missing) };
                produce::run(&[self.producer(topic, number)?], &load, progress)?;
            }
            filled += missing;
        }
        Ok(filled)
    }
}

/// The setting of a broker that makes topics with so many partitions.
pub(super) fn partitions_setting(partitions: u32) -> String {
    format!("topics.default_partitions={partitions}")
}

/// A group that nobody has used.
pub(super) fn new_group() -> Result<GroupName, Failure> {
    crate::cli::consume::ephemeral_group()
}
