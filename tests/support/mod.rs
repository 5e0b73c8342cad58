//! What the black-box tests share: a broker process, and a client that speaks protocol 1.0 byte by byte.
#![allow(dead_code, unreachable_pub, unused_imports, missing_docs)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::print_stdout
)]

mod broker;
pub mod certificates;
mod cgroup;
pub mod http;
mod inject;
mod journal;
mod load;
mod privileged;
mod raw;
mod rules;
mod running;
mod strace;
pub mod tunnel;
pub mod v1_1;
mod verify;
mod volume;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub use broker::{AGAIN, Broker, Ended, KEPT, LogLine, Start, exe, hermitmq};
pub use cgroup::ControlGroup;
pub use inject::{INJECT_TOOLS, Tracer, inject, inject_on};
pub use journal::{Journal, Loss, Place, Stamp, durable_ends};
pub use load::{Commits, GROUP, Load, Outcome, Plan, assert_group_resumes};
pub use privileged::{lacking, privileged};
pub use raw::{
    COMMIT, CONSUME, Frame, PRODUCE, RawClient, assert_offsets_follow, commit, drain, frame,
    frames_of, handshake, name,
};
pub use rules::RULES;
pub use running::{Running, run_to_end};
pub use strace::{Event, Trace, Traced};
pub use verify::{assert_verifies, findings, verify};
pub use volume::{Ballast, VOLUME_TOOLS, Volume};

/// How long anything may take before a test gives up: it only ends a hang. No test fails because something took long; where
/// times are compared, both are of the same run, or what took too short a time is the fault.
pub const HANG: Duration = Duration::from_secs(30);

/// A scratch directory, and the data directory in it (not created yet).
pub fn scratch() -> (tempfile::TempDir, PathBuf) {
    scratch_in(&std::env::temp_dir())
}

/// As [`scratch`], where the target directory is: the temporary directory may be memory, and of memory a control group has
/// little.
pub fn scratch_on_disk() -> (tempfile::TempDir, PathBuf) {
    scratch_in(Path::new(env!("CARGO_TARGET_TMPDIR")))
}

/// With the process id in its name: `.ci/run` removes those that processes have left that are gone.
fn scratch_in(parent: &Path) -> (tempfile::TempDir, PathBuf) {
    let prefix = format!("hermitmq-test-{}-", std::process::id());
    let dir = tempfile::Builder::new().prefix(&prefix).tempdir_in(parent).unwrap();
    let data = dir.path().join("data");
    (dir, data)
}

/// As [`scratch`], in memory if there is room: for tests that flush all the time, and are not about what a disk does.
pub fn scratch_in_memory() -> (tempfile::TempDir, PathBuf) {
    let shm = Path::new("/dev/shm");
    let room = rustix::fs::statvfs(shm).map_or(0, |stat| stat.f_bavail * stat.f_frsize);
    if room < 1 << 30 {
        return scratch();
    }
    scratch_in(shm)
}

/// Waits until `ready` gives a value; fails with `what` after [`HANG`].
pub fn wait_for<T>(what: &str, mut ready: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = ready() {
            return value;
        }
        assert!(start.elapsed() < HANG, "gave up waiting for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Names in a directory, sorted.
pub fn listing(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(dir)
        .unwrap_or_else(|e| panic!("{}: {e}", dir.display()))
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// The files of a directory whose names are `wanted`, with their bytes, while a broker works in it.
pub fn files_in_use(dir: &Path, wanted: impl Fn(&str) -> bool) -> Vec<(String, Vec<u8>)> {
    look_in_use(dir, wanted, |path| std::fs::read(path))
}

/// The names in a directory that are `wanted`, sorted, while a broker works in it.
pub fn names_in_use(dir: &Path, wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let looked = look_in_use(dir, wanted, |path| std::fs::symlink_metadata(path).map(drop));
    looked.into_iter().map(|(name, ())| name).collect()
}

/// Bytes of all files of a directory whose names are `wanted`, while a broker works in it.
pub fn bytes_in_use(dir: &Path, wanted: impl Fn(&str) -> bool) -> u64 {
    let looked = look_in_use(dir, wanted, |path| std::fs::metadata(path).map(|file| file.len()));
    looked.into_iter().map(|(_, len)| len).sum()
}

/// Looks at the files of a directory whose names are `wanted` while a broker works in it: a file may be renamed or removed
/// after it was listed, and one that is renamed during a listing may be in it by both of its names or by none. So all is
/// done again until what was listed was looked at and is what is listed afterwards. A file that is still listed must be
/// there.
pub fn look_in_use<T>(
    dir: &Path,
    wanted: impl Fn(&str) -> bool,
    look: impl Fn(&Path) -> std::io::Result<T>,
) -> Vec<(String, T)> {
    let names = || -> Vec<String> { listing(dir).into_iter().filter(|n| wanted(n)).collect() };
    wait_for("a directory to stay the same while it is read", || {
        let before = names();
        let mut files = Vec::new();
        let mut gone = Vec::new();
        for name in &before {
            match look(&dir.join(name)) {
                Ok(found) => files.push((name.clone(), found)),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => gone.push(name),
                Err(error) => panic!("{name}: {error}"),
            }
        }
        let after = names();
        let listed = gone.iter().find(|name| after.contains(name));
        assert_eq!(listed, None, "listed and not there, in {}", dir.display());
        (before == after).then_some(files)
    })
}

/// Copies a directory and everything below it.
pub fn copy_dir(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_dir(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// SHA-256, in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    use sha2::Digest;
    hex(&sha2::Sha256::digest(bytes))
}

pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

/// Bytes from hexadecimal; white space is skipped.
pub fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text
        .chars()
        .filter(|c| !c.is_whitespace())
        .map(|c| u8::try_from(c.to_digit(16).unwrap_or_else(|| panic!("not hex: {text}"))).unwrap())
        .collect();
    assert!(digits.len().is_multiple_of(2), "half a byte: {text}");
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// How many rounds a test makes: `HERMITMQ_TEST_ROUNDS`, else `short`.
pub fn rounds(short: u64) -> u64 {
    std::env::var("HERMITMQ_TEST_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(short)
}

/// Whether everything is tried and nothing sampled: `HERMITMQ_TEST_LONG` is set.
pub fn is_long() -> bool {
    std::env::var_os("HERMITMQ_TEST_LONG").is_some()
}

/// Random numbers that a seed repeats. `HERMITMQ_TEST_SEED` sets the seed; it is printed with a failure.
pub struct Random(u64);

impl Random {
    pub fn seeded() -> Self {
        let seed = std::env::var("HERMITMQ_TEST_SEED").ok().and_then(|s| s.parse().ok());
        let now = || {
            let since = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
            u64::try_from(since.as_nanos() & u128::from(u64::MAX)).unwrap()
        };
        let seed: u64 = seed.unwrap_or_else(now) | 1;
        eprintln!("HERMITMQ_TEST_SEED={seed}");
        Self(seed)
    }

    /// The same numbers every time.
    pub fn from(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// xorshift64.
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next().to_le_bytes()[3]).collect()
    }
}
