//! Control groups with a limit, of version 1 or 2.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use super::privileged::lacking;
use super::{privileged, wait_for};

const MOUNT: &str = "/sys/fs/cgroup";

/// A control group whose members have so much memory at most; removed at the end.
pub struct ControlGroup {
    dir: PathBuf,
    version: u8,
}

impl ControlGroup {
    /// A member has at most so many bytes of memory, in decimal. None, and a line that says so, where such tests are left out.
    pub fn memory(limit: &str) -> Option<Self> {
        if !privileged(&[]) {
            return None;
        }
        let own = fs::read_to_string("/proc/self/cgroup").unwrap();
        // `9:cpu,memory:/path` in version 1, `0::/path` in version 2.
        let has_memory =
            |line: &&str| line.split(':').nth(1).unwrap().split(',').any(|c| c == "memory");
        let made = match own.lines().find(has_memory) {
            Some(line) => Self::v1(line, limit),
            None => Self::v2(own.lines().find(|line| line.starts_with("0::")).unwrap(), limit),
        };
        Some(made.unwrap_or_else(|error| {
            panic!("{}: {error}", lacking("a control group with a limit of memory"))
        }))
    }

    fn v1(line: &str, limit: &str) -> io::Result<Self> {
        let parent = Path::new(MOUNT).join("memory").join(path_in(line));
        let group = Self::below(&parent, 1)?;
        set(&group.dir.join("memory.limit_in_bytes"), limit)?;
        Ok(group)
    }

    /// A group with members has no children with controllers: then it is a sibling, or further up.
    fn v2(line: &str, limit: &str) -> io::Result<Self> {
        let own = Path::new(MOUNT).join(path_in(line));
        let mut tried = Err(io::ErrorKind::NotFound.into());
        for parent in own.ancestors().take_while(|dir| dir.starts_with(MOUNT)) {
            let limited = |group: Self| {
                // It may be enabled already, by somebody who alone may do that.
                let _ = set(&parent.join("cgroup.subtree_control"), "+memory");
                set(&group.dir.join("memory.max"), limit).map(|()| group)
            };
            tried = Self::below(parent, 2).and_then(limited);
            if tried.is_ok() {
                break;
            }
        }
        tried
    }

    /// A new one.
    fn below(parent: &Path, version: u8) -> io::Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let dir = parent.join(format!("hermitmq-test-{}-{number}", std::process::id()));
        // A process that was killed may have left one of this name.
        let _ = fs::remove_dir(&dir);
        fs::create_dir(&dir)?;
        Ok(Self { dir, version })
    }

    /// 1 or 2.
    pub fn version(&self) -> u8 {
        self.version
    }

    /// The limit, in bytes.
    pub fn limit(&self) -> usize {
        self.number(if self.version == 1 { "memory.limit_in_bytes" } else { "memory.max" })
    }

    /// Bytes that members have had at most, all together.
    pub fn peak(&self) -> usize {
        self.number(if self.version == 1 { "memory.max_usage_in_bytes" } else { "memory.peak" })
    }

    fn number(&self, file: &str) -> usize {
        let text = fs::read_to_string(self.dir.join(file));
        text.unwrap_or_else(|error| panic!("{file}: {error}")).trim().parse().unwrap()
    }

    /// The command in front of the broker's own, which becomes a member.
    pub fn enter(&self) -> Vec<std::ffi::OsString> {
        let script = "echo $$ > \"$0/cgroup.procs\" && exec \"$@\"";
        ["sh", "-c", script].map(Into::into).into_iter().chain([self.dir.clone().into()]).collect()
    }
}

/// Writes to a file that is there: where there is none, this is no control group, or one without the controller.
fn set(file: &Path, value: &str) -> io::Result<()> {
    fs::OpenOptions::new().write(true).open(file)?.write_all(value.as_bytes())
}

/// The path in a line of `/proc/PID/cgroup`, below the mount.
fn path_in(line: &str) -> &str {
    line.splitn(3, ':').nth(2).unwrap().trim_start_matches('/')
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        // Its last member may be about to end.
        wait_for("the control group to be empty", || fs::remove_dir(&self.dir).ok());
    }
}
