//! A broker under `strace`: what it asked of the system, in order, and a disk that is slow or fails on demand.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;

use super::broker::{Broker, Start};
use super::{HANG, INJECT_TOOLS, privileged, wait_for};

/// One end of a system call.
#[derive(Debug, Clone)]
pub struct Event {
    /// Seconds, to be compared with each other alone.
    pub at: f64,
    pub thread: u32,
    pub call: String,
    /// The arguments as strace writes them, with the paths of descriptors.
    pub args: String,
    /// What it returned; `None` where it begins.
    pub result: Option<i64>,
}

impl Event {
    pub fn begins(&self, call: &str) -> bool {
        self.call == call && self.result.is_none()
    }

    pub fn ends(&self, call: &str) -> bool {
        self.call == call && self.result.is_some()
    }
}

/// A broker under `strace`, and where its calls are noted.
pub struct Traced {
    pub broker: Broker,
    log: PathBuf,
}

/// What to note, and what to do to it.
#[derive(Debug, Clone)]
pub struct Trace {
    args: Vec<String>,
    log: PathBuf,
}

impl Trace {
    /// Notes these calls (`a,b`) in a file in `dir`, and tampers with them (`fdatasync:delay_enter=1000`). `None` where
    /// such tests are left out.
    pub fn of(dir: &Path, calls: &str, inject: &str) -> Option<Self> {
        if !privileged(&INJECT_TOOLS) {
            return None;
        }
        let log = dir.join("strace");
        let mut args: Vec<String> =
            ["-f", "-y", "-ttt", "-s", "0", "-e", "signal=none"].map(String::from).into();
        args.extend([
            "-e".into(),
            format!("trace={calls}"),
            "-e".into(),
            format!("inject={inject}"),
        ]);
        args.extend(["-o".into(), log.display().to_string()]);
        Some(Self { args, log })
    }

    /// Only calls on this file.
    pub fn on(mut self, file: &Path) -> Self {
        self.args.extend(["-P".into(), file.display().to_string()]);
        self
    }

    /// Starts a broker that is traced from its first call on.
    pub fn run(self, start: Start) -> Traced {
        // Detached, so that the child is the broker itself.
        let args = self.args.iter().map(String::as_str);
        let strace: Vec<&str> = ["strace", "-D", "-qq"].into_iter().chain(args).collect();
        Traced { broker: start.run_under(&strace), log: self.log }
    }

    /// Traces a broker that runs, from now on.
    pub fn attach(self, broker: Broker) -> Traced {
        let mut strace = Command::new("strace");
        strace.args(&self.args).args(["-p", &broker.pid().to_string()]).stderr(Stdio::piped());
        let mut strace = strace.spawn().unwrap();
        // It says so once it has got hold of the threads.
        let lines = BufReader::new(strace.stderr.take().unwrap()).lines().map_while(Result::ok);
        let (says, said) = channel();
        std::thread::spawn(move || {
            lines.for_each(|line| _ = says.send(line));
            strace.wait()
        });
        // If it does not, it ends with the broker.
        let said = said.recv_timeout(HANG).unwrap();
        assert!(said.contains("attached"), "{said}");
        Traced { broker, log: self.log }
    }
}

impl Traced {
    /// SIGKILL; everything that was noted until then.
    pub fn kill(self) -> Vec<Event> {
        self.broker.kill();
        // The tracer ends after its process: only then is everything written.
        wait_for("strace to end", || (!is_open_elsewhere(&self.log)).then_some(()));
        parse(&std::fs::read_to_string(&self.log).unwrap())
    }

    /// What was noted so far.
    pub fn so_far(&self) -> Vec<Event> {
        parse(&std::fs::read_to_string(&self.log).unwrap())
    }
}

/// Whether another process has the file open.
fn is_open_elsewhere(file: &Path) -> bool {
    let is_it = |open: &Path| std::fs::read_link(open).is_ok_and(|to| to == file);
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let numbered = processes.filter(|process| {
        process.file_name().to_str().is_some_and(|name| name.parse::<u32>().is_ok())
    });
    numbered
        .filter_map(|process| std::fs::read_dir(process.path().join("fd")).ok())
        .any(|open| open.flatten().any(|open| is_it(&open.path())))
}

fn parse(text: &str) -> Vec<Event> {
    let mut events: Vec<Event> = Vec::new();
    // The last line may be half written.
    for line in text.lines() {
        let word = |text: &str| {
            let (word, rest) = text.trim_start().split_once(' ')?;
            Some((word.to_owned(), rest.trim_start().to_owned()))
        };
        let Some((thread, rest)) = word(line) else { continue };
        let Some((at, what)) = word(&rest) else { continue };
        let (Ok(thread), Ok(at)) = (thread.parse(), at.parse()) else { continue };
        let result = |text: &str| -> Option<i64> {
            let (_, result) = text.rsplit_once(") = ").or_else(|| text.rsplit_once("= "))?;
            result.split_whitespace().next()?.parse().ok()
        };
        let event = |call: &str, args: &str, result| Event {
            at,
            thread,
            call: call.to_owned(),
            args: args.to_owned(),
            result,
        };
        if let Some(resumed) = what.strip_prefix("<... ") {
            let call = resumed.split(' ').next().unwrap();
            // A call of a killed process has no result, one from before the tracing no beginning.
            let begun = events.iter().rev().find(|event| event.thread == thread);
            let begun = begun.filter(|event| event.begins(call)).cloned();
            if let (Some(result), Some(begun)) = (result(resumed), begun) {
                let args = format!("{}{resumed}", begun.args);
                events.push(event(call, &args, Some(result)));
            }
        } else if let Some((call, args)) = what.split_once('(') {
            events.push(event(call, args, None));
            if !args.ends_with("<unfinished ...>")
                && let Some(result) = result(args)
            {
                events.push(event(call, args, Some(result)));
            }
        }
    }
    events
}
