//! `hermitmq consume`: records go to standard output.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::{self, Write};
use std::time::Duration;

use tokio::time::Instant;

use crate::client::{self, Consumer, ConsumerOptions, Message};
use crate::model::{GroupName, Offset, limits};

use super::args::{ConsumeArgs, Start};
use super::failure::Failure;
use super::output::Output;
use super::runtime::{self, Interrupt};

/// Time between two commits.
const COMMIT_INTERVAL: Duration = Duration::from_secs(1);

/// Time for which commits may fail before that ends the command; the consumer repairs its connection meanwhile.
const COMMIT_PATIENCE: Duration = Duration::from_secs(30);

/// Largest frame that is read: any that a broker can be configured to take, with its key and header.
const FRAME_BYTES_MAX: u64 = (limits::PAYLOAD_MB_MAX as u64 + 2) * limits::MIB;

/// Committed to mean the end of the log: the broker lowers it to the next offset that it will give.
const OFFSET_LATEST: Offset = Offset::MAX;

pub(super) fn run(args: &ConsumeArgs) -> Result<(), Failure> {
    runtime::block_on(consume(args))
}

async fn consume(args: &ConsumeArgs) -> Result<(), Failure> {
    let interrupt =
        Interrupt::listen().map_err(|error| Failure::runtime("cannot catch signals", &error))?;
    let broker = args.target.broker();
    let group = match &args.group {
        Some(group) => group.clone(),
        None => ephemeral_group()?,
    };
    seek(&broker, &group, args).await?;
    if args.count == Some(0) {
        return Ok(());
    }
    let (topic, partition) = (args.target.topic.clone(), args.target.partition);
    let options = ConsumerOptions {
        max_frame_bytes: FRAME_BYTES_MAX,
        retry: args.target.retry(),
        ..ConsumerOptions::default()
    };
    let consumer = Consumer::connect(&broker, group, topic, partition, options)
        .await
        .map_err(|error| Failure::connect(&error))?;
    let output = Output::new(io::stdout().lock(), args.raw);
    let mut printing = Printing {
        consumer,
        interrupt,
        output,
        left: args.count,
        commits: args.group.is_some(),
        printed: None,
        committed_at: Instant::now(),
        failing_since: None,
    };
    let ended = printing.run().await;
    printing.finish(ended).await
}

/// A group for this run alone.
pub(super) fn ephemeral_group() -> Result<GroupName, Failure> {
    let random = RandomState::new().build_hasher().finish();
    GroupName::parse(format!("cli-{random:016x}"))
        .map_err(|error| Failure::runtime("cannot name a group", &error))
}

/// Moves the group to where `--from` says. Protocol 1.0 has no other way to start anywhere.
async fn seek(broker: &str, group: &GroupName, args: &ConsumeArgs) -> Result<(), Failure> {
    let offset = match args.from {
        None => return Ok(()),
        // A new group starts there anyway.
        Some(Start::Earliest) if args.group.is_none() => return Ok(()),
        Some(Start::Earliest) => 0,
        Some(Start::At(offset)) => offset,
        Some(Start::Latest) => OFFSET_LATEST,
    };
    let target = &args.target;
    client::commit(broker, group, &target.topic, target.partition, offset)
        .await
        .map_err(|error| Failure::commit(&error))
}

/// A consumer whose records are being printed.
struct Printing<W: Write> {
    consumer: Consumer,
    interrupt: Interrupt,
    output: Output<W>,
    /// Records still to print; none means no end.
    left: Option<u64>,
    /// Whether the group outlives this run.
    commits: bool,
    /// Where the group resumes after what was written, if that is not committed yet.
    printed: Option<Offset>,
    /// When the last commit was tried.
    committed_at: Instant,
    /// Since when commits fail, if they do.
    failing_since: Option<Instant>,
}

impl<W: Write> Printing<W> {
    /// Prints until the count is reached, a signal comes, or something fails.
    async fn run(&mut self) -> Result<(), Failure> {
        while self.left != Some(0) && !self.interrupt.is_asked() {
            let buffered =
                self.consumer.try_next().map_err(|e| Failure::runtime("cannot receive", &e))?;
            let message = match buffered {
                Some(message) => message,
                None => match self.wait().await? {
                    Some(message) => message,
                    None => continue,
                },
            };
            self.print(&message)?;
            if self.commit_is_due() {
                self.commit_or_wait().await?;
            }
        }
        Ok(())
    }

    /// Shows what was printed, then waits for a record, a signal or the time to commit.
    async fn wait(&mut self) -> Result<Option<Message>, Failure> {
        self.output.flush().map_err(|error| Failure::output(&error))?;
        let due = self.committed_at + COMMIT_INTERVAL;
        let uncommitted = self.commits && self.printed.is_some();
        tokio::select! {
            message = self.consumer.recv() => {
                return message.map(Some).map_err(|error| Failure::runtime("cannot receive", &error));
            }
            () = self.interrupt.asked() => {}
            () = tokio::time::sleep_until(due), if uncommitted => {
                self.commit_or_wait().await?;
            }
        }
        Ok(None)
    }

    fn print(&mut self, message: &Message) -> Result<(), Failure> {
        self.output.record(&message.payload).map_err(|error| Failure::output(&error))?;
        self.printed = Some(message.next_offset);
        self.left = self.left.map(|left| left.saturating_sub(u64::from(message.record_count)));
        Ok(())
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
        self.output.flush().map_err(|error| Failure::output(&error))?;
        self.committed_at = Instant::now();
        if let (true, Some(offset)) = (self.commits, self.printed) {
            let committed = self.consumer.commit_offset(offset).await;
            committed.map_err(|error| Failure::commit(&error))?;
            self.printed = None;
        }
        Ok(())
    }

    /// Commits what was printed whatever ended the run, except a closed output: how much of it was read is unknown.
    async fn finish(mut self, ended: Result<(), Failure>) -> Result<(), Failure> {
        match ended {
            Err(Failure::OutputClosed) => Err(Failure::OutputClosed),
            Ok(()) => self.commit().await,
            Err(failure) => {
                // The first failure is the one to tell.
                let _ = self.commit().await;
                Err(failure)
            }
        }
    }
}
