//! `hermitmq consume`: records go to standard output.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::{self, Write};
use std::time::Duration;

use tokio::time::Instant;

use crate::client::{
    self, Committer, ConnectOptions, ConsumeError, ConsumerOptions, GroupConsumer,
    GroupConsumerOptions, Message, PartitionError, Protocol, Share,
};
use crate::model::{GroupName, Offset, PartitionId, TopicName, limits};

use super::args::{ConsumeArgs, Member, Start};
use super::failure::Failure;
use super::output::{Format, FormatName, Output, Shown};
use super::runtime::{self, Interrupt};

/// Time between two commits.
const COMMIT_INTERVAL: Duration = Duration::from_secs(1);

/// Time for which commits may fail before that ends the command; the consumer repairs its connection meanwhile.
const COMMIT_PATIENCE: Duration = Duration::from_secs(30);

/// Largest frame that is read: any that a broker can be configured to take, with its key and header.
const FRAME_BYTES_MAX: u64 = (limits::PAYLOAD_MB_MAX as u64 + 2) * limits::MIB;

/// Committed in protocol 1.0 to mean the end of the log: the broker lowers it to the next offset that it will give.
const OFFSET_LATEST: Offset = Offset::MAX;

pub(super) fn run(args: &ConsumeArgs) -> Result<(), Failure> {
    runtime::block_on(consume(args))
}

async fn consume(args: &ConsumeArgs) -> Result<(), Failure> {
    check_version(args)?;
    let interrupt = Interrupt::listen()?;
    let connect = args.target.connect()?;
    let share = share(args);
    let partitions = partitions(args, &share, &connect).await?;
    let group = match (&args.group, connect.protocol) {
        (None, Protocol::V1_0) => Some(ephemeral_group()?),
        (group, _) => group.clone(),
    };
    let start = match (&group, args.from) {
        (Some(group), Some(Start(start))) => {
            for &partition in &partitions {
                seek(args, group, partition, start, &connect).await?;
            }
            None
        }
        (_, from) => from.map(|Start(start)| start),
    };
    if args.count == Some(0) {
        return Ok(());
    }
    let consumer = ConsumerOptions {
        connect,
        start,
        until_end: args.until_end,
        max_frame_bytes: FRAME_BYTES_MAX,
        retry: args.target.retry(),
        ..ConsumerOptions::default()
    };
    let options = GroupConsumerOptions {
        consumer,
        share,
        auto_commit: None,
        ..GroupConsumerOptions::default()
    };
    let consumer =
        GroupConsumer::connect(args.target.broker(), group, args.target.topic.clone(), options)
            .await
            .map_err(|error| Failure::connect(&error))?;
    let output = Output::new(io::stdout().lock(), format(args));
    let mut printing = Printing {
        consumer,
        topic: args.target.topic.clone(),
        interrupt,
        output,
        left: args.count,
        commits: args.group.is_some(),
        refused: None,
        printed: false,
        committed_at: Instant::now(),
        failing_since: None,
    };
    let ended = printing.run().await;
    printing.finish(ended).await
}

/// What protocol 1.0 cannot do is said before anything is asked of the broker.
fn check_version(args: &ConsumeArgs) -> Result<(), Failure> {
    if args.target.protocol == Protocol::V1_1 {
        return Ok(());
    }
    let what = match args.from {
        _ if args.until_end => {
            "--until-end: protocol 1.0 does not say where the log ends; --count N stops after N records"
        }
        _ if args.member.is_some() => {
            "--member: protocol 1.0 does not say how many partitions there are; --partition N reads one"
        }
        Some(Start(client::Start::Timestamp(_))) => {
            "--from: protocol 1.0 cannot start at a time; an offset, earliest and latest it can"
        }
        _ => return Ok(()),
    };
    Err(Failure::Usage(format!(
        "{what}. Without --protocol 1.0 it works, if the broker speaks 1.1"
    )))
}

/// How records are printed.
fn format(args: &ConsumeArgs) -> Format {
    match (&args.template, args.raw) {
        (Some(template), _) => Format::Template(template.clone()),
        (None, true) => Format::Named(FormatName::Raw),
        (None, false) => Format::Named(args.format.unwrap_or(FormatName::Lines)),
    }
}

/// Which partitions to read.
fn share(args: &ConsumeArgs) -> Share {
    match (args.target.partition, args.member, args.target.protocol) {
        (Some(partition), ..) => Share::Partitions(vec![partition]),
        (None, Some(Member { member, of }), _) => Share::Member { member, of },
        // 1.0 does not say how many partitions there are.
        (None, None, Protocol::V1_0) => Share::Partitions(vec![0]),
        (None, None, Protocol::V1_1) => Share::All,
    }
}

/// The partitions that there are to read, as far as that matters: an offset belongs to one of them.
async fn partitions(
    args: &ConsumeArgs,
    share: &Share,
    connect: &ConnectOptions,
) -> Result<Vec<PartitionId>, Failure> {
    if let Share::Partitions(partitions) = share {
        return Ok(partitions.clone());
    }
    let Some(Start(start)) = args.from else { return Ok(Vec::new()) };
    let count = client::partition_count(&args.target.broker(), &args.target.topic, connect)
        .await
        .map_err(|error| Failure::connect(&error))?;
    if count > 1 && matches!(start, client::Start::Offset(_)) {
        return Err(Failure::Usage(format!(
            "an offset belongs to one partition, and {} has {count}: choose one with --partition",
            args.target.topic
        )));
    }
    Ok((0..count).filter(|&partition| share.includes(partition)).collect())
}

/// A group for this run alone.
pub(super) fn ephemeral_group() -> Result<GroupName, Failure> {
    let random = RandomState::new().build_hasher().finish();
    GroupName::parse(format!("cli-{random:016x}"))
        .map_err(|error| Failure::runtime("cannot name a group", &error))
}

/// Moves a group to where `--from` says.
async fn seek(
    args: &ConsumeArgs,
    group: &GroupName,
    partition: PartitionId,
    start: client::Start,
    connect: &ConnectOptions,
) -> Result<(), Failure> {
    let (broker, topic) = (args.target.broker(), &args.target.topic);
    let offset = match (start, connect.protocol) {
        // A new group starts there anyway.
        (client::Start::Earliest, Protocol::V1_0) if args.group.is_none() => return Ok(()),
        (client::Start::Earliest, Protocol::V1_0) => 0,
        (client::Start::Offset(offset), Protocol::V1_0) => offset,
        (client::Start::Latest, Protocol::V1_0) => OFFSET_LATEST,
        (client::Start::Timestamp(_) | client::Start::Committed(_), Protocol::V1_0) => {
            return Err(Failure::Usage("protocol 1.0 cannot start at a time".to_owned()));
        }
        (start, Protocol::V1_1) => client::offset_of(&broker, topic, partition, start, connect)
            .await
            .map_err(|error| Failure::connect(&error))?,
    };
    let mut committer =
        Committer::new(broker, group.clone(), topic.clone(), partition, connect.clone());
    committer.commit(offset).await.map_err(|error| Failure::commit(&error))
}

/// A consumer whose records are being printed.
struct Printing<W: Write> {
    consumer: GroupConsumer,
    topic: TopicName,
    interrupt: Interrupt,
    output: Output<W>,
    /// Records still to print; none means no end.
    left: Option<u64>,
    /// Whether the group outlives this run.
    commits: bool,
    /// Why a partition was left out, if one was.
    refused: Option<Failure>,
    /// Something was written that is not committed yet.
    printed: bool,
    /// When the last commit was tried.
    committed_at: Instant,
    /// Since when commits fail, if they do.
    failing_since: Option<Instant>,
}

impl<W: Write> Printing<W> {
    /// Prints until the count is reached, a signal comes, or something fails.
    async fn run(&mut self) -> Result<(), Failure> {
        while self.left != Some(0) && !self.interrupt.is_asked() {
            let buffered = match self.consumer.try_next() {
                Ok(buffered) => buffered,
                Err(error) if self.goes_on_without(&error) => continue,
                Err(error) => return self.ended(&error),
            };
            let (partition, message) = match buffered {
                Some(buffered) => buffered,
                None => match self.wait().await {
                    Ok(Some(received)) => received,
                    Ok(None) => continue,
                    Err(Waited::Failed(failure)) => return Err(failure),
                    Err(Waited::Ended(error)) if self.goes_on_without(&error) => continue,
                    Err(Waited::Ended(error)) => return self.ended(&error),
                },
            };
            self.tell_gaps();
            self.print(partition, &message)?;
            if self.commit_is_due() {
                self.commit_or_wait().await?;
            }
        }
        self.refused.take().map_or(Ok(()), Err)
    }

    /// Leaves a partition out that the broker refuses, as at damage: the others are printed, if there are any.
    #[expect(clippy::print_stderr, reason = "what people are to see beside the records")]
    fn goes_on_without(&mut self, error: &PartitionError) -> bool {
        let refused = matches!(error.source, ConsumeError::Rejected(_));
        let goes_on = refused && self.consumer.leave(error.partition);
        if goes_on {
            eprintln!("hermitmq: {error}; the other partitions are read");
            self.refused.get_or_insert(Failure::runtime("cannot receive", error));
        }
        goes_on
    }

    /// What the end of the records means.
    fn ended(&mut self, error: &PartitionError) -> Result<(), Failure> {
        match error.source {
            ConsumeError::End => self.refused.take().map_or(Ok(()), Err),
            _ => Err(Failure::runtime("cannot receive", error)),
        }
    }

    /// Shows what was printed, then waits for a record, a signal or the time to commit.
    async fn wait(&mut self) -> Result<Option<(PartitionId, Message)>, Waited> {
        self.flush().map_err(Waited::Failed)?;
        let due = self.committed_at + COMMIT_INTERVAL;
        let uncommitted = self.commits && self.printed;
        tokio::select! {
            received = self.consumer.recv() => {
                return received.map(Some).map_err(Waited::Ended);
            }
            () = self.interrupt.asked() => {}
            () = tokio::time::sleep_until(due), if uncommitted => {
                self.commit_or_wait().await.map_err(Waited::Failed)?;
            }
        }
        Ok(None)
    }

    /// Says which records are missing.
    #[expect(clippy::print_stderr, reason = "what people are to see beside the records")]
    fn tell_gaps(&mut self) {
        while let Some((partition, gap)) = self.consumer.take_gap() {
            eprintln!(
                "hermitmq: records of partition {partition} before offset {} are missing: {}",
                gap.to, gap.message
            );
        }
    }

    fn print(&mut self, partition: PartitionId, message: &Message) -> Result<(), Failure> {
        let shown = Shown { topic: &self.topic, partition, message };
        let written = self.output.record(&shown);
        written.map_err(|error| self.cannot_write(&error))?;
        self.printed = true;
        self.left = self.left.map(|left| left.saturating_sub(u64::from(message.record_count)));
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Failure> {
        let flushed = self.output.flush();
        flushed.map_err(|error| self.cannot_write(&error))
    }

    /// How much of what was written came to its reader is unknown now: nothing more is committed.
    fn cannot_write(&mut self, error: &io::Error) -> Failure {
        self.commits = false;
        Failure::output(error)
    }

    fn commit_is_due(&self) -> bool {
        self.commits && self.committed_at.elapsed() >= COMMIT_INTERVAL
    }

    /// Commits in the middle of the run. A failure may pass: the next commit makes up for it.
    async fn commit_or_wait(&mut self) -> Result<(), Failure> {
        match self.commit().await {
            Err(failure @ Failure::Runtime(_)) => {
                let since = *self.failing_since.get_or_insert_with(Instant::now);
                if since.elapsed() < COMMIT_PATIENCE { Ok(()) } else { Err(failure) }
            }
            result => {
                self.failing_since = None;
                result
            }
        }
    }

    /// Commits what was written, after it has left this process: a record is repeated rather than lost.
    async fn commit(&mut self) -> Result<(), Failure> {
        self.flush()?;
        self.committed_at = Instant::now();
        if self.commits && self.printed {
            let committed = self.consumer.commit().await;
            committed.map_err(|error| Failure::commit(&error))?;
            self.printed = false;
        }
        Ok(())
    }

    /// Commits what was printed whatever ended the run.
    async fn finish(mut self, ended: Result<(), Failure>) -> Result<(), Failure> {
        let committed = self.commit().await;
        // The first failure is the one to tell.
        ended.and(committed)
    }
}

/// Why there is nothing to print.
enum Waited {
    /// Something else failed.
    Failed(Failure),
    /// There is no record.
    Ended(PartitionError),
}
