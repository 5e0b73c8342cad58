//! A consumer whose data is not in the page cache: it waits for the disk on a thread of its own, not on a reactor.
#![cfg(target_os = "linux")]

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

#[test]
fn cold_data_is_read_off_the_reactor_and_arrives_whole() {
    // Not the temporary directory, which may be memory.
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    const TMPFS: u64 = 0x0102_1994;
    if rustix::fs::statfs(dir.path()).unwrap().f_type.cast_unsigned() == TMPFS {
        eprintln!("SKIPPED: the target directory is in memory, which is never cold");
        return;
    }
    let mut config = Config::default();
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
