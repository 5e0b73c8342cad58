//! Random lives of a log with power cuts and killed processes in them, each from a seed.
//!
//! `HERMITMQ_SEEDS=20000 cargo test crash` runs more of them; `HERMITMQ_SEED=N` runs that one.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::super::sim_disk::{Seeded, SimDisk};
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
    /// Everything in the log, and how much of it is flushed.
    bytes: Vec<u8>,
    flushed: usize,
}

impl Life {
    fn new(seed: u64) -> Self {
        let mut seed = Seeded::new(seed);
        let disk = SimDisk::default();
        let segment_bytes = [200, 1500, 12_000][seed.below(3)];
        let durability = [Durability::Interval, Durability::Always][seed.below(2)];
        let options = LogOptions { durability, ..options(segment_bytes) };
        let opened = open_with(&disk, Path::new(DIR), options);
        Self { seed, disk, options, opened, bytes: Vec::new(), flushed: 0 }
    }

    fn run(&mut self) {
        for _ in 0..4 {
            for _ in 0..self.seed.below(25) {
                match self.seed.below(6) {
                    0 => {
                        self.opened.log.flush().unwrap();
                        self.flushed = self.bytes.len();
                    }
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
            run.extend(frame(b"k", &payload, u32::try_from(self.seed.below(4)).unwrap()));
        }
        self.bytes.extend(append(&self.opened.log, run).unwrap());
        if self.seed.below(5) == 0 {
            let shown = match self.options.durability {
                Durability::Interval => self.bytes.len(),
                Durability::Always => self.flushed,
            };
            assert!(read_from(&self.opened.log, 0) == (self.bytes[..shown].to_vec(), End::Tail));
        }
    }

    fn kill(&mut self) {
        self.disk = self.disk.kill();
        self.opened = open_with(&self.disk, Path::new(DIR), self.options);
        assert_eq!(self.opened.metrics.torn_bytes.get(), 0, "a killed process tears nothing");
        assert!(read_from(&self.opened.log, 0) == (self.bytes.clone(), End::Tail));
        assert_lookups(&self.opened.log, &self.bytes);
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
        let (found, end) = read_from(&self.opened.log, 0);
        assert_eq!(end, End::Tail, "a power cut leaves no damage that readers meet");
        assert!(found.len() >= self.flushed, "{} of {} flushed", found.len(), self.flushed);
        assert!(self.bytes.starts_with(&found), "only a suffix is lost");
        // What is lost was never flushed, so its offsets may come again.
        self.bytes = found;
        self.after_restart();
        assert_lookups(&self.opened.log, &self.bytes);
        // What recovery did holds: the next one finds nothing to do.
        let again = open_with(&self.disk.kill(), Path::new(DIR), self.options);
        assert_eq!(again.metrics.torn_bytes.get(), 0);
        assert_eq!(again.metrics.segments_damaged.get(), 0);
        assert_eq!(again.metrics.indexes_rebuilt.get(), 0);
        assert_eq!(again.log.end_offset(), self.opened.log.end_offset());
    }
}
