//! Faults at a system call, through strace.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::wait_for;

/// What an injection needs.
pub const INJECT_TOOLS: [&str; 1] = ["strace"];

/// The command in front of the broker's own: `what` as strace's `inject=` takes it (`pwrite64:signal=KILL:when=3`).
/// Counts are those of each thread. The broker stays the process that was started; strace is a grandchild.
pub fn inject(what: &str) -> Vec<OsString> {
    let calls = what.split(':').next().unwrap_or(what);
    let trace = format!("trace={calls}");
    let inject = format!("inject={what}");
    let args = ["strace", "-D", "-f", "-qqq", "-o", "/dev/null", "-e"];
    args.into_iter().chain([trace.as_str(), "-e", &inject]).map(OsString::from).collect()
}

/// As [`inject`], for calls on this file alone.
pub fn inject_on(file: &Path, what: &str) -> Vec<OsString> {
    let mut command = inject(what);
    command.extend([OsString::from("-P"), file.as_os_str().to_owned()]);
    command
}

/// strace on a broker that runs already: counts begin now. Ends with the broker.
#[derive(Debug)]
pub struct Tracer(Child);

impl Tracer {
    /// Traces all threads of the process; returns once it does. `what` as for [`inject`].
    pub fn attach(pid: u32, what: &str) -> Self {
        let calls = what.split(':').next().unwrap_or(what);
        let mut strace = Command::new("strace");
        strace.args(["-f", "-qqq", "-o", "/dev/null", "-e", &format!("trace={calls}")]);
        strace.args(["-e", &format!("inject={what}"), "-p", &pid.to_string()]);
        strace.stdin(Stdio::null()).stderr(Stdio::null());
        // A thread that begins just now can be missed: then all over again, with more time.
        let mut patience = Duration::from_millis(500);
        wait_for("strace to trace every thread", || {
            let tracer = Self(strace.spawn().unwrap());
            let start = Instant::now();
            while !all_traced(pid) {
                if start.elapsed() > patience {
                    patience *= 2;
                    return None;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            Some(tracer)
        })
    }
}

/// Also when the process is gone already.
fn all_traced(pid: u32) -> bool {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return true };
    let traced = |task: std::fs::DirEntry| {
        let Ok(status) = std::fs::read_to_string(task.path().join("status")) else { return true };
        status.lines().any(|l| l.strip_prefix("TracerPid:").is_some_and(|pid| pid.trim() != "0"))
    };
    tasks.filter_map(Result::ok).all(traced)
}

impl Drop for Tracer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
