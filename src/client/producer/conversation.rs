//! One connection of a producer: frames out and acks in, neither waiting for the other.

use std::io;
use std::sync::Arc;

use tokio::time::{Instant, sleep_until};

use super::driver::{Driver, HANDSHAKE_GRACE};
use super::queue::Cause;
use super::window::Window;
use crate::client::Protocol;
use crate::client::connect::Refused;
use crate::client::stream::Stream;
use crate::protocol::v1_1::{Answer, AnswerTo, Parsed};
use crate::protocol::{ACK_LEN, Ack, Status};

/// Acks read at a time, in bytes: a few thousand acks. The longest answer fits.
const READ_BYTES: usize = 72 * 1024;

const _: () = assert!(READ_BYTES > crate::protocol::v1_1::ANSWER_LEN_MAX);

/// Capacity that the write buffer keeps after a large frame, in bytes.
const KEPT_CAPACITY: usize = 1024 * 1024;

/// How a connection ended.
pub(super) enum End {
    /// The producer is closed, and everything is acked or failed.
    Finished,
    /// The connection broke.
    Broken(Cause),
}

/// What a connection sleeps for, besides acks.
#[derive(Debug, Clone, Copy)]
struct Plan {
    /// Room in the socket.
    writing: bool,
    /// That many queued bytes.
    wake_at: usize,
    /// A time.
    deadline: Option<Instant>,
}

pub(super) struct Conversation {
    stream: Stream,
    /// Frames encoded and not yet written, from `written` on.
    out: Vec<u8>,
    written: usize,
    /// The start of an ack may be left in it.
    input: Vec<u8>,
    input_len: usize,
    /// Nothing is written before then.
    grace_until: Option<Instant>,
    /// This connection began in suspicion.
    careful: bool,
    sent_any: bool,
    acked_any: bool,
    /// The broker takes no more from this producer, whatever it is.
    rejected: Option<Refused>,
    /// When the broker last took a byte or sent one, or the first frame was made ready that waits for an ack.
    quiet_since: Instant,
}

impl Conversation {
    pub(super) fn new(stream: Stream, careful: bool) -> Self {
        let now = Instant::now();
        Self {
            stream,
            out: Vec::new(),
            written: 0,
            input: vec![0; READ_BYTES],
            input_len: 0,
            grace_until: careful.then(|| now + HANDSHAKE_GRACE),
            careful,
            sent_any: false,
            acked_any: false,
            rejected: None,
            quiet_since: now,
        }
    }

    pub(super) async fn run(mut self, driver: &mut Driver) -> End {
        let window = Arc::clone(&driver.window);
        loop {
            driver.take();
            if driver.is_finished() {
                return End::Finished;
            }
            let step = match self.step(driver) {
                Ok(false) => {
                    let plan = self.plan(driver);
                    self.wait(&window, plan).await
                }
                // The runtime must get to look at sockets, and senders at their queue, between two bulks.
                Ok(true) => {
                    tokio::task::yield_now().await;
                    Ok(())
                }
                Err(error) => Err(error),
            };
            if let Err(error) = step {
                self.read_rest(driver);
                return End::Broken(self.verdict(driver, &error));
            }
        }
    }

    /// Writes and reads what is possible without waiting. `false` if nothing was.
    fn step(&mut self, driver: &mut Driver) -> io::Result<bool> {
        let now = Instant::now();
        let wrote = self.write(driver, now)?;
        let read = self.read(driver, now)?;
        if self.ack_due(driver).is_some_and(|due| due <= now) {
            let text = format!("no ack within {} ms", driver.options.ack_timeout.as_millis());
            return Err(io::Error::new(io::ErrorKind::TimedOut, text));
        }
        Ok(wrote || read)
    }

    fn write(&mut self, driver: &mut Driver, now: Instant) -> io::Result<bool> {
        self.stream.try_flush()?;
        if self.written == self.out.len() {
            self.refill(driver, now);
        }
        if self.out.is_empty() {
            return Ok(false);
        }
        let n = match self.stream.try_write(&self.out[self.written..]) {
            Ok(n) => n,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        };
        self.written += n;
        if n > 0 {
            // Whoever takes a large record in pieces is there.
            self.quiet_since = now;
        }
        Ok(n > 0)
    }

    fn refill(&mut self, driver: &mut Driver, now: Instant) {
        self.out.clear();
        self.out.shrink_to(KEPT_CAPACITY);
        self.written = 0;
        if self.grace_until.is_some_and(|until| until > now) || driver.held_until(now).is_some() {
            return;
        }
        if driver.queue.in_flight() == 0 {
            self.quiet_since = now;
        }
        let max_frames = driver.frame_window();
        driver.queue.fill(&mut self.out, driver.options.batch_bytes, max_frames);
        self.sent_any |= !self.out.is_empty();
    }

    fn read(&mut self, driver: &mut Driver, now: Instant) -> io::Result<bool> {
        let n = match self.stream.try_read(&mut self.input[self.input_len..]) {
            Ok(0) => return Err(closed_by_broker()),
            Ok(n) => n,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        };
        self.input_len += n;
        self.quiet_since = now;
        let result = self.take_acks(driver, now);
        driver.release();
        result?;
        Ok(true)
    }

    /// A write can fail while acks are still there to be read: each one saves a duplicate.
    fn read_rest(&mut self, driver: &mut Driver) {
        while self.rejected.is_none() && matches!(self.read(driver, Instant::now()), Ok(true)) {}
    }

    /// Completes the frames whose acks are there, all of them before anyone is woken for room.
    fn take_acks(&mut self, driver: &mut Driver, now: Instant) -> io::Result<()> {
        let (mut settled, mut refused) = (false, false);
        let mut at = 0;
        let protocol = driver.options.connect.protocol;
        while let Some((answer, len)) = next_answer(&self.input[at..self.input_len], protocol) {
            at += len;
            if protocol == Protocol::V1_1 && concerns_all(&answer) {
                self.rejected = Some(Refused::from_answer(answer));
                break;
            }
            match driver.queue.acked(answer, now) {
                Some(true) => settled = true,
                Some(false) => refused = true,
                None => {
                    let text = "the broker sent an ack for a frame that was not sent";
                    return Err(io::Error::new(io::ErrorKind::InvalidData, text));
                }
            }
        }
        self.input.copy_within(at..self.input_len, 0);
        self.input_len -= at;
        if settled {
            driver.settled();
        }
        if refused {
            driver.pause(now);
        }
        if settled || refused {
            self.acked_any = true;
            driver.careful = false;
        }
        // The broker closes behind it.
        if self.rejected.is_some() { Err(closed_by_broker()) } else { Ok(()) }
    }

    /// What to wait for, when nothing can be done now.
    fn plan(&self, driver: &Driver) -> Plan {
        let now = Instant::now();
        let writing = self.written < self.out.len();
        let room = driver.queue.in_flight() < driver.frame_window();
        let held = self.grace_until.filter(|until| *until > now).or(driver.held_until(now));
        let paused = driver.paused_until.is_some_and(|until| until > now);
        let send_at = held.filter(|_| !writing && room && driver.queue.has_unsent());
        Plan {
            writing,
            wake_at: driver.wake_at(!writing && room && !paused),
            deadline: [send_at, self.ack_due(driver)].into_iter().flatten().min(),
        }
    }

    async fn wait(&mut self, window: &Window, plan: Plan) -> io::Result<()> {
        let deadline = plan.deadline;
        tokio::select! {
            biased;
            ready = self.stream.ready(plan.writing) => ready,
            () = window.news(plan.wake_at) => Ok(()),
            () = sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => Ok(()),
        }
    }

    /// When an ack is overdue, if one is due at all.
    fn ack_due(&self, driver: &Driver) -> Option<Instant> {
        (driver.queue.in_flight() > 0).then(|| self.quiet_since + driver.options.ack_timeout)
    }

    /// What the end of this connection says. A close without a byte is all that 1.0 says to a bad request, but a crash and
    /// a network fault look the same, so nothing is concluded from a first one.
    fn verdict(&mut self, driver: &mut Driver, error: &io::Error) -> Cause {
        if let Some(refused) = self.rejected.take() {
            return Cause::Rejected(refused);
        }
        if self.acked_any || error.kind() == io::ErrorKind::TimedOut {
            return Cause::Lost(error.to_string().into());
        }
        if self.careful {
            return if self.sent_any { Cause::FrameRefused } else { Cause::HandshakeRefused };
        }
        driver.careful |= self.sent_any;
        Cause::Lost(error.to_string().into())
    }
}

/// The answer at the start of the bytes, and how many it takes. In 1.0 none has a message.
fn next_answer(bytes: &[u8], protocol: Protocol) -> Option<(Answer, usize)> {
    match protocol {
        Protocol::V1_0 => Ack::read(bytes).map(|ack| {
            (Answer { code: ack.code, value: ack.offset, message: String::new() }, ACK_LEN)
        }),
        Protocol::V1_1 => match Answer::parse(AnswerTo::Frame, bytes) {
            Parsed::Complete(answer, len) => Some((answer, len)),
            Parsed::Incomplete { .. } => None,
        },
    }
}

/// Whether an error is not that of one frame: the next would get the same.
fn concerns_all(answer: &Answer) -> bool {
    let of_the_frame = matches!(answer.status(), Some(Status::TooLarge | Status::Malformed));
    !answer.is_ok() && !answer.is_transient() && !of_the_frame
}

fn closed_by_broker() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the broker closed the connection")
}
