//! What is on a disk and not in the page cache, and a consumer that reads it.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::net::TcpStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;

use crate::cli::failure::Failure;

use super::link::{self, PATIENCE};

/// What is read at once.
const BUFFER: usize = 256 * 1024;

/// Pages of a file that are looked at, whether they are gone.
const SAMPLES: u64 = 16;

/// Bytes of the file that tells whether a directory is on a disk.
const PROBE: usize = 64 * 1024;

/// Fails unless files in the directory can be out of memory.
pub(super) fn must_be_disk(dir: &Path) -> Result<(), Failure> {
    let path = dir.join("probe");
    let is_disk = || {
        fs::write(&path, vec![1; PROBE])?;
        let file = File::open(&path)?;
        file.sync_all()?;
        let dropped = drop_pages(&file)?;
        fs::remove_file(&path)?;
        Ok(dropped)
    };
    let result: io::Result<bool> = is_disk();
    match result {
        Ok(true) => Ok(()),
        Ok(false) => Err(Failure::Runtime(format!(
            "{} is not on a disk, or its pages cannot be dropped from memory: choose another --dir",
            dir.display()
        ))),
        Err(error) => Err(Failure::runtime("cannot use the directory", &error)),
    }
}

/// Does the work while a consumer reads the log in `dir` from the disk, its first `total` bytes over and over.
pub(super) fn beside<T>(
    dir: &Path,
    connect: impl Fn() -> Result<TcpStream, Failure> + Sync,
    total: u64,
    work: impl FnOnce() -> Result<T, Failure>,
) -> Result<T, Failure> {
    let stop = AtomicBool::new(false);
    let (reads, started) = channel();
    thread::scope(|scope| {
        let (connect, stop) = (&connect, &stop);
        let reader = scope.spawn(move || {
            let mut reader = Reader { stop, started: Some(reads), buf: vec![0; BUFFER] };
            while !reader.stop.load(Ordering::Relaxed) {
                drop_log(dir)?;
                reader.read(&connect()?, total)?;
            }
            Ok(())
        });
        // If it breaks instead, that is told below.
        let reading = started.recv_timeout(PATIENCE).is_ok();
        let done = if reading { Some(work()) } else { None };
        stop.store(true, Ordering::Relaxed);
        let read = reader.join().unwrap_or_else(|_| {
            Err(Failure::Runtime("the consumer ended unexpectedly".to_owned()))
        });
        read?;
        done.unwrap_or_else(|| Err(Failure::Runtime("the consumer got nothing".to_owned())))
    })
}

struct Reader<'a> {
    stop: &'a AtomicBool,
    /// Told once, when the first bytes are there.
    started: Option<Sender<()>>,
    buf: Vec<u8>,
}

impl Reader<'_> {
    fn read(&mut self, mut stream: &TcpStream, total: u64) -> Result<(), Failure> {
        link::be_patient(stream)?;
        let mut left = total;
        while left > 0 && !self.stop.load(Ordering::Relaxed) {
            let want = self.buf.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let read = match stream.read(&mut self.buf[..want]) {
                Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
                other => other,
            };
            let done = || format!("{} of {total} bytes", total - left);
            left -= read.map_err(|error| link::broken(&error, &done()))? as u64;
            if let Some(started) = self.started.take() {
                // Nobody waits any longer if it took too long.
                let _ = started.send(());
            }
        }
        Ok(())
    }
}

/// Files of a log: a partition's segments, and the one of the bare loops.
const LOGS: [&str; 2] = ["wal", "log"];

/// Drops the log's files from the page cache, and fails if they are still there.
fn drop_log(dir: &Path) -> Result<(), Failure> {
    let drop_all = || {
        let mut dropped = false;
        for entry in fs::read_dir(dir)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| LOGS.iter().any(|log| extension == *log)) {
                let file = File::open(path)?;
                // Only what is on the disk can be dropped.
                file.sync_all()?;
                dropped = drop_pages(&file)?;
                if !dropped {
                    break;
                }
            }
        }
        Ok(dropped)
    };
    let result: io::Result<bool> = drop_all();
    match result {
        Ok(true) => Ok(()),
        Ok(false) => Err(Failure::Runtime(format!(
            "the files in {} stay in memory: choose another --dir",
            dir.display()
        ))),
        Err(error) => Err(Failure::runtime("cannot drop files from memory", &error)),
    }
}

/// Drops a file that is flushed from the page cache; whether most of it is gone.
#[cfg(target_os = "linux")]
fn drop_pages(file: &File) -> io::Result<bool> {
    use rustix::fs::{Advice, fadvise};
    use rustix::io::{Errno, ReadWriteFlags, preadv2};
    fadvise(file, 0, None, Advice::DontNeed)?;
    // Looking at a page reads no more than this page.
    fadvise(file, 0, None, Advice::Random)?;
    let len = file.metadata()?.len();
    let is_gone = |sample: &u64| {
        let mut byte = [0];
        let mut parts = [io::IoSliceMut::new(&mut byte)];
        let read = preadv2(file, &mut parts, len / SAMPLES * sample, ReadWriteFlags::NOWAIT);
        read == Err(Errno::AGAIN)
    };
    let gone = (0..SAMPLES).filter(is_gone).count() as u64;
    // What was looked at is on its way into memory again.
    fadvise(file, 0, None, Advice::DontNeed)?;
    Ok(gone * 4 >= SAMPLES * 3)
}

/// Elsewhere nothing can be told about the page cache.
#[cfg(not(target_os = "linux"))]
fn drop_pages(_file: &File) -> io::Result<bool> {
    let _ = SAMPLES;
    Ok(false)
}
