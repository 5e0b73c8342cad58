//! Random lives of a log with power cuts, killed processes and compaction in them, each from a seed.
//!
//! `HERMITMQ_SEEDS=20000 cargo test crash` runs more of them; `HERMITMQ_SEED=N` runs that one.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::super::sim_disk::{Seeded, SimDisk};
use super::compaction::{RULES, assert_whole};
use super::*;

const SEEDS: u64 = 2000;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

#[test]
fn what_was_flushed_survives_every_crash() {
    let seeds = match number("HERMITMQ_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("HERMITMQ_SEEDS").unwrap_or(SEEDS),
    };
    for seed in seeds {
        let life = || Life::new(seed).run();
        if let Err(panic) = catch_unwind(AssertUnwindSafe(life)) {
            eprintln!("failed with HERMITMQ_SEED={seed}");
            resume_unwind(panic);
        }
    }
}

struct Life {
    seed: Seeded,
    disk: SimDisk,
    options: LogOptions,
    opened: Opened,
    /// Everything in the log, and how much of it is flushed. Where the log is compacted, what is superseded may be gone.
    bytes: Vec<u8>,
    flushed: usize,
}

impl Life {
    fn new(seed: u64) -> Self {
        let mut seed = Seeded::new(seed);
        let disk = SimDisk::default();
        let segment_bytes = [200, 1500, 12_000][seed.below(3)];
        let durability = [Durability::Interval, Durability::Always][seed.below(2)];
        let cleanup = [Cleanup::Delete, Cleanup::Compact][seed.below(2)];
        let options = LogOptions { durability, cleanup, ..options(segment_bytes) };
        let opened = open_with(&disk, Path::new(DIR), options);
        Self { seed, disk, options, opened, bytes: Vec::new(), flushed: 0 }
    }

    fn run(&mut self) {
        for _ in 0..4 {
            for _ in 0..self.seed.below(25) {
                match self.seed.below(8) {
                    0 => {
                        self.opened.log.flush().unwrap();
                        self.flushed = self.bytes.len();
                    }
                    1 => self.compact(),
                    _ => self.append(),
                }
            }
            match self.seed.below(6) {
                0 | 1 => self.kill(),
                2 => self.fail_a_flush(),
                _ => self.crash(),
            }
        }
    }

    fn append(&mut self) {
        let mut run = Vec::new();
        for _ in 0..=self.seed.below(3) {
            let len = [10, 200, 3000][self.seed.below(3)];
            let payload = vec![self.seed.byte(); self.seed.below(len)];
            let key = [b"", &b"a"[..], b"b", b"c"][self.seed.below(4)];
            run.extend(frame(key, &payload, u32::try_from(self.seed.below(4)).unwrap()));
        }
        self.bytes.extend(append(&self.opened.log, run).unwrap());
        if self.seed.below(5) == 0 {
            let shown = match self.options.durability {
                Durability::Interval => self.bytes.len(),
                Durability::Always => self.flushed,
            };
            self.assert_holds(shown);
        }
    }

    /// Reads the log, which holds this much of `bytes`, but for what is superseded where it is compacted.
    fn assert_holds(&self, len: usize) -> Vec<u8> {
        let (found, end) = read_from(&self.opened.log, 0);
        assert_eq!(end, End::Tail, "there is no damage that readers meet");
        if self.options.cleanup.compacts() {
            assert_whole(&found, &self.bytes[..len]);
        } else {
            assert!(found == self.bytes[..len], "everything is there");
        }
        found
    }

    /// A pass that may come to its end, or meet a disk that refuses a change, and all after it.
    fn compact(&mut self) {
        let changes = [None, Some(self.seed.below(60))][self.seed.below(2)];
        self.disk.faults(|faults| faults.changes_left = changes);
        let result = self.opened.log.compact(&RULES, &mut |_| true);
        assert!(result.is_ok() || changes.is_some());
        self.disk.faults(|faults| faults.changes_left = None);
    }

    fn kill(&mut self) {
        self.disk = self.disk.kill();
        self.opened = open_with(&self.disk, Path::new(DIR), self.options);
        assert_eq!(self.opened.metrics.torn_bytes.get(), 0, "a killed process tears nothing");
        let found = self.assert_holds(self.bytes.len());
        assert_lookups(&self.opened.log, &found);
        self.after_restart();
    }

    /// The disk refuses a flush, and has not got what it was to write. Memory says otherwise, and is not to be believed.
    fn fail_a_flush(&mut self) {
        self.disk.faults(|faults| faults.sync_error = true);
        let failed = self.opened.log.flush().is_err();
        self.disk.faults(|faults| faults.sync_error = false);
        assert_eq!(self.opened.log.is_read_only(), failed);
        if !failed {
            self.flushed = self.bytes.len();
        }
        self.disk =
            if self.seed.coin() { self.disk.kill() } else { self.disk.crash(&mut self.seed) };
        self.reopen_after_loss();
    }

    /// With [`Durability::Always`] nothing is shown that a power cut could take.
    fn after_restart(&mut self) {
        if self.options.durability == Durability::Always {
            self.flushed = self.bytes.len();
        }
    }

    fn crash(&mut self) {
        self.disk = self.disk.crash(&mut self.seed);
        self.reopen_after_loss();
    }

    fn reopen_after_loss(&mut self) {
        self.opened = open_with(&self.disk, Path::new(DIR), self.options);
        let end = self.opened.log.end_offset();
        let lost = frames_of(&self.bytes).into_iter().find(|(_, next, _)| *next > end);
        let len = lost.map_or(self.bytes.len(), |(.., range)| range.start);
        assert!(len >= self.flushed, "{len} of {} flushed", self.flushed);
        // What is lost was never flushed, so its offsets may come again.
        self.bytes.truncate(len);
        let found = self.assert_holds(len);
        self.after_restart();
        assert_lookups(&self.opened.log, &found);
        // What recovery did holds: the next one finds nothing to do.
        let again = open_with(&self.disk.kill(), Path::new(DIR), self.options);
        assert_eq!(again.metrics.torn_bytes.get(), 0);
        assert_eq!(again.metrics.segments_damaged.get(), 0);
        assert_eq!(again.metrics.indexes_rebuilt.get(), 0);
        assert_eq!(again.log.end_offset(), self.opened.log.end_offset());
    }
}
