//! Control groups of version 1.

use std::fs;
use std::path::{Path, PathBuf};

use super::{privileged, wait_for};

/// A control group of version 1 with a limit; removed at the end.
pub struct ControlGroup(PathBuf);

impl ControlGroup {
    /// None if this machine has no such controller, or does not let it be used.
    fn new(controller: &str, settings: &[(&str, &str)]) -> Option<Self> {
        static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let own = fs::read_to_string("/proc/self/cgroup").ok()?;
        let line = own.lines().find(|line| line.split(':').nth(1) == Some(controller))?;
        let parent = line.splitn(3, ':').nth(2)?.trim_start_matches('/').to_owned();
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let name = format!("hermitmq-test-{}-{number}", std::process::id());
        let dir = Path::new("/sys/fs/cgroup").join(controller).join(parent).join(name);
        fs::create_dir(&dir).ok()?;
        let group = Self(dir);
        let set = |(file, value): &(&str, &str)| fs::write(group.0.join(file), value).is_ok();
        settings.iter().all(set).then_some(group)
    }

    /// A member has at most so many bytes of memory, in decimal. None, and a line that says so, where that cannot be had.
    pub fn memory(limit: &str) -> Option<Self> {
        if !privileged(&[]) {
            return None;
        }
        let group = Self::new("memory", &[("memory.limit_in_bytes", limit)]);
        if group.is_none() {
            eprintln!(
                "skipped: no control group of version 1 with a memory limit can be made here"
            );
        }
        group
    }

    /// A file of it that holds a number.
    pub fn number(&self, file: &str) -> usize {
        fs::read_to_string(self.0.join(file)).unwrap().trim().parse().unwrap()
    }

    /// The command in front of the broker's own, which becomes a member.
    pub fn enter(&self) -> Vec<std::ffi::OsString> {
        let script = "echo $$ > \"$0/cgroup.procs\" && exec \"$@\"";
        ["sh", "-c", script].map(Into::into).into_iter().chain([self.0.clone().into()]).collect()
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        // Its last member may be about to end.
        wait_for("the control group to be empty", || fs::remove_dir(&self.0).ok());
    }
}
