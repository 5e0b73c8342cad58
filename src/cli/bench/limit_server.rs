//! `hermitmq bench limit-server`: the bare loops, each a blocking thread for each connection.
//!
//! A connection begins with a line that says what it is:
//!
//! * `send N`: `sendfile` of the first N bytes of the file to the peer;
//! * `receive LEN`: `recv`, `pwrite` to the file, which grows, and nine bytes back for each LEN bytes;
//! * `out`, then on another connection `in`: what comes in is passed to the one that is out.
//!
//! There is one file, as a partition has one log: all connections write to its end, and what is sent was received before.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use crate::cli::failure::Failure;
use crate::client::raw::ACK_LEN;

use super::args::LimitServerArgs;

/// The file.
const FILE: &str = "bare.log";

/// As large as the broker's.
const BUFFER: usize = 256 * 1024;

/// Bytes that one `sendfile` is asked for.
const SLICE: u64 = 1 << 20;

/// What the connections share.
struct Shared {
    dir: PathBuf,
    /// End of the file.
    end: AtomicU64,
    out: Mutex<Option<TcpStream>>,
}

/// Serves until standard input ends.
pub(super) fn run(args: &LimitServerArgs) -> Result<(), Failure> {
    let cannot = |error: io::Error| Failure::runtime("cannot listen", &error);
    let listener = TcpListener::bind("127.0.0.1:0").map_err(cannot)?;
    let addr = listener.local_addr().map_err(cannot)?;
    {
        let mut stdout = io::stdout().lock();
        let line = serde_json::json!({ "message": "listening", "addr": addr.to_string() });
        let said = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
        said.map_err(|error| Failure::output(&error))?;
    }
    let shared =
        Arc::new(Shared { dir: args.dir.clone(), end: AtomicU64::new(0), out: Mutex::new(None) });
    thread::spawn(move || {
        for socket in listener.incoming().map_while(Result::ok) {
            let shared = Arc::clone(&shared);
            // A peer that breaks off sees it on its own side.
            thread::spawn(move || serve(socket, &shared));
        }
    });
    // Ends with the process that started this one.
    let ended = io::copy(&mut io::stdin().lock(), &mut io::sink());
    ended.map(drop).map_err(|error| Failure::runtime("cannot read standard input", &error))
}

fn serve(mut socket: TcpStream, shared: &Shared) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let line = request(&mut socket)?;
    let (what, number) = line.split_once(' ').unwrap_or((&line, "0"));
    let number: u64 = number.parse().map_err(|_| io::ErrorKind::InvalidInput)?;
    let out = || shared.out.lock().unwrap_or_else(PoisonError::into_inner);
    match what {
        "send" => send(&socket, &File::open(shared.dir.join(FILE))?, number),
        "receive" => receive(&socket, shared, number.max(1)),
        "out" => {
            // With the lock held: an `in`, which comes once this is told, finds the socket.
            let mut out = out();
            socket.write_all(b"\n")?;
            *out = Some(socket);
            Ok(())
        }
        "in" => {
            let to = out().take().ok_or(io::ErrorKind::NotConnected)?;
            relay(&socket, &to)
        }
        _ => Err(io::ErrorKind::InvalidInput.into()),
    }
}

/// The first line, without a byte of what follows it.
fn request(socket: &mut TcpStream) -> io::Result<String> {
    let (mut line, mut byte) = (Vec::new(), [0]);
    loop {
        socket.read_exact(&mut byte)?;
        match byte[0] {
            b'\n' => break,
            other => line.push(other),
        }
    }
    String::from_utf8(line).map_err(|_| io::ErrorKind::InvalidInput.into())
}

#[cfg(target_os = "linux")]
fn send(socket: &TcpStream, file: &File, total: u64) -> io::Result<()> {
    let mut position = 0;
    while position < total {
        let want = usize::try_from((total - position).min(SLICE)).unwrap_or(usize::MAX);
        if rustix::fs::sendfile(socket, file, Some(&mut position), want)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(())
}

/// Without `sendfile` in safe wrappers the limit is that of a copy.
#[cfg(not(target_os = "linux"))]
fn send(mut socket: &TcpStream, file: &File, total: u64) -> io::Result<()> {
    let mut buf = vec![0; usize::try_from(SLICE).unwrap_or(BUFFER)];
    let mut position = 0;
    while position < total {
        let want = usize::try_from(total - position).unwrap_or(usize::MAX).min(buf.len());
        file.read_exact_at(&mut buf[..want], position)?;
        socket.write_all(&buf[..want])?;
        position += want as u64;
    }
    Ok(())
}

fn receive(mut socket: &TcpStream, shared: &Shared, frame_len: u64) -> io::Result<()> {
    let path = shared.dir.join(FILE);
    let file = File::options().create(true).truncate(false).write(true).open(path)?;
    let mut buf = vec![0; BUFFER];
    let acks = vec![0; BUFFER * ACK_LEN];
    let (mut received, mut acked) = (0, 0);
    loop {
        let read = socket.read(&mut buf)?;
        if read == 0 {
            return Ok(());
        }
        let at = shared.end.fetch_add(read as u64, Ordering::Relaxed);
        file.write_all_at(&buf[..read], at)?;
        received += read as u64;
        let whole = received / frame_len;
        let count = usize::try_from(whole - acked).unwrap_or(0);
        socket.write_all(&acks[..count * ACK_LEN])?;
        acked = whole;
    }
}

fn relay(mut from: &TcpStream, mut to: &TcpStream) -> io::Result<()> {
    let mut buf = vec![0; BUFFER];
    loop {
        match from.read(&mut buf)? {
            0 => return Ok(()),
            read => to.write_all(&buf[..read])?,
        }
    }
}
