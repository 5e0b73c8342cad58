//! Consuming: bytes in as fast as they come, and dropped.

use std::io::{self, Read as _};
use std::net::TcpStream;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use crate::cli::failure::Failure;
use crate::client::raw::{HEADER_LEN, Header};

use super::link;
use super::progress::Progress;
use super::shape::Shape;

/// What is read at once.
const BUFFER: usize = 256 * 1024;

/// Opens the connections of `connections` readers, each by its number, and reads `frames` frames on each of them; gives the time that it
/// took. Connecting is within that time: the bytes come without being asked for.
pub(super) fn run(
    connections: u32,
    connect: impl Fn(u32) -> Result<TcpStream, Failure> + Sync,
    shape: Shape,
    frames: u64,
    progress: &Progress,
) -> Result<Duration, Failure> {
    let start = Barrier::new(connections as usize + 1);
    thread::scope(|scope| {
        let work = |number| {
            let (start, connect) = (&start, &connect);
            scope.spawn(move || {
                let mut buf = vec![0; BUFFER];
                start.wait();
                drain(&connect(number)?, shape, frames, &mut buf, progress)
            })
        };
        let threads: Vec<_> = (0..connections).map(work).collect();
        // Before the start: this thread may go on later than the others.
        let began = Instant::now();
        start.wait();
        let mut result = Ok(());
        for thread in threads {
            let drained = thread.join().unwrap_or_else(|_| {
                Err(Failure::Runtime("a consumer ended unexpectedly".to_owned()))
            });
            result = result.and(drained);
        }
        result.map(|()| began.elapsed())
    })
}

fn drain(
    mut stream: &TcpStream,
    shape: Shape,
    frames: u64,
    buf: &mut [u8],
    progress: &Progress,
) -> Result<(), Failure> {
    link::be_patient(stream)?;
    let total = frames * shape.frame_len();
    let mut header = [0; HEADER_LEN];
    stream.read_exact(&mut header).map_err(|error| ended(&error, 0, total))?;
    let found = Header::read(&header).map_or(0, |header| header.frame_len());
    if found != shape.frame_len() {
        return Err(Failure::Runtime(format!(
            "the topic begins with a frame of {found} bytes, not {}: choose another --topic, or the \
             --record-size and --batch that it was filled with",
            shape.frame_len()
        )));
    }
    let mut left = total - HEADER_LEN as u64;
    while left > 0 {
        let want = buf.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        match stream.read(&mut buf[..want]) {
            Ok(0) => return Err(ended(&io::ErrorKind::UnexpectedEof.into(), total - left, total)),
            Ok(read) => {
                left -= read as u64;
                progress.add(read as u64);
            }
            Err(error) => return Err(ended(&error, total - left, total)),
        }
    }
    Ok(())
}

fn ended(error: &io::Error, read: u64, total: u64) -> Failure {
    link::broken(error, &format!("{read} of {total} bytes"))
}
