//! The inner loops: finding frames, patching offsets, appending a run, parsing a handshake,
//! committing an offset.
//!
//! `cargo bench --bench inner_loops`
#![allow(missing_docs, clippy::unwrap_used)]

use std::hint::black_box;
use std::sync::Arc;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use hermitmq::broker::{self, Broker, OffsetKey, Parts};
use hermitmq::metrics::Metrics;
use hermitmq::model::{GroupName, TopicName};
use hermitmq::protocol::{Request, parse};
use hermitmq::record::{FrameBuilder, FrameLimits, Run, scan};
use hermitmq::storage::{
    self, Cleanup, Durability, Environment, Log, LogOptions, OnCorruption, OsDisk, Retention,
    SystemClock, Timestamps,
};

const LIMITS: FrameLimits = FrameLimits::STORED;
const RUN: usize = 256 * 1024;
const SEGMENT: u64 = 64 << 20;

/// As many frames of `payload` bytes as fit a run.
fn frames(payload: usize) -> (Vec<u8>, u64) {
    let payload = vec![7; payload];
    let (mut out, mut count) = (Vec::new(), 0);
    while out.len() + payload.len() + 29 <= RUN {
        FrameBuilder::new(1).write(&payload, &mut out).unwrap();
        count += 1;
    }
    (out, count)
}

fn scanning(c: &mut Criterion) {
    for payload in [28, 100, 1024] {
        let (mut buf, count) = frames(payload);
        let mut group = c.benchmark_group("frames");
        group.throughput(Throughput::Elements(count));
        group.bench_function(format!("scan/{payload}"), |b| {
            b.iter(|| black_box(scan(&mut buf, &LIMITS)));
        });
        let mut run = Run::parse(&mut buf, &LIMITS).unwrap();
        group.bench_function(format!("assign_offsets/{payload}"), |b| {
            b.iter(|| {
                run.assign_offsets(black_box(1), |offset, at| {
                    black_box((offset, at));
                })
            });
        });
    }
}

fn log(dir: &std::path::Path) -> Log {
    let (disk, clock) = (Arc::new(OsDisk), Arc::new(SystemClock));
    let env = Environment { disk, clock, metrics: Arc::new(Metrics::default()) };
    let (durability, on_corruption) = (Durability::Interval, OnCorruption::Disconnect);
    let retention = Retention::default();
    let options = LogOptions {
        segment_bytes: SEGMENT,
        durability,
        on_corruption,
        retention,
        cleanup: Cleanup::Delete,
        timestamps: Timestamps::Create,
    };
    Log::open(env, dir, options).unwrap()
}

fn appending(c: &mut Criterion) {
    let shm = std::path::Path::new("/dev/shm");
    let base = if shm.is_dir() { shm.to_owned() } else { std::env::temp_dir() };
    for payload in [100, 1024] {
        let (bytes, _) = frames(payload);
        let mut group = c.benchmark_group("append");
        group.throughput(Throughput::Bytes(bytes.len() as u64));
        group.bench_function(format!("run of 256 KiB/{payload}"), |b| {
            // A log for each batch: what is measured is bounded in memory.
            b.iter_batched(
                || {
                    let dir = tempfile::tempdir_in(&base).unwrap();
                    (log(dir.path()), dir, bytes.clone())
                },
                |(log, dir, mut bytes)| {
                    for _ in 0..64 {
                        let mut run = Run::parse(&mut bytes, &LIMITS).unwrap();
                        log.append(&mut run).unwrap();
                    }
                    (log, dir)
                },
                BatchSize::PerIteration,
            );
        });
    }
}

fn lookups(c: &mut Criterion) {
    let dir = tempfile::tempdir().unwrap();
    let log = log(dir.path());
    let (bytes, _) = frames(100);
    for _ in 0..200 {
        log.append(&mut Run::parse(&mut bytes.clone(), &LIMITS).unwrap()).unwrap();
    }
    let end = log.end_offset();
    let mut offset = 0;
    let mut group = c.benchmark_group("index");
    group.throughput(Throughput::Elements(1));
    group.bench_function("locate", |b| {
        b.iter(|| {
            offset = (offset + 7919) % end;
            black_box(log.locate(offset).unwrap())
        });
    });
}

fn handshakes(c: &mut Criterion) {
    let request = Request::Commit {
        group: GroupName::parse("billing").unwrap(),
        topic: TopicName::parse("greetings").unwrap(),
        partition: 0,
        offset: 5,
    };
    let mut bytes = Vec::new();
    request.write(&mut bytes);
    let mut group = c.benchmark_group("handshake");
    group.throughput(Throughput::Elements(1));
    group.bench_function("parse", |b| b.iter(|| parse(black_box(&bytes))));
}

fn commits(c: &mut Criterion) {
    let dir = tempfile::tempdir().unwrap();
    let storage = storage::Options { data_dir: dir.path().to_owned(), ..Default::default() };
    let broker = Broker::open(Parts {
        options: broker::Options::default(),
        offsets: broker::OffsetsOptions::default(),
        max_payload_mb: 50,
        declared: Vec::new(),
        storage,
        compaction: storage::CompactionOptions::default(),
        disk: Arc::new(OsDisk),
        clock: Arc::new(SystemClock),
        metrics: Arc::default(),
    });
    let broker = broker.unwrap();
    let topic = TopicName::parse("t").unwrap();
    let partition = broker.partition(&topic, 0).unwrap();
    let group = GroupName::parse("g").unwrap();
    let key = OffsetKey { group, partition: partition.name().clone() };
    let mut group = c.benchmark_group("offsets");
    group.throughput(Throughput::Elements(1));
    group.bench_function("commit", |b| {
        b.iter(|| broker.commit(key.clone(), &partition, black_box(0)).unwrap());
    });
}

criterion_group!(benches, scanning, appending, lookups, handshakes, commits);
criterion_main!(benches);
