//! `hermitmq bench tls`: consuming without and with TLS in turns, from one broker.

use std::io::{self, BufRead as _, Read as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rustls::ClientConnection;
use serde::Serialize;

use crate::cli::failure::Failure;
use crate::client::{TlsOptions, raw};
use crate::model::TopicName;

use super::args::SecuredArgs;
use super::link;
use super::progress::Progress;
use super::report::{self, Table};
use super::shape::Shape;
use super::stats::{median, rate};
use super::target::{Target, new_group};

/// What is read from a socket at once.
const BUFFER: usize = 256 * 1024;

/// What the rounds come to; of each its median.
#[derive(Debug, Serialize)]
struct Compared {
    workload: &'static str,
    broker: String,
    record_size_bytes: u32,
    batch_records: u32,
    rounds: u32,
    cipher: String,
    plain_bytes_per_sec: f64,
    tls_bytes_per_sec: f64,
    /// Of what TLS reaches and what is reached without it, in a round.
    ratio: f64,
    ratio_min: f64,
    ratio_max: f64,
}

pub(super) fn run(args: &SecuredArgs) -> Result<(), Failure> {
    let shape = Shape::of(args.shape)?;
    let Some(tls) = args.tls.options()? else {
        return Err(Failure::Usage("whose certificate is accepted? --tls-ca FILE".to_owned()));
    };
    let target = Target::find(&args.target)?;
    let topic = args.target.topic.clone().map_or_else(|| shape.topic(), Ok)?;
    let frames = shape.frames_in_mb(args.mb);
    let filling = Progress::bytes("fill", None);
    target.fill(&topic, shape, 1, frames, &filling)?;
    drop(filling);
    let total = frames * shape.frame_len();
    let progress = Progress::steps("tls", u64::from(args.rounds) + 1);
    let (mut plain, mut secured, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    let mut cipher = String::new();
    // One more touches memory for the first time.
    for round in 0..=args.rounds {
        let without = rate(total, read_plain(&target, &topic, total)?);
        let (elapsed, suite) = read_secured(&target, &tls, &topic, total)?;
        let with = rate(total, elapsed);
        if round > 0 {
            plain.push(without);
            secured.push(with);
            ratios.push(with / without);
        }
        cipher = suite;
        progress.add(1);
    }
    drop(progress);
    let result = Compared {
        workload: "tls",
        broker: target.name(),
        record_size_bytes: shape.record_size,
        batch_records: shape.batch,
        rounds: args.rounds,
        cipher,
        plain_bytes_per_sec: median(&plain),
        tls_bytes_per_sec: median(&secured),
        ratio: median(&ratios),
        ratio_min: ratios.iter().copied().fold(f64::INFINITY, f64::min),
        ratio_max: ratios.iter().copied().fold(0.0, f64::max),
    };
    report::print(args.target.output, &result, &table(&result))?;
    target.stop()
}

fn table(result: &Compared) -> Table {
    let mut table = Table::new(&["cipher", "plain MB/s", "TLS MB/s", "ratio", "min", "max"]);
    let ratio = |value: f64| format!("{value:.2}");
    table.row(vec![
        result.cipher.clone(),
        report::mb(result.plain_bytes_per_sec),
        report::mb(result.tls_bytes_per_sec),
        ratio(result.ratio),
        ratio(result.ratio_min),
        ratio(result.ratio_max),
    ]);
    table
}

fn read_plain(target: &Target, topic: &TopicName, total: u64) -> Result<Duration, Failure> {
    let mut stream = target.consumer(topic, 0)?;
    link::be_patient(&stream)?;
    let mut buf = vec![0; BUFFER];
    timed(total, || read_some(&mut stream, &mut buf))
}

fn read_secured(
    target: &Target,
    tls: &TlsOptions,
    topic: &TopicName,
    total: u64,
) -> Result<(Duration, String), Failure> {
    let (mut socket, mut session) = raw::consume_tls(&target.addr, tls, &new_group()?, topic, 0)
        .map_err(|error| Failure::connect(&error))?;
    link::be_patient(&socket)?;
    let mut buf = vec![0; BUFFER];
    let elapsed = timed(total, || decrypt_some(&mut socket, &mut session, &mut buf))?;
    let suite = session.negotiated_cipher_suite().map(|suite| format!("{:?}", suite.suite()));
    Ok((elapsed, suite.unwrap_or_default()))
}

/// Reads the socket once: one byte or more.
fn read_some(socket: &mut TcpStream, buf: &mut [u8]) -> io::Result<usize> {
    match socket.read(buf)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        read => Ok(read),
    }
}

/// Reads the socket once, and drops what comes of it: how many bytes.
fn decrypt_some(
    socket: &mut TcpStream,
    session: &mut ClientConnection,
    buf: &mut [u8],
) -> io::Result<usize> {
    let read = read_some(socket, buf)?;
    let (mut left, mut got) = (&buf[..read], 0);
    while !left.is_empty() && session.read_tls(&mut left)? > 0 {
        session.process_new_packets().map_err(io::Error::other)?;
        got += drop_plaintext(session);
    }
    Ok(got)
}

fn drop_plaintext(session: &mut ClientConnection) -> usize {
    let mut got = 0;
    let mut reader = session.reader();
    while let Ok(len @ 1..) = reader.fill_buf().map(<[u8]>::len) {
        reader.consume(len);
        got += len;
    }
    got
}

/// Reads until there are `total` bytes; how long that took. A read may come to none: of part of a TLS record.
fn timed(total: u64, mut read: impl FnMut() -> io::Result<usize>) -> Result<Duration, Failure> {
    let began = Instant::now();
    let mut got = 0;
    while got < total {
        let more = read();
        let done = || format!("{got} of {total} bytes");
        got += more.map_err(|error| link::broken(&error, &done()))? as u64;
    }
    Ok(began.elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::io::Write as _;
    use std::net::TcpListener;

    #[test]
    fn a_broker_that_closes_ends_it() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        far.write_all(b"abc").unwrap();
        drop(far);
        let mut buf = [0; 8];
        let failure = timed(4, || read_some(&mut near, &mut buf)).unwrap_err();
        let text = failure.to_string();
        assert_eq!(text, "the peer closed the connection, after 3 of 4 bytes");
    }
}
