//! `hermitmq bench limit`: the bare loops of the machine, from the side of the load generator.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::cli::failure::Failure;

use super::args::LimitArgs;
use super::consume;
use super::link;
use super::pace::{self, Pace};
use super::peer::Peer;
use super::produce::{self, Load, Until};
use super::progress::Progress;
use super::report::{self, LATENCY_HEAD, Table};
use super::scratch::Scratch;
use super::shape::Shape;
use super::stats::{Latencies, Percentiles, rate};

/// The frames that are moved. What is in them makes no difference to the bare loops.
const SHAPE: Shape = Shape { record_size: 1024, batch: 1 };

/// Bytes between two flushes.
const BLOCK: usize = 4096;

/// Bytes of a message through the relay: a record of 100 bytes in its frame.
const MESSAGE: usize = 129;

#[derive(Debug, Serialize)]
struct Limits {
    workload: &'static str,
    connections: u32,
    sendfile: Moved,
    recv_pwrite: Moved,
    fdatasync: Flushed,
    relay: Percentiles,
}

#[derive(Debug, Serialize)]
struct Moved {
    bytes: u64,
    seconds: f64,
    bytes_per_sec: f64,
}

#[derive(Debug, Serialize)]
struct Flushed {
    count: u32,
    seconds: f64,
    per_sec: f64,
}

/// Connects to the bare loops and says which of them is wanted.
pub(super) fn connect(addr: &str, request: &str) -> Result<TcpStream, Failure> {
    let connect = || {
        let mut stream = TcpStream::connect(addr)?;
        stream.set_nodelay(true)?;
        stream.write_all(format!("{request}\n").as_bytes())?;
        Ok(stream)
    };
    let connected: std::io::Result<_> = connect();
    connected.map_err(|error| Failure::runtime("cannot reach the bare loops", &error))
}

/// The two ends of a relay: what is written to the first is read from the second.
pub(super) fn relay(addr: &str) -> Result<(TcpStream, TcpStream), Failure> {
    let mut out = connect(addr, "out")?;
    link::be_patient(&out)?;
    // It is known there before the other end can come.
    out.read_exact(&mut [0]).map_err(|error| link::broken(&error, "no message"))?;
    Ok((connect(addr, "in")?, out))
}

/// Connections to the receiving loop.
pub(super) fn receivers(addr: &str, shape: Shape, count: u32) -> Result<Vec<TcpStream>, Failure> {
    (0..count).map(|_| connect(addr, &format!("receive {}", shape.frame_len()))).collect()
}

/// Fills the file that the sending loop sends as a broker fills its log: through the receiving loop.
pub(super) fn fill(addr: &str, shape: Shape, frames: u64) -> Result<(), Failure> {
    let load = Load { shape, window: None, until: Until::Frames(frames) };
    produce::run(&receivers(addr, shape, 1)?, &load, &Progress::hidden()).map(drop)
}

/// Measures all of it.
pub(super) fn run(args: &LimitArgs) -> Result<(), Failure> {
    let scratch = Scratch::new(args.dir.as_deref())?;
    let peer = Peer::limits(scratch.path())?;
    let frames = SHAPE.frames_in_mb(args.mb);
    let each = frames * SHAPE.frame_len();
    let bytes = each * u64::from(args.connections);
    let moved = |elapsed: Duration| Moved {
        bytes,
        seconds: elapsed.as_secs_f64(),
        bytes_per_sec: rate(bytes, elapsed),
    };
    fill(&peer.addr, SHAPE, frames)?;
    let progress = Progress::bytes("sendfile", Some(2 * bytes));
    let connect = |_| connect(&peer.addr, &format!("send {each}"));
    // The first time touches memory and does not count.
    consume::run(1, connect, SHAPE, frames, &Progress::hidden())?;
    let sent = consume::run(args.connections, connect, SHAPE, frames, &progress)?;
    progress.say("recv + pwrite");
    let load = Load { shape: SHAPE, window: None, until: Until::Frames(frames) };
    let received =
        produce::run(&receivers(&peer.addr, SHAPE, args.connections)?, &load, &progress)?;
    drop(progress);
    let result = Limits {
        workload: "limit",
        connections: args.connections,
        sendfile: moved(sent),
        recv_pwrite: moved(received.elapsed),
        fdatasync: flushed(scratch.path(), args.flushes)?,
        relay: {
            let progress = Progress::steps("relay", u64::from(args.messages));
            ping_pong(&peer.addr, u64::from(args.messages), None, &progress)?
        },
    };
    report::print(args.output, &result, &table(&result))
}

fn flushed(dir: &Path, count: u32) -> Result<Flushed, Failure> {
    let progress = Progress::steps("fdatasync", u64::from(count));
    let (_, elapsed) = flushes(dir, &progress, |done, _| done == u64::from(count))?;
    Ok(Flushed { count, seconds: elapsed.as_secs_f64(), per_sec: rate(u64::from(count), elapsed) })
}

/// Flushes a second, within so many seconds.
pub(super) fn flush_rate(dir: &Path, seconds: f64) -> Result<f64, Failure> {
    let enough = |_, elapsed: Duration| elapsed.as_secs_f64() >= seconds;
    let (count, elapsed) = flushes(dir, &Progress::hidden(), enough)?;
    Ok(rate(count, elapsed))
}

/// Blocks that are written and then flushed, one after the other, until it is enough: how many, and the time it took.
fn flushes(
    dir: &Path,
    progress: &Progress,
    enough: impl Fn(u64, Duration) -> bool,
) -> Result<(u64, Duration), Failure> {
    let write = || {
        let file = File::create(dir.join("bare.flushed"))?;
        let began = Instant::now();
        let mut count = 0;
        loop {
            file.write_all_at(&[b'x'; BLOCK], count * BLOCK as u64)?;
            file.sync_data()?;
            progress.add(1);
            count += 1;
            let elapsed = began.elapsed();
            if enough(count, elapsed) {
                return Ok((count, elapsed));
            }
        }
    };
    let written: std::io::Result<_> = write();
    written.map_err(|error| Failure::runtime("cannot flush", &error))
}

/// One message at a time through the relay: as fast as they return, or each when it is due at a rate, and counted from
/// then.
pub(super) fn ping_pong(
    addr: &str,
    count: u64,
    per_second: Option<u32>,
    progress: &Progress,
) -> Result<Percentiles, Failure> {
    pace::be_punctual();
    let (mut out, mut into) = relay(addr)?;
    let mut message = [b'x'; MESSAGE];
    let mut latencies = Latencies::new()?;
    let start = Instant::now();
    for number in 0..count {
        let due = match per_second.map(|rate| Pace::new(start, rate)) {
            Some(pace) => {
                pace.wait_for(number);
                pace.after(number)
            }
            None => start.elapsed(),
        };
        let passed = out.write_all(&message).and_then(|()| into.read_exact(&mut message));
        passed.map_err(|error| link::broken(&error, &format!("{number} messages")))?;
        latencies.add(start.elapsed().saturating_sub(due));
        progress.add(1);
    }
    Ok(latencies.percentiles())
}

fn table(limits: &Limits) -> Table {
    let mut table = Table::new(&[&["loop", "MB/s", "1/s"][..], &LATENCY_HEAD].concat());
    let mb = |moved: &Moved| report::mb(moved.bytes_per_sec);
    table.row(vec!["sendfile".to_owned(), mb(&limits.sendfile)]);
    table.row(vec!["recv + pwrite".to_owned(), mb(&limits.recv_pwrite)]);
    let per_sec = format!("{:.0}", limits.fdatasync.per_sec);
    table.row(vec!["fdatasync, 4 KiB".to_owned(), String::new(), per_sec]);
    let name = vec!["TCP through a relay".to_owned(), String::new(), String::new()];
    table.row([name, report::latency_cells(&limits.relay)].concat());
    table
}
