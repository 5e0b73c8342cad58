//! The process as the operating system sees it, under the names that Prometheus' own libraries use; and the program.

use std::time::UNIX_EPOCH;

use super::text::{Kind, Text};
use crate::admin::state::State;

pub(super) fn write(text: &mut Text, state: &State) {
    text.family("hermitmq_build_info", Kind::Gauge, "1, with the version of the program.")
        .sample(&[("version", env!("CARGO_PKG_VERSION"))], 1);
    text.gauge(
        "hermitmq_ready",
        "1 while the broker has recovered and is not going down, else 0.",
        u8::from(state.running().is_some() && !state.is_stopping()),
    );
    text.gauge(
        "hermitmq_uptime_seconds",
        "Time since the start of the admin listener.",
        state.uptime().as_secs_f64(),
    );
    let begun_at = state.begun_at.duration_since(UNIX_EPOCH).unwrap_or_default();
    text.gauge(
        "process_start_time_seconds",
        "When the process began, in seconds since the Unix epoch.",
        begun_at.as_secs_f64(),
    );
    let process = Process::look();
    text.counter(
        "process_cpu_seconds_total",
        "Processor time used, user and system.",
        process.cpu_seconds,
    );
    text.gauge("process_resident_memory_bytes", "Resident memory.", process.resident_bytes);
    text.gauge("process_virtual_memory_bytes", "Virtual memory.", process.virtual_bytes);
    text.gauge("process_open_fds", "File descriptors open.", process.open_fds);
    text.gauge("process_max_fds", "File descriptors that may be open.", process.max_fds);
    text.gauge("process_threads", "Threads.", process.threads);
}

/// What `/proc` says; zeros on a system that has none.
#[derive(Debug, Default)]
struct Process {
    cpu_seconds: f64,
    resident_bytes: u64,
    virtual_bytes: u64,
    open_fds: usize,
    max_fds: u64,
    threads: u64,
}

impl Process {
    fn look() -> Self {
        let read = |name: &str| std::fs::read_to_string(format!("/proc/self/{name}"));
        let stat = read("stat").unwrap_or_default();
        let limits = read("limits").unwrap_or_default();
        // One of them is that of the directory that is being read.
        let open_fds = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
        Self { open_fds: open_fds.saturating_sub(1), max_fds: max_fds(&limits), ..Self::of(&stat) }
    }

    /// Fields of `/proc/self/stat`; those behind the command's name, which may hold anything and ends with the last
    /// parenthesis, are counted from 3 on in the manual, from 0 on here.
    fn of(stat: &str) -> Self {
        let behind_name = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
        let fields: Vec<&str> = behind_name.split_whitespace().collect();
        let number = |at: usize| -> u64 {
            fields.get(at - 3).and_then(|field| field.parse().ok()).unwrap_or(0)
        };
        let (user, system) = (number(14), number(15));
        let ticks_per_second = rustix::param::clock_ticks_per_second().max(1);
        let page_bytes = rustix::param::page_size() as u64;
        Self {
            cpu_seconds: seconds(user + system, ticks_per_second),
            threads: number(20),
            virtual_bytes: number(23),
            resident_bytes: number(24) * page_bytes,
            ..Self::default()
        }
    }
}

fn seconds(ticks: u64, per_second: u64) -> f64 {
    let millis = ticks.saturating_mul(1000) / per_second;
    std::time::Duration::from_millis(millis).as_secs_f64()
}

fn max_fds(limits: &str) -> u64 {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let soft = line.and_then(|line| line.split_whitespace().next());
    soft.and_then(|soft| soft.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_counted_behind_the_name() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 900 0 0 0 150 50 0 0 20 0 9 0 1000 4096000 25 18446744073709551615";
        let process = Process::of(stat);
        let ticks = rustix::param::clock_ticks_per_second();
        assert!((process.cpu_seconds - seconds(200, ticks)).abs() < 1e-9);
        assert_eq!((process.threads, process.virtual_bytes), (9, 4_096_000));
        assert_eq!(process.resident_bytes, 25 * rustix::param::page_size() as u64);
        assert_eq!(Process::of("nonsense").threads, 0);
        assert_eq!(max_fds("Limit  Soft\nMax open files            1024   4096  files\n"), 1024);
    }
}
