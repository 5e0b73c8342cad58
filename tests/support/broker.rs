//! A broker as a process of its own, with its log.

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};

use super::{HANG, http, wait_for};

/// The binary under test.
pub fn exe() -> &'static str {
    env!("CARGO_BIN_EXE_hermitmq")
}

/// What is said when a configuration was taken over: see [`Broker::reload`].
pub const AGAIN: &str = "the configuration was read again";

/// What is said when it was not.
pub const KEPT: &str = "the configuration stays as it was";

/// What a broker says that cannot start because another one has its directory.
const HELD: &str = "is in use by another broker";

/// One line of the broker's log.
#[derive(Debug, Clone)]
pub struct LogLine(pub serde_json::Value);

impl LogLine {
    /// A field as text, wherever the log format puts it; empty if there is none.
    pub fn get(&self, field: &str) -> String {
        let nested = || self.0.get("fields").and_then(|fields| fields.get(field));
        let value = self.0.get(field).or_else(nested);
        match value {
            None => String::new(),
            Some(serde_json::Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        }
    }

    pub fn level(&self) -> String {
        self.get("level")
    }
}

/// How to start a broker.
pub struct Start {
    data_dir: PathBuf,
    before: Vec<OsString>,
    args: Vec<OsString>,
    env: Vec<(String, String)>,
    port: u16,
    admin: bool,
}

impl Start {
    pub fn on(data_dir: &Path) -> Self {
        Self {
            data_dir: data_dir.to_owned(),
            before: Vec::new(),
            args: Vec::new(),
            env: Vec::new(),
            port: 0,
            admin: false,
        }
    }

    /// Listens on this port instead of a free one: that of a broker before it.
    pub fn port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// With an admin listener: see [`Broker::admin`].
    pub fn with_admin(mut self) -> Self {
        self.admin = true;
        self
    }

    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    pub fn env(mut self, name: &str, value: impl std::fmt::Display) -> Self {
        self.env.push((name.to_owned(), value.to_string()));
        self
    }

    /// Starts the broker by another program, which must become it: see [`super::inject`].
    pub fn by(mut self, command: Vec<OsString>) -> Self {
        self.before = command;
        self
    }

    /// Logs at `debug`.
    pub fn debug(self) -> Self {
        self.arg("--log-level").arg("debug")
    }

    /// The command, in the environment that these settings alone make: no configuration of the machine is read.
    pub fn command(&self) -> Command {
        let mut words = self.before.iter();
        let mut command = match words.next() {
            None => bare_command(exe()),
            Some(program) => {
                let mut command = bare_command(program);
                command.args(words).arg(exe());
                command
            }
        };
        command.args(["serve", "--port", &self.port.to_string(), "--data-dir"]);
        command.arg(&self.data_dir);
        // Several brokers run at once: each has a free port for its admin listener, or none.
        let admin = if self.admin { "127.0.0.1:0" } else { "" };
        command.env("HERMITMQ_ADMIN__LISTEN", admin);
        command.args(&self.args).envs(self.env.iter().map(|(k, v)| (k, v)));
        if let Some(parent) = self.data_dir.parent().filter(|parent| parent.is_dir()) {
            command.current_dir(parent);
        }
        command
    }

    /// Starts the broker and waits until it listens.
    pub fn run(self) -> Broker {
        self.try_run().unwrap_or_else(|ended| panic!("{}", ended.whole()))
    }

    /// Starts the broker after a kill, and waits until it listens. The one before may hold the directory for a moment;
    /// whatever else keeps it from starting is a failure, even if it started a moment later.
    pub fn run_after_kill(self) -> Broker {
        wait_for("the directory to be free", || match self.try_run() {
            Ok(broker) => Some(broker),
            Err(ended) => {
                assert!(ended.log.contains(HELD), "{}", ended.whole());
                None
            }
        })
    }

    /// Starts the broker and waits until it listens or ends.
    pub fn try_run(&self) -> Result<Broker, Ended> {
        let child = self.command().stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        Broker::watch(child)
    }

    /// Starts the broker and does not wait until it listens: see [`Broker::listening`].
    pub fn spawn(self) -> Broker {
        Broker::attach(self.command().stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap())
    }

    /// Starts the broker as the command that another one runs, and waits until it listens.
    pub fn run_under(self, before: &[&str]) -> Broker {
        self.by(before.iter().map(OsString::from).collect()).run()
    }
}

/// A broker that ended before it listened.
#[derive(Debug)]
pub struct Ended {
    pub status: ExitStatus,
    pub log: String,
}

impl Ended {
    fn whole(&self) -> String {
        format!("the broker ended with {} before it listened:\n{}", self.status, self.log)
    }
}

/// A program without any `HERMITMQ_` variable that the tests' own environment may hold.
fn bare_command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("HERMITMQ_") {
            command.env_remove(name);
        }
    }
    command.stdin(Stdio::null());
    command
}

/// A running broker; killed when dropped. Its log is printed if the test fails.
pub struct Broker {
    child: Child,
    addr: SocketAddr,
    log: Arc<Mutex<Vec<String>>>,
    reader: Option<JoinHandle<()>>,
}

impl Broker {
    /// A broker on `data_dir` with defaults.
    pub fn start(data_dir: &Path) -> Self {
        Start::on(data_dir).run()
    }

    /// A broker on `data_dir` with further arguments and environment variables.
    pub fn start_with(data_dir: &Path, args: &[&str], env: &[(&str, &str)]) -> Self {
        let start = args.iter().fold(Start::on(data_dir), Start::arg);
        env.iter().fold(start, |start, (name, value)| start.env(name, value)).run()
    }

    fn attach(mut child: Child) -> Self {
        let log = Arc::new(Mutex::new(Vec::new()));
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let sink = Arc::clone(&log);
        let reader = std::thread::spawn(move || {
            for line in stderr.split(b'\n').map_while(Result::ok) {
                sink.lock().unwrap().push(String::from_utf8_lossy(&line).into_owned());
            }
        });
        Self { child, addr: ([127, 0, 0, 1], 0).into(), log, reader: Some(reader) }
    }

    fn watch(child: Child) -> Result<Self, Ended> {
        let mut broker = Self::attach(child);
        match broker.listening() {
            Ok(()) => Ok(broker),
            Err(status) => Err(Ended { status, log: broker.log_text() }),
        }
    }

    /// Waits until the broker listens; its status if it ends before.
    pub fn listening(&mut self) -> Result<(), ExitStatus> {
        let start = Instant::now();
        self.addr = loop {
            if let Some(addr) = self.said_addr("listening") {
                break addr;
            }
            if self.child.try_wait().unwrap().is_some() {
                return Err(self.wait().0);
            }
            assert!(start.elapsed() < HANG, "not listening:\n{}", self.log_text());
            std::thread::sleep(std::time::Duration::from_millis(2));
        };
        Ok(())
    }

    /// The address in a line of the log, once that is there.
    fn said_addr(&self, message: &str) -> Option<SocketAddr> {
        let said = self.said(message).into_iter().next()?;
        Some(said.get("addr").parse().expect("the address in the log"))
    }

    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The address of the admin listener; see [`Start::with_admin`].
    pub fn admin(&self) -> SocketAddr {
        wait_for("the admin listener", || self.said_addr("the admin listener answers"))
    }

    /// Waits until all that is in a topic, if there is one, is durable; needs [`Start::with_admin`].
    pub fn wait_flushed(&self, topic: &str) {
        let path = format!("/api/v1/topics/{topic}");
        wait_for("the flush", || {
            let answer = http::get(self.admin(), &path);
            if answer.status == 404 {
                return Some(());
            }
            let answer = answer.json();
            let partitions = answer["partitions"].as_array()?;
            let all = partitions.iter().all(|one| one["flushed_offset"] == one["end_offset"]);
            all.then_some(())
        });
    }

    /// SIGSTOP, and waits until no thread of the process runs any more: its files stand still until [`Broker::go_on`].
    pub fn stand_still(&self) {
        self.signal(Signal::STOP);
        let tasks = format!("/proc/{}/task", self.pid());
        wait_for("every thread to be stopped", || {
            let stopped = |task: std::fs::DirEntry| {
                let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
                stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
            };
            std::fs::read_dir(&tasks).unwrap().flatten().all(stopped).then_some(())
        });
    }

    /// Ends the strace that the broker was started [`Start::by`]: calls that it holds back go on.
    pub fn end_injection(&self) {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:")).unwrap();
        let tracer = Pid::from_raw(tracer.trim().parse().unwrap()).expect("a tracer");
        kill_process(tracer, Signal::KILL).unwrap();
    }

    /// SIGCONT.
    pub fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The log so far. Lines that are not JSON are left out; see [`Broker::log_text`].
    pub fn log(&self) -> Vec<LogLine> {
        let lines = self.log.lock().unwrap();
        lines.iter().filter_map(|line| serde_json::from_str(line).ok().map(LogLine)).collect()
    }

    pub fn log_text(&self) -> String {
        self.log.lock().unwrap().join("\n")
    }

    /// Lines with this message so far.
    pub fn said(&self, message: &str) -> Vec<LogLine> {
        self.log().into_iter().filter(|line| line.get("message") == message).collect()
    }

    /// Lines of a level so far.
    pub fn lines_at(&self, level: &str) -> Vec<LogLine> {
        self.log().into_iter().filter(|line| line.level() == level).collect()
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// SIGHUP, and waits for the line that tells the outcome: [`AGAIN`] or [`KEPT`].
    pub fn reload(&self, outcome: &str) -> LogLine {
        let before = self.said(outcome).len();
        self.signal(Signal::HUP);
        wait_for(outcome, || self.said(outcome).into_iter().nth(before))
    }

    /// SIGKILL, and waits until the process is gone.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// SIGTERM; waits for the end.
    pub fn terminate(self) -> (ExitStatus, Vec<LogLine>) {
        self.end_with(Signal::TERM)
    }

    /// Sends the signal and waits for the end. Returns the exit status and the whole log.
    pub fn end_with(mut self, signal: Signal) -> (ExitStatus, Vec<LogLine>) {
        self.signal(signal);
        self.wait()
    }

    /// Waits for the end. Returns the exit status and the whole log.
    pub fn wait(&mut self) -> (ExitStatus, Vec<LogLine>) {
        let child = &mut self.child;
        let status = wait_for("the broker to end", || child.try_wait().unwrap());
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
        (status, self.log())
    }

    /// A field of `/proc/PID/status` in KiB, such as `VmRSS`.
    pub fn memory_kib(&self, field: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find(|line| line.starts_with(field)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    /// Processor time used so far, user and system, in clock ticks.
    pub fn cpu_ticks(&self) -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap();
        // The command's name may hold spaces; it ends with the last parenthesis.
        let after_name = stat.rsplit_once(") ").unwrap().1;
        let fields: Vec<&str> = after_name.split_whitespace().collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let log = self.log.lock().map(|lines| lines.clone()).unwrap_or_default();
            let tail = &log[log.len().saturating_sub(40)..];
            eprintln!("the broker's log, last {} lines:\n{}", tail.len(), tail.join("\n"));
        }
    }
}

/// The binary with arguments, in a bare environment.
pub fn hermitmq(args: &[&str]) -> Command {
    let mut command = bare_command(exe());
    command.args(args);
    command
}
