//! Commands that are to end: one that does not is killed.

use std::io::{Read, Write};
use std::process::{
    Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Output, Stdio,
};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::HANG;

/// How long a command may live.
const LIFE: Duration = HANG.saturating_mul(4);

/// A command under way. It is killed when dropped, and when it has lived for too long: then those who read what it says, or
/// wait for its end, go on.
pub struct Running {
    child: Arc<Mutex<Child>>,
    /// The pipes that were asked for.
    pub stdin: Option<ChildStdin>,
    pub stdout: Option<ChildStdout>,
    pub stderr: Option<ChildStderr>,
    shown: String,
    /// Says true if it was killed.
    watch: Option<JoinHandle<bool>>,
    over: Option<Sender<()>>,
}

impl Running {
    pub fn spawn(command: &mut Command) -> Self {
        let mut child = command.spawn().unwrap();
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let child = Arc::new(Mutex::new(child));
        let (over, is_over) = channel();
        let late = Arc::clone(&child);
        let watch = std::thread::spawn(move || {
            let is_late = is_over.recv_timeout(LIFE) == Err(RecvTimeoutError::Timeout);
            is_late && late.lock().unwrap().kill().is_ok()
        });
        let shown = format!("{command:?}");
        Self { child, stdin, stdout, stderr, shown, watch: Some(watch), over: Some(over) }
    }

    pub fn id(&self) -> u32 {
        self.child.lock().unwrap().id()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child.lock().unwrap()), signal).unwrap();
    }

    /// How it ended, if it has.
    pub fn try_end(&self) -> Option<ExitStatus> {
        self.child.lock().unwrap().try_wait().unwrap()
    }

    /// Waits for the end; fails if it did not come.
    pub fn end(self) -> ExitStatus {
        self.output().status
    }

    /// Waits for the end; returns what it has said that was not read yet. Fails if the end did not come.
    pub fn output(mut self) -> Output {
        drop(self.stdin.take());
        let stdout = self.stdout.take().map(read_all);
        let stderr = self.stderr.take().map(read_all);
        let status = loop {
            if let Some(status) = self.try_end() {
                break status;
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        let text = |reader: Option<JoinHandle<Vec<u8>>>| {
            reader.map_or_else(Vec::new, |reader| reader.join().unwrap())
        };
        let output = Output { status, stdout: text(stdout), stderr: text(stderr) };
        drop(self.over.take());
        let killed = self.watch.take().unwrap().join().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!killed, "{} did not end; it said: {said}", self.shown);
        output
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut child = self.child.lock().unwrap();
        let _ = child.kill();
        let _ = child.wait();
    }
}

fn read_all(mut from: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        from.read_to_end(&mut bytes).unwrap();
        bytes
    })
}

/// Runs a command with `input` on its standard input until it ends; kills it if it does not end (and fails then).
pub fn run_to_end(mut command: Command, input: Vec<u8>) -> Output {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = Running::spawn(&mut command);
    let mut stdin = running.stdin.take().unwrap();
    // A command that ends early closes its end: that is no failure here.
    let writer = std::thread::spawn(move || stdin.write_all(&input).is_ok());
    let output = running.output();
    let _ = writer.join();
    output
}
