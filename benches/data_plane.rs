//! Consuming from the broker against a bare `sendfile` loop, and producing against a bare `recv` + `pwrite` loop: each
//! pair alternates within one run, so that what is printed is a ratio of the same machine in the same minute.
//!
//! `cargo bench --bench data_plane` (a few seconds; `BENCH_MB` and `BENCH_ROUNDS` change its size).
#![allow(missing_docs, clippy::print_stdout, clippy::unwrap_used, clippy::cast_precision_loss)]

use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use hermitmq::config::Config;
use hermitmq::model::{GroupName, TopicName};
use hermitmq::protocol::{ACK_LEN, Request};
use hermitmq::record::FrameBuilder;
use hermitmq::server::Server;

const READER_BUF: usize = 256 * 1024;

fn setting(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

fn handshake(addr: SocketAddr, request: &Request) -> TcpStream {
    let mut stream = TcpStream::connect(addr).unwrap();
    stream.set_nodelay(true).unwrap();
    let mut bytes = Vec::new();
    request.write(&mut bytes);
    stream.write_all(&bytes).unwrap();
    stream
}

fn topic(name: &str) -> TopicName {
    TopicName::parse(name).unwrap()
}

/// Reads `total` bytes and drops them: the same reader for the broker and for the bare loop.
fn drain(mut stream: &TcpStream, total: u64) -> Duration {
    let mut buf = vec![0; READER_BUF];
    let began = Instant::now();
    let mut left = total;
    while left > 0 {
        let want = buf.len().min(usize::try_from(left).unwrap());
        let read = stream.read(&mut buf[..want]).unwrap();
        assert!(read > 0, "the stream ended early");
        left -= read as u64;
    }
    began.elapsed()
}

/// Frames of one write, all alike.
fn chunk(payload: usize, count: usize, records: u32) -> Vec<u8> {
    let payload = vec![b'x'; payload];
    let mut out = Vec::new();
    for _ in 0..count {
        FrameBuilder::new(1).record_count(records).write(&payload, &mut out).unwrap();
    }
    out
}

/// Sends `chunk` `times` times without waiting for acks, reading them on another thread.
fn produce(addr: SocketAddr, name: &str, chunk: &[u8], frames: usize, times: usize) -> Duration {
    let stream = handshake(addr, &Request::Produce { topic: topic(name), partition: 0 });
    let acks = stream.try_clone().unwrap();
    let began = Instant::now();
    let reader = thread::spawn(move || drain(&acks, (frames * times * ACK_LEN) as u64));
    for _ in 0..times {
        (&stream).write_all(chunk).unwrap();
    }
    reader.join().unwrap();
    began.elapsed()
}

fn consume(addr: SocketAddr, name: &str, round: usize, total: u64) -> Duration {
    let group = GroupName::parse(format!("bench-{round}")).unwrap();
    let began = Instant::now();
    let stream = handshake(addr, &Request::Consume { group, topic: topic(name), partition: 0 });
    drain(&stream, total);
    began.elapsed()
}

/// A thread that sends the file with `sendfile`, blocking.
fn bare_sendfile(path: &Path, total: u64) -> Duration {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let file = File::open(path).unwrap();
    let began = Instant::now();
    let sender = thread::spawn(move || {
        let (socket, _) = listener.accept().unwrap();
        let mut position = 0;
        while position < total {
            let want = usize::try_from(total - position).unwrap().min(1 << 20);
            rustix::fs::sendfile(&socket, &file, Some(&mut position), want).unwrap();
        }
    });
    let stream = TcpStream::connect(addr).unwrap();
    drain(&stream, total);
    sender.join().unwrap();
    began.elapsed()
}

/// A thread that receives and writes to a file, and answers with as many bytes as acks would take.
fn bare_recv_pwrite(path: &Path, chunk: &[u8], frames: usize, times: usize) -> Duration {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let file = File::create(path).unwrap();
    let total = (chunk.len() * times) as u64;
    let receiver = thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let mut buf = vec![0; READER_BUF];
        let mut position = 0;
        while position < total {
            let read = socket.read(&mut buf).unwrap();
            file.write_all_at(&buf[..read], position).unwrap();
            position += read as u64;
        }
        socket.write_all(&vec![0; frames * times * ACK_LEN]).unwrap();
    });
    let mut stream = TcpStream::connect(addr).unwrap();
    let acks = stream.try_clone().unwrap();
    let began = Instant::now();
    let reader = thread::spawn(move || drain(&acks, (frames * times * ACK_LEN) as u64));
    for _ in 0..times {
        stream.write_all(chunk).unwrap();
    }
    reader.join().unwrap();
    receiver.join().unwrap();
    began.elapsed()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let mb = setting("BENCH_MB", 256);
    let rounds = setting("BENCH_ROUNDS", 5);
    let dir = if Path::new("/dev/shm").is_dir() {
        tempfile::tempdir_in("/dev/shm").unwrap()
    } else {
        tempfile::tempdir().unwrap()
    };
    let mut config = Config::default();
    config.server.port = 0;
    config.storage.data_dir = dir.path().join("data");
    config.storage.max_segment_mb = 4096;
    let server = Server::start(&config).unwrap();
    println!("{:<34} {:>9} {:>9} {:>7}", "workload", "MB/s", "bare MB/s", "ratio");
    for (name, payload, records) in [("100-B", 100, 1), ("1-KiB", 1024, 1), ("100x28-B", 2800, 100)]
    {
        let frames = (64 * 1024 / (payload + 29)).max(1);
        let chunk = chunk(payload, frames, records);
        let times = mb * 1_000_000 / chunk.len();
        let total = (chunk.len() * times) as u64;
        let (mut ins, mut outs) = (Vec::new(), Vec::new());
        let rate = |time: Duration| total as f64 / time.as_secs_f64() / 1e6;
        let bare = dir.path().join("bare");
        for round in 0..rounds {
            let topic = format!("{name}-{round}");
            let ours = rate(produce(server.addr(), &topic, &chunk, frames, times));
            ins.push((ours, rate(bare_recv_pwrite(&bare, &chunk, frames, times))));
            let ours = rate(consume(server.addr(), &topic, round, total));
            outs.push((ours, rate(bare_sendfile(&bare, total))));
        }
        // The first round touches memory for the first time.
        for (what, rates) in [("produce", ins), ("consume", outs)] {
            let of = |f: fn(&(f64, f64)) -> f64| median(rates[1..].iter().map(f).collect());
            let (ours, bare, ratio) = (of(|r| r.0), of(|r| r.1), of(|r| r.0 / r.1));
            println!("{:<34} {ours:>9.0} {bare:>9.0} {ratio:>7.2}", format!("{what} {name}"));
        }
    }
    server.stop().unwrap();
}
