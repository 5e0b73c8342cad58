//! `hermitmq produce`: lines or a file become records.

use std::fs::File;
use std::io::{self, IsTerminal as _, Read as _};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

use crate::client::{Packing, Producer, ProducerOptions, Protocol, Record, TopicProducer};
use crate::model::limits;

use super::args::ProduceArgs;
use super::failure::Failure;
use super::lines;
use super::progress::Progress;
use super::runtime::{self, Interrupt};
use super::tally::Tally;

/// Largest record that is sent, in bytes. The broker may take less, and refuses what is too large for it.
const PAYLOAD_BYTES_MAX: u32 = limits::PAYLOAD_MB_MAX * 1024 * 1024;

pub(super) fn run(args: &ProduceArgs) -> Result<(), Failure> {
    runtime::block_on(produce(args))
}

async fn produce(args: &ProduceArgs) -> Result<(), Failure> {
    let interrupt = Interrupt::listen()?;
    // Before connecting: a wrong path needs no broker.
    let input = Input::open(args)?;
    let mut sending = Sending::start(args, interrupt, input.progress()).await?;
    let sent = sending.send_all(input).await;
    sending.finish(sent).await
}

/// Where records come from.
enum Input {
    /// Lines of standard input.
    Stdin,
    /// Lines of each file.
    Lines(Vec<(PathBuf, File)>),
    /// Each file as a whole.
    Whole(Vec<(PathBuf, File)>),
}

impl Input {
    fn open(args: &ProduceArgs) -> Result<Self, Failure> {
        let open = |paths: &[PathBuf]| {
            let files = paths.iter().map(|path| match File::open(path) {
                Ok(file) => Ok((path.clone(), file)),
                Err(error) => Err(cannot_read(path, &error)),
            });
            files.collect::<Result<Vec<_>, Failure>>()
        };
        Ok(match (args.file.is_empty(), args.lines.is_empty()) {
            (false, _) => Self::Whole(open(&args.file)?),
            (true, false) => Self::Lines(open(&args.lines)?),
            (true, true) => Self::Stdin,
        })
    }

    /// Whoever types is not to have it drawn over.
    fn progress(&self) -> Progress {
        match self {
            Self::Stdin if io::stdin().is_terminal() => Progress::hidden(),
            _ => Progress::records("stored"),
        }
    }
}

fn cannot_read(path: &Path, error: &io::Error) -> Failure {
    Failure::runtime(&format!("cannot read {}", path.display()), error)
}

/// What is made up for, of a timer that woke late. What the input did not give in time is not owed.
const LATE_MAX: Duration = Duration::from_millis(100);

/// When records are due that are sent at a fixed rate.
struct Rate {
    next: Instant,
    interval: Duration,
}

impl Rate {
    fn new(per_second: NonZeroU32, now: Instant) -> Self {
        Self { next: now, interval: Duration::from_secs(1) / per_second.get() }
    }

    /// When the record is due that is there `now`. The one after it is due an interval later.
    fn take(&mut self, now: Instant) -> Instant {
        let due = self.next.max(now.checked_sub(LATE_MAX).unwrap_or(now));
        self.next = due + self.interval;
        due
    }
}

/// Where records go.
enum Sink {
    /// To one partition.
    Partition(Producer),
    /// To each by its key, or in turns.
    Topic(Box<TopicProducer>),
}

/// A producer with its records on the way.
struct Sending {
    sink: Sink,
    /// The key of every record.
    key: Bytes,
    /// What stands between the key and the payload of a line.
    key_sep: Option<String>,
    rate: Option<Rate>,
    interrupt: Interrupt,
    tally: Arc<Tally>,
    /// Records handed over, and so the number of the record in work, counted from 1.
    sent: u64,
}

impl Sending {
    async fn start(
        args: &ProduceArgs,
        interrupt: Interrupt,
        progress: Progress,
    ) -> Result<Self, Failure> {
        let target = &args.target;
        let packing = match args.batch {
            Some(max_records) => Packing::Lines { max_records },
            None => Packing::Frames,
        };
        let options = ProducerOptions {
            connect: target.connect()?,
            packing,
            max_payload_bytes: PAYLOAD_BYTES_MAX,
            retry: target.retry(),
            ..ProducerOptions::default()
        };
        let (broker, topic) = (target.broker(), target.topic.clone());
        let alone = match (target.partition, target.protocol) {
            // 1.0 does not say how many partitions there are.
            (None, Protocol::V1_0) => Some(0),
            (partition, _) => partition,
        };
        let sink = match alone {
            Some(partition) => {
                Producer::connect(&broker, topic, partition, options).await.map(Sink::Partition)
            }
            None => {
                TopicProducer::connect(&broker, topic, options).await.map(Box::new).map(Sink::Topic)
            }
        };
        let sink = sink.map_err(|error| Failure::connect(&error))?;
        let key = args.key.clone().map(Bytes::from).unwrap_or_default();
        let key_sep = args.key_sep.clone();
        let rate = args.rate.map(|per_second| Rate::new(per_second, Instant::now()));
        let tally = Arc::new(Tally::new(progress));
        Ok(Self { sink, key, key_sep, rate, interrupt, tally, sent: 0 })
    }

    /// Sends everything that is to be read, or stops before it.
    async fn send_all(&mut self, input: Input) -> Result<(), Failure> {
        match input {
            Input::Stdin => self.send_lines(lines::read(io::stdin()), None).await,
            Input::Lines(files) => {
                for (path, file) in files {
                    if self.stops() {
                        break;
                    }
                    self.send_lines(lines::read(file), Some(&path)).await?;
                }
                Ok(())
            }
            Input::Whole(files) => {
                for (path, mut file) in files {
                    let mut payload = Vec::new();
                    file.read_to_end(&mut payload).map_err(|error| cannot_read(&path, &error))?;
                    if !self.is_time().await || self.stops() {
                        break;
                    }
                    self.send(self.key.clone(), payload.into()).await?;
                }
                Ok(())
            }
        }
    }

    /// Sends each line of a file or of standard input, never holding more than a few chunks of it.
    async fn send_lines(
        &mut self,
        mut chunks: lines::Chunks,
        path: Option<&Path>,
    ) -> Result<(), Failure> {
        while let Some(chunk) = self.next(&mut chunks).await {
            let chunk = chunk.map_err(|error| match path {
                Some(path) => cannot_read(path, &error),
                None => Failure::runtime("cannot read standard input", &error),
            })?;
            for line in chunk.lines() {
                if !self.is_time().await || self.stops() {
                    return Ok(());
                }
                let (key, payload) = self.split(line);
                self.send(key, payload).await?;
            }
        }
        Ok(())
    }

    /// What was read next; none at the end, or if the command is to end.
    async fn next(&mut self, chunks: &mut lines::Chunks) -> Option<io::Result<lines::Chunk>> {
        tokio::select! {
            chunk = chunks.recv() => chunk,
            () = self.interrupt.asked() => None,
        }
    }

    /// Whether no more is to be sent. Later records must not be stored while an earlier one is missing.
    fn stops(&self) -> bool {
        self.interrupt.is_asked() || self.tally.has_failure()
    }

    /// Waits until the next record is due; false if the command is to end before.
    async fn is_time(&mut self) -> bool {
        let now = Instant::now();
        let due = self.rate.as_mut().map(|rate| rate.take(now));
        match due.filter(|&due| due > now) {
            None => true,
            Some(due) => tokio::select! {
                () = tokio::time::sleep_until(due) => true,
                () = self.interrupt.asked() => false,
            },
        }
    }

    /// The key and the payload of a line.
    fn split(&self, mut line: Bytes) -> (Bytes, Bytes) {
        let sep = self.key_sep.as_ref().map(String::as_bytes);
        let at = sep.and_then(|sep| {
            let at = line.windows(sep.len()).position(|window| window == sep)?;
            Some((at, sep.len()))
        });
        match at {
            Some((at, len)) => {
                let key = line.split_to(at);
                (key, line.slice(len..))
            }
            None => (self.key.clone(), line),
        }
    }

    /// Hands one record over; waits while too many are on the way.
    async fn send(&mut self, key: Bytes, payload: Bytes) -> Result<(), Failure> {
        self.sent += 1;
        let (number, bytes) = (self.sent, payload.len() as u64);
        let record = Record { key, payload, timestamp: None };
        let tally = Arc::clone(&self.tally);
        let callback = move |outcome| tally.add(number, bytes, outcome);
        let not_sent = |error: &dyn std::error::Error| {
            Failure::runtime(&format!("record {number} was not sent"), error)
        };
        match &self.sink {
            Sink::Partition(producer) => {
                producer.send_with(record, callback).await.map_err(|error| not_sent(&error))
            }
            Sink::Topic(producer) => {
                let sent = producer.send_with(record, callback).await;
                sent.map(drop).map_err(|error| not_sent(&error))
            }
        }
    }

    /// Waits for the outcome of every record that was handed over. The first one that was not stored is told, else
    /// what stopped the sending.
    async fn finish(self, sent: Result<(), Failure>) -> Result<(), Failure> {
        match &self.sink {
            Sink::Partition(producer) => producer.close().await,
            Sink::Topic(producer) => producer.close().await,
        }
        if let Some(failure) = self.tally.failure() {
            return Err(failure);
        }
        sent?;
        if self.interrupt.is_asked() {
            return Err(self.tally.interrupted());
        }
        self.tally.summarize();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// When so many records are sent that are all there from `now` on.
    fn sent(rate: &mut Rate, mut now: Instant, count: usize) -> Vec<Instant> {
        let mut send = || {
            now = now.max(rate.take(now));
            now
        };
        std::iter::repeat_with(&mut send).take(count).collect()
    }

    #[test]
    fn a_pause_of_the_input_is_not_made_up_for() {
        const SECOND: Duration = Duration::from_secs(1);
        let start = Instant::now();
        let mut rate = Rate::new(NonZeroU32::new(100).unwrap(), start);
        let begun = sent(&mut rate, start, 101);
        assert_eq!((begun[0], begun[100]), (start, start + SECOND));
        let later = start + 3_600 * SECOND;
        let resumed = sent(&mut rate, later, 200);
        let of_first_second = resumed.iter().filter(|sent| **sent < later + SECOND).count();
        assert!((100..=110).contains(&of_first_second), "{of_first_second}");
    }

    #[test]
    fn timers_that_wake_late_do_not_lower_the_rate() {
        let start = Instant::now();
        let mut rate = Rate::new(NonZeroU32::new(100).unwrap(), start);
        let late = Duration::from_millis(5);
        let mut now = start;
        for _ in 0..=100 {
            let due = rate.take(now);
            now = if due > now { due + late } else { now };
        }
        assert_eq!(now, start + Duration::from_secs(1) + late);
    }
}
