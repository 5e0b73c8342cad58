//! What the container allows: processors by the CPU quota, memory by the limit, of cgroup v1 and v2.
//!
//! The files are read by [`Container::of_process`]; what they mean is worked out from their text alone.

use std::path::{Path, PathBuf};
use std::thread;

/// Where control groups are mounted, by everybody's convention.
const MOUNT: &str = "/sys/fs/cgroup";

/// A memory limit of v1 from here on means that there is none: it is the largest number of whole pages.
const V1_NO_LIMIT: u64 = 1 << 62;

/// What the process may use, as far as it is told.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Container {
    /// Processors.
    pub cpus: Option<Cpus>,
    /// Memory.
    pub memory: Option<Memory>,
}

/// Processors that the process may use.
#[derive(Debug, Clone, PartialEq)]
pub struct Cpus {
    /// Whole ones, at least one; a part of one counts as one.
    pub count: u32,
    /// Where that is from, for people.
    pub source: String,
}

/// Memory that the process may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Memory {
    /// Bytes.
    pub bytes: u64,
    /// Where that is from, for people.
    pub source: String,
}

impl Container {
    /// What this process may use: the smallest limit of all control groups around it.
    pub fn of_process() -> Self {
        let read = |path: &Path| std::fs::read_to_string(path).ok();
        Self::of(&read, processors())
    }

    /// As [`Container::of_process`], of files that `read` gives; `allowed` is the number of processors by the scheduler.
    fn of(read: &dyn Fn(&Path) -> Option<String>, allowed: Option<u32>) -> Self {
        let groups = read(Path::new("/proc/self/cgroup")).unwrap_or_default();
        let quota = Group::all(&groups, "cpu").filter_map(|group| {
            let quota = group.cpu_quota(read)?;
            Some((quota, format!("cpu quota {} of cgroup v{}", short(quota), group.version)))
        });
        let quota = quota.min_by(|a, b| a.0.total_cmp(&b.0));
        let cpus = match (quota, allowed) {
            (Some((quota, source)), allowed) if whole(quota) <= allowed.unwrap_or(u32::MAX) => {
                Some(Cpus { count: whole(quota), source })
            }
            (_, allowed) => {
                allowed.map(|count| Cpus { count, source: "processors available".to_owned() })
            }
        };
        let memory = Group::all(&groups, "memory").filter_map(|group| {
            let bytes = group.memory_limit(read)?;
            let source = format!("memory limit {} of cgroup v{}", binary(bytes), group.version);
            Some(Memory { bytes, source })
        });
        Self { cpus, memory: memory.min_by_key(|memory| memory.bytes) }
    }
}

/// A control group's directory.
#[derive(Debug, PartialEq, Eq)]
struct Group {
    version: u8,
    dir: PathBuf,
}

impl Group {
    /// The groups of a process that a controller may be in, with those around them: each can limit it. `cgroups` is the text
    /// of `/proc/self/cgroup`: lines `number:controllers:path`, the controllers empty for v2.
    fn all<'a>(cgroups: &'a str, controller: &'a str) -> impl Iterator<Item = Self> + 'a {
        cgroups.lines().flat_map(move |line| {
            let mut fields = line.splitn(3, ':').skip(1);
            let (controllers, path) = (fields.next(), fields.next());
            let mounts = match controllers {
                // On a machine with both, v2 has a mount of its own.
                Some("") => vec!["", "unified"],
                Some(list) if list.split(',').any(|name| name == controller) => {
                    vec![controller, list]
                }
                _ => Vec::new(),
            };
            let version = if controllers == Some("") { 2 } else { 1 };
            let path = path.unwrap_or_default().trim_start_matches('/');
            // What is above the container's own root cannot be seen from within.
            let path = if path.split('/').any(|part| part == "..") { "" } else { path };
            mounts.into_iter().flat_map(move |mount| {
                let root = Path::new(MOUNT).join(mount);
                let deepest = root.join(path);
                let around = deepest.ancestors().map(Path::to_owned);
                let dirs: Vec<_> = around.take_while(|dir| dir.starts_with(&root)).collect();
                dirs.into_iter().map(move |dir| Self { version, dir })
            })
        })
    }

    fn cpu_quota(&self, read: &dyn Fn(&Path) -> Option<String>) -> Option<f64> {
        if self.version == 2 {
            return quota_v2(&read(&self.dir.join("cpu.max"))?);
        }
        let quota = read(&self.dir.join("cpu.cfs_quota_us"))?;
        quota_v1(&quota, &read(&self.dir.join("cpu.cfs_period_us"))?)
    }

    fn memory_limit(&self, read: &dyn Fn(&Path) -> Option<String>) -> Option<u64> {
        if self.version == 2 {
            return limit_v2(&read(&self.dir.join("memory.max"))?);
        }
        limit_v1(&read(&self.dir.join("memory.limit_in_bytes"))?)
    }
}

/// `cpu.max`: time and period in microseconds, or `max` and the period.
fn quota_v2(text: &str) -> Option<f64> {
    let (quota, period) = text.trim().split_once(' ')?;
    quota_v1(quota, period)
}

/// `cpu.cfs_quota_us`, which is -1 for none, and `cpu.cfs_period_us`.
fn quota_v1(quota: &str, period: &str) -> Option<f64> {
    let (quota, period): (u32, u32) = (quota.trim().parse().ok()?, period.trim().parse().ok()?);
    (quota > 0 && period > 0).then(|| f64::from(quota) / f64::from(period))
}

/// `memory.max`: bytes, or `max`.
fn limit_v2(text: &str) -> Option<u64> {
    text.trim().parse().ok().filter(|bytes| *bytes > 0)
}

/// `memory.limit_in_bytes`.
fn limit_v1(text: &str) -> Option<u64> {
    limit_v2(text).filter(|bytes| *bytes < V1_NO_LIMIT)
}

/// Processors that the scheduler may put this process on. The standard library counts them, too, but takes a quota of 1.5
/// for one.
fn processors() -> Option<u32> {
    #[cfg(target_os = "linux")]
    if let Ok(set) = rustix::thread::sched_getaffinity(None) {
        return Some(set.count());
    }
    thread::available_parallelism().ok().and_then(|count| u32::try_from(count.get()).ok())
}

/// Processors that a quota keeps busy, rounded up.
fn whole(quota: f64) -> u32 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a ratio of two u32"
    )]
    let whole = quota.ceil() as u32;
    whole.max(1)
}

fn short(quota: f64) -> String {
    let text = format!("{quota:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn binary(bytes: u64) -> String {
    let (mib, rest) = (bytes >> 20, bytes & ((1 << 20) - 1));
    if rest == 0 { format!("{mib} MiB") } else { format!("{bytes} bytes") }
}

#[cfg(test)]
mod tests;
