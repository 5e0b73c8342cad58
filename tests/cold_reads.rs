//! A consumer whose data is not in the page cache: it waits for the disk on a thread of its own, not on a reactor.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test")]

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use hermitmq::config::Config;
use hermitmq::model::{GroupName, TopicName};
use hermitmq::protocol::{ACK_LEN, Request};
use hermitmq::record::FrameBuilder;
use hermitmq::server::Server;
use rustix::fs::{Advice, fadvise};
use rustix::io::{Errno, ReadWriteFlags, preadv2};

const FRAMES: usize = 8 * 1024;
const PATIENCE: Duration = Duration::from_secs(30);

fn connect(server: &Server, request: &Request) -> TcpStream {
    let mut stream = TcpStream::connect(server.addr()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut bytes = Vec::new();
    request.write(&mut bytes);
    stream.write_all(&bytes).unwrap();
    stream
}

fn received(mut stream: TcpStream, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    stream.read_exact(&mut bytes).unwrap();
    bytes
}

/// Whether a page of a file in `dir` can be dropped, and be seen to be gone.
fn can_be_cold(dir: &std::path::Path) -> bool {
    let path = dir.join("probe");
    std::fs::write(&path, [1; 4096]).unwrap();
    let file = File::open(path).unwrap();
    file.sync_all().unwrap();
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(1) {
        fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        let mut byte = [0];
        let mut parts = [std::io::IoSliceMut::new(&mut byte)];
        if preadv2(&file, &mut parts, 0, ReadWriteFlags::NOWAIT) == Err(Errno::AGAIN) {
            return true;
        }
    }
    false
}

#[test]
fn cold_data_is_read_off_the_reactor_and_arrives_whole() {
    // Not the temporary directory, which may be memory.
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    if !can_be_cold(dir.path()) {
        eprintln!(
            "SKIPPED: the file system of the target directory is in memory, or cannot tell what is"
        );
        return;
    }
    let mut config = Config::default();
    config.admin.listen.clear();
    config.server.port = 0;
    config.storage.data_dir = dir.path().to_owned();
    config.storage.flush_interval_ms = 1;
    let server = Server::start(&config).unwrap();
    let topic = TopicName::parse("cold").unwrap();

    let mut frames = Vec::new();
    for number in 0..FRAMES {
        let payload = vec![u8::try_from(number % 251).unwrap(); 1024];
        FrameBuilder::new(1).offset(number as u64).write(&payload, &mut frames).unwrap();
    }
    let producer = connect(&server, &Request::Produce { topic: topic.clone(), partition: 0 });
    let mut sending = producer.try_clone().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| sending.write_all(&frames).unwrap());
        received(producer, FRAMES * ACK_LEN);
    });

    // Only flushed pages can be dropped.
    let wal = File::open(dir.path().join("cold_0/00000000000000000000.wal")).unwrap();
    wal.sync_all().unwrap();
    let began = Instant::now();
    loop {
        fadvise(&wal, 0, None, Advice::DontNeed).unwrap();
        let group = GroupName::parse(format!("g{}", began.elapsed().as_nanos())).unwrap();
        let consumer =
            connect(&server, &Request::Consume { group, topic: topic.clone(), partition: 0 });
        assert!(received(consumer, frames.len()) == frames, "every byte, in order");
        if server.metrics().cold_reads.get() > 0 {
            break;
        }
        // Another reader of the file (a virus scanner, a backup) may have warmed it again.
        assert!(began.elapsed() < PATIENCE, "dropped pages were sent without waiting for the disk");
    }
    server.stop().unwrap();
}
