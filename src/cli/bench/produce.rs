//! Producing: frames out as fast as they are taken, acks back.
//!
//! A connection with a window of 1 waits for each ack, on one thread. Any other sends ahead: a thread writes, another
//! reads acks, and they meet in a `Gate`.

use std::io::{self, Read, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use crate::cli::failure::Failure;
use crate::client::raw::{ACK_LEN, Acks};

use super::link::{self, PATIENCE};
use super::progress::Progress;
use super::shape::Shape;
use super::stats::{Latencies, Percentiles};

/// A buffer for acks; a few thousand of them.
const ACK_BUFFER: usize = 64 * 1024;

/// When a connection has sent enough.
#[derive(Debug, Clone, Copy)]
pub(super) enum Until {
    /// After so many frames.
    Frames(u64),
    /// After so long.
    Elapsed(Duration),
}

/// What each connection does.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    pub(super) shape: Shape,
    /// Frames without their acks, at most.
    pub(super) window: Option<u32>,
    pub(super) until: Until,
}

/// What all connections did together.
#[derive(Debug)]
pub(super) struct Produced {
    pub(super) frames: u64,
    /// From the first byte sent to the last ack.
    pub(super) elapsed: Duration,
    /// Of the acks, if each was waited for.
    pub(super) latency: Option<Percentiles>,
}

/// Produces over connections that are behind their handshake, a load on each.
pub(super) fn run(
    streams: &[TcpStream],
    load: &Load,
    progress: &Progress,
) -> Result<Produced, Failure> {
    let start = Barrier::new(streams.len() + 1);
    let mut latencies = Latencies::new()?;
    let (frames, elapsed) = thread::scope(|scope| {
        let work = |stream| {
            let start = &start;
            scope.spawn(move || {
                start.wait();
                connection(stream, load, progress)
            })
        };
        let threads: Vec<_> = streams.iter().map(work).collect();
        // Before the start: this thread may go on later than the others.
        let began = Instant::now();
        start.wait();
        let mut frames = 0;
        let mut result = Ok(());
        for thread in threads {
            let sent = thread.join().unwrap_or_else(|_| {
                Err(Failure::Runtime("a producer ended unexpectedly".to_owned()))
            });
            let merged = sent.and_then(|sent| {
                frames += sent.frames;
                sent.latencies.map_or(Ok(()), |those| latencies.merge(&those))
            });
            result = result.and(merged);
        }
        result.map(|()| (frames, began.elapsed()))
    })?;
    let latency = (load.window == Some(1)).then(|| latencies.percentiles());
    Ok(Produced { frames, elapsed, latency })
}

struct Sent {
    frames: u64,
    latencies: Option<Latencies>,
}

fn connection(stream: &TcpStream, load: &Load, progress: &Progress) -> Result<Sent, Failure> {
    link::be_patient(stream)?;
    if load.window == Some(1) {
        request_ack(stream, load, progress)
    } else {
        pipelined(stream, load, progress)
    }
}

/// One frame at a time, each with its ack.
fn request_ack(mut stream: &TcpStream, load: &Load, progress: &Progress) -> Result<Sent, Failure> {
    let (frame, _) = load.shape.chunk(1)?;
    let mut latencies = Latencies::new()?;
    let mut acks = Acks::default();
    let mut ack = [0; ACK_LEN];
    let began = Instant::now();
    let mut before = began;
    loop {
        let done = match load.until {
            Until::Frames(frames) => acks.stored == frames,
            Until::Elapsed(duration) => before - began >= duration,
        };
        if done {
            return Ok(Sent { frames: acks.stored, latencies: Some(latencies) });
        }
        let exchanged = stream.write_all(&frame).and_then(|()| stream.read_exact(&mut ack));
        exchanged.map_err(|error| broken(&error, acks.stored))?;
        let now = Instant::now();
        latencies.add(now - before);
        before = now;
        acks.add(&ack);
        refusals(&acks)?;
        progress.add(frame.len() as u64);
    }
}

/// How far the acks of a connection are, for the thread that sends.
struct Gate {
    acked: AtomicU64,
    /// Frames that there will be in all; not known at first.
    target: AtomicU64,
    broken: AtomicBool,
    sender: Thread,
}

impl Gate {
    /// Waits until there is room for `count` frames more in the window; false if there never will be.
    fn wait_for_room(&self, sent: u64, count: u64, window: u64) -> bool {
        loop {
            if self.broken.load(Ordering::Acquire) {
                return false;
            }
            let on_the_way = sent - self.acked.load(Ordering::Acquire);
            if on_the_way + count <= window {
                return true;
            }
            thread::park_timeout(PATIENCE);
        }
    }
}

fn pipelined(stream: &TcpStream, load: &Load, progress: &Progress) -> Result<Sent, Failure> {
    let window = load.window.map_or(u64::MAX, u64::from);
    let gate = Gate {
        acked: AtomicU64::new(0),
        target: AtomicU64::new(u64::MAX),
        broken: AtomicBool::new(false),
        sender: thread::current(),
    };
    let frame_len = load.shape.frame_len();
    thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let read = read_acks(stream, &gate, |frames| progress.add(frames * frame_len));
            if read.is_err() {
                gate.broken.store(true, Ordering::Release);
                // Frees a sender that waits for room in the socket; it may be closed already.
                let _ = stream.shutdown(Shutdown::Both);
            }
            gate.sender.unpark();
            read
        });
        let sent = send(stream, load, &gate, window);
        if sent.is_err() {
            // No more acks are to come than those for what was sent.
            let _ = stream.shutdown(Shutdown::Both);
        }
        let read = reader
            .join()
            .unwrap_or_else(|_| Err(Failure::Runtime("a reader ended unexpectedly".to_owned())));
        // Why acks ended says more than that the socket could not be written to.
        read.and(sent)
    })?;
    Ok(Sent { frames: gate.acked.into_inner(), latencies: None })
}

fn send(mut stream: &TcpStream, load: &Load, gate: &Gate, window: u64) -> Result<(), Failure> {
    // Half a window at once, so that the other half is on its way meanwhile.
    let (chunk, count) = load.shape.chunk((window / 2).max(1))?;
    let frame_len = chunk.len() / usize::try_from(count).unwrap_or(1);
    let began = Instant::now();
    let mut sent = 0;
    loop {
        let (now, last) = match load.until {
            Until::Frames(frames) => (count.min(frames - sent), sent + count >= frames),
            Until::Elapsed(duration) => (count, began.elapsed() >= duration),
        };
        if last {
            // Before they are sent: their acks may be read before this thread goes on.
            gate.target.store(sent + now, Ordering::Release);
        }
        if !gate.wait_for_room(sent, now, window) {
            return Ok(());
        }
        let bytes = &chunk[..frame_len * usize::try_from(now).unwrap_or(0)];
        stream.write_all(bytes).map_err(|error| broken(&error, sent))?;
        sent += now;
        if last {
            return Ok(());
        }
    }
}

fn read_acks(mut stream: &TcpStream, gate: &Gate, tell: impl Fn(u64)) -> Result<(), Failure> {
    let mut buf = vec![0; ACK_BUFFER];
    let mut acks = Acks::default();
    while acks.total() < gate.target.load(Ordering::Acquire) {
        let before = acks.stored;
        match stream.read(&mut buf) {
            Ok(0) => return Err(broken(&io::ErrorKind::UnexpectedEof.into(), acks.stored)),
            Ok(read) => acks.add(&buf[..read]),
            Err(error) => return Err(broken(&error, acks.stored)),
        }
        refusals(&acks)?;
        gate.acked.store(acks.stored, Ordering::Release);
        gate.sender.unpark();
        tell(acks.stored - before);
    }
    Ok(())
}

fn broken(error: &io::Error, frames: u64) -> Failure {
    link::broken(error, &format!("{frames} frames"))
}

fn refusals(acks: &Acks) -> Result<(), Failure> {
    if acks.refused == 0 {
        return Ok(());
    }
    let stored = acks.stored;
    Err(Failure::Runtime(format!(
        "the broker refused a frame after it had stored {stored} of them"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::net::TcpListener;

    /// A peer that acks every frame of `frame_len` bytes with `code`, and never lets more than it saw pass.
    fn acking(frame_len: usize, code: u8) -> TcpStream {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut socket, _) = listener.accept().unwrap();
        thread::spawn(move || {
            let mut frame = vec![0; frame_len];
            while socket.read_exact(&mut frame).is_ok() {
                let mut ack = [0; ACK_LEN];
                ack[0] = code;
                if socket.write_all(&ack).is_err() {
                    break;
                }
            }
        });
        client
    }

    fn produce(window: Option<u32>, until: Until, code: u8) -> Result<Produced, Failure> {
        let shape = Shape { record_size: 10, batch: 1 };
        let frame_len = usize::try_from(shape.frame_len()).unwrap();
        let streams = [acking(frame_len, code), acking(frame_len, code)];
        run(&streams, &Load { shape, window, until }, &Progress::hidden())
    }

    #[test]
    fn as_many_frames_as_asked_for() {
        for window in [None, Some(1), Some(2), Some(3), Some(100)] {
            let produced = produce(window, Until::Frames(5001), 0).unwrap();
            assert_eq!(produced.frames, 2 * 5001, "{window:?}");
            assert_eq!(produced.latency.map(|p| p.count), (window == Some(1)).then_some(10_002));
        }
    }

    #[test]
    fn for_as_long_as_asked_for() {
        for window in [None, Some(1), Some(10)] {
            let produced = produce(window, Until::Elapsed(Duration::from_millis(30)), 0).unwrap();
            assert!(produced.frames > 0 && produced.elapsed >= Duration::from_millis(30));
        }
    }

    #[test]
    fn a_refusal_ends_it() {
        for window in [None, Some(1), Some(10)] {
            let failure = produce(window, Until::Frames(1000), 0xFF).unwrap_err();
            assert!(failure.to_string().starts_with("the broker refused"), "{failure}");
        }
    }
}
