//! The fuzz targets on a stable toolchain: each body over its corpus, and over what proptest makes of it.
//!
//! `fuzz/README.md` says what each target holds the broker to. Input that fails belongs into `fuzz/corpus/TARGET/`.
//! `HERMITMQ_TEST_SEED` makes other inputs, `HERMITMQ_TEST_ROUNDS` more of them.
#![cfg(feature = "server")]
// Helpers of a test fail as tests do.
#![allow(
    clippy::too_many_lines,
    clippy::case_sensitive_file_extension_comparisons,
    clippy::manual_is_multiple_of
)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod seeds;
mod targets;

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// Bytes that all corpora together may take in the repository.
const CORPUS_BYTES_MAX: usize = 200 * 1024;

fn corpus_dir(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target)
}

/// The files of a corpus, by name.
fn corpus(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = std::fs::read_dir(corpus_dir(target)).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

/// Input like that of the corpus, and input like nothing.
fn input(seeds: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let change = (any::<prop::sample::Index>(), any::<u8>(), 0u8..4);
    let changed = (prop::sample::select(seeds), prop::collection::vec(change, 0..6));
    let changed = changed.prop_map(|(mut bytes, changes)| {
        for (at, byte, how) in changes {
            let at = at.index(bytes.len() + 1);
            match how {
                0 => bytes.insert(at, byte),
                1 => bytes.truncate(at.max(bytes.len() / 2)),
                _ if at == bytes.len() => bytes.push(byte),
                2 => bytes[at] = byte,
                _ => bytes[at] ^= 1 << (byte % 8),
            }
        }
        bytes
    });
    prop_oneof![3 => changed, 1 => prop::collection::vec(any::<u8>(), 0..200)]
}

/// A number from the environment.
fn number(name: &str) -> Option<u32> {
    std::env::var(name).ok()?.parse().ok()
}

/// The same inputs each time: a change is judged by what it changes. Libfuzzer looks for new ones, and so does
/// `HERMITMQ_TEST_SEED`.
fn runner(config: Config) -> TestRunner {
    let rng = match number("HERMITMQ_TEST_SEED") {
        Some(number) => {
            let mut seed = [0; 32];
            seed[..4].copy_from_slice(&hermitmq::record::wire::u32_bytes(number));
            TestRng::from_seed(RngAlgorithm::ChaCha, &seed)
        }
        None => TestRng::deterministic_rng(RngAlgorithm::ChaCha),
    };
    TestRunner::new_with_rng(config, rng)
}

/// Runs a target over its corpus and over `cases` inputs.
fn twin(name: &str, cases: u32) {
    let (_, target) = targets::ALL.iter().find(|(known, _)| *known == name).unwrap();
    let corpus = corpus(name);
    assert!(!corpus.is_empty(), "fuzz/corpus/{name} has files");
    for (path, bytes) in &corpus {
        let ran = std::panic::catch_unwind(|| target(bytes));
        assert!(ran.is_ok(), "{}", path.display());
    }
    let seeds = corpus.into_iter().map(|(_, bytes)| bytes).collect();
    // What fails is printed, and kept in the corpus by whoever mends it.
    let cases = number("HERMITMQ_TEST_ROUNDS").unwrap_or(cases);
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let run = |bytes: Vec<u8>| {
        target(&bytes);
        Ok(())
    };
    if let Err(failed) = runner(config).run(&input(seeds), run) {
        panic!("{failed}");
    }
}

#[test]
fn access_rules() {
    twin("access_rules", 3000);
}

#[test]
fn admin_json() {
    twin("admin_json", 4000);
}

#[test]
fn catalog() {
    twin("catalog", 2000);
}

#[test]
fn config() {
    twin("config", 1500);
}

#[test]
fn connection() {
    twin("connection", 4000);
}

#[test]
fn handshake() {
    twin("handshake", 4000);
}

#[test]
fn index() {
    twin("index", 300);
}

#[test]
fn recovery() {
    twin("recovery", 500);
}

#[test]
fn sums() {
    twin("sums", 400);
}

#[test]
fn transport() {
    twin("transport", 400);
}

/// Every seed has a file. `HERMITMQ_TEST_WRITE_CORPUS=1` writes them.
#[test]
fn corpora_are_seeded_and_small() {
    let write = std::env::var_os("HERMITMQ_TEST_WRITE_CORPUS").is_some();
    let mut total = 0;
    for (target, _) in targets::ALL {
        let dir = corpus_dir(target);
        let seeds = seeds::of(target);
        assert!(seeds.len() > 3, "{target} has seeds");
        for (name, bytes) in seeds {
            let path = dir.join(name);
            if write {
                std::fs::create_dir_all(&dir).unwrap();
                std::fs::write(&path, bytes).unwrap();
            }
            assert!(path.is_file(), "{}: HERMITMQ_TEST_WRITE_CORPUS=1 writes it", path.display());
        }
        total += corpus(target).iter().map(|(_, bytes)| bytes.len()).sum::<usize>();
    }
    assert!(total < CORPUS_BYTES_MAX, "the corpora have {total} bytes");
}
