//! The broker's own time: what segments are dated by, and what their ages are counted in.

use std::io;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;

use super::clock::Clock;
use super::crc;
use super::disk::Disk;
use super::whole_file::{read_file, replace_file};

/// While behind the wall clock, the broker's time gains on it one part in so many.
const CATCH_UP: u64 = 4;

/// The broker's time: what segments are dated by, and what their ages are counted in.
///
/// It goes on with the time that passes, whatever the wall clock is set to: it never goes back, never stands still, and
/// never leaps. While it is behind the wall clock (after the broker was down, or the wall clock was set forwards) it runs
/// a quarter faster until it has caught up. So no jump of the wall clock makes a segment old: a clock that is years ahead
/// shortens what is kept by a fifth at most, until it is put right.
#[derive(Debug)]
pub struct GradualClock {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    now_ns: u64,
    /// The steady clock then.
    steady_ns: u64,
}

impl GradualClock {
    /// Goes on from where the time stood when it was last written down; without that, from the wall clock.
    pub fn resume(clock: Arc<dyn Clock>, last_ns: Option<u64>) -> Self {
        let now_ns = last_ns.unwrap_or_else(|| clock.now_ns());
        let state = Mutex::new(State { now_ns, steady_ns: clock.steady_ns() });
        Self { clock, state }
    }
}

impl Clock for GradualClock {
    fn now_ns(&self) -> u64 {
        let (wall, steady) = (self.clock.now_ns(), self.clock.steady_ns());
        let mut state = self.state.lock();
        let passed = steady.saturating_sub(state.steady_ns);
        state.steady_ns = state.steady_ns.max(steady);
        let now = state.now_ns.saturating_add(passed);
        state.now_ns = now.saturating_add(wall.saturating_sub(now).min(passed / CATCH_UP));
        state.now_ns
    }

    fn steady_ns(&self) -> u64 {
        self.clock.steady_ns()
    }

    fn wall_ns(&self) -> u64 {
        self.clock.wall_ns()
    }
}

/// The time that was written down last; `None` if none was, or what is there is not it.
pub fn load_time(disk: &dyn Disk, path: &Path) -> io::Result<Option<u64>> {
    let Some(bytes) = read_file(disk, path)? else { return Ok(None) };
    let text = std::str::from_utf8(&bytes).unwrap_or_default();
    let digits = text.get(..20).unwrap_or_default();
    let found = digits.parse().ok().filter(|&ns| text == line(ns));
    if found.is_none() {
        tracing::warn!(
            file = %path.display(),
            "is damaged; the broker's time goes on from the wall clock"
        );
    }
    Ok(found)
}

/// Writes the time down, durably: the old one or the new one is there, whatever happens.
pub fn save_time(disk: &dyn Disk, path: &Path, now_ns: u64) -> io::Result<()> {
    replace_file(disk, path, line(now_ns).as_bytes())
}

/// The time as it stands in the file, with a checksum: a flipped bit must not make everything old.
fn line(ns: u64) -> String {
    let digits = format!("{ns:020}");
    format!("{digits} {:08x}\n", crc::of(digits.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::super::clock::ManualClock;
    use super::super::sim_disk::SimDisk;
    use super::*;

    const YEAR: u64 = 365 * 24 * 3600 * 1_000_000_000;

    #[test]
    fn the_time_goes_on_whatever_the_wall_clock_is_set_to() {
        let wall = Arc::new(ManualClock::new(50 * YEAR));
        let time = GradualClock::resume(Arc::clone(&wall) as Arc<dyn Clock>, None);
        assert_eq!(time.now_ns(), 50 * YEAR);
        wall.set(60 * YEAR);
        assert_eq!(time.now_ns(), 50 * YEAR, "no leap");
        wall.pass(100);
        assert_eq!(time.now_ns(), 50 * YEAR + 125, "a quarter faster at most");
        wall.set(49 * YEAR);
        wall.pass(100);
        assert_eq!(time.now_ns(), 50 * YEAR + 225, "never back, and never slower");
        wall.set(50 * YEAR + 235);
        wall.pass(100);
        assert_eq!(time.now_ns(), 50 * YEAR + 335);
        wall.pass(100);
        assert_eq!(time.now_ns(), 50 * YEAR + 435, "caught up");
    }

    #[test]
    fn the_time_resumes_where_it_stood() {
        let wall = Arc::new(ManualClock::new(2000));
        let time = GradualClock::resume(Arc::clone(&wall) as Arc<dyn Clock>, Some(1000));
        wall.pass(400);
        assert_eq!(time.now_ns(), 1500);
    }

    #[test]
    fn a_damaged_file_is_no_time() {
        let (disk, path) = (SimDisk::default(), Path::new("/clock"));
        assert_eq!(load_time(&disk, path).unwrap(), None);
        save_time(&disk, path, 5).unwrap();
        save_time(&disk, path, 17 * YEAR).unwrap();
        assert_eq!(load_time(&disk, path).unwrap(), Some(17 * YEAR));
        let bytes = disk.read(path).unwrap();
        assert_eq!(bytes.len(), 30);
        for at in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1;
            disk.put(path, &flipped);
            assert_eq!(load_time(&disk, path).unwrap(), None, "byte {at}");
            disk.put(path, &bytes[..at]);
            assert_eq!(load_time(&disk, path).unwrap(), None, "{at} bytes");
        }
    }
}
