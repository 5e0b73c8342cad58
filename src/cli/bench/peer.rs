//! The other side of a measurement as a process of its own: a broker, or the bare loops.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::cli::failure::Failure;

use super::scratch::{self, Leftover};

/// A child process that listens; killed when dropped.
#[derive(Debug)]
pub(super) struct Peer {
    child: Child,
    /// Where it listens.
    pub(super) addr: String,
}

impl Peer {
    /// A broker with its data in `dir`, with nothing set but `settings` (`KEY=VALUE`).
    pub(super) fn broker(dir: &Path, settings: &[String]) -> Result<Self, Failure> {
        let config = dir.join("bench.toml");
        fs::write(&config, "").map_err(|error| Failure::runtime("cannot prepare", &error))?;
        let mut command = this_program()?;
        for (name, _) in std::env::vars_os().filter(|(name, _)| is_ours(name)) {
            command.env_remove(name);
        }
        command.args(["serve", "--port", "0", "--log-level", "info"]);
        // Nobody is to look after it, and the port for that may be taken.
        command.args(["--set", "telemetry.log_format=json", "--set", "admin.listen="]);
        command.arg("--config").arg(&config).arg("--data-dir").arg(dir.join("data"));
        command.args(settings.iter().flat_map(|setting| ["--set", setting]));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let (child, mut process) = start(&mut command)?;
        let stderr = child.stderr.map(BufReader::new);
        let mut lines = stderr.into_iter().flat_map(|stderr| stderr.lines().map_while(Result::ok));
        let mut said = String::new();
        let addr = lines.by_ref().find_map(|line| {
            let addr = listening(&line);
            said = line;
            addr
        });
        // Its log must not stop it, whoever reads it.
        std::thread::spawn(move || lines.for_each(drop));
        process.addr = addr.ok_or_else(|| {
            Failure::Runtime(format!("the broker did not start: {}", said.trim()))
        })?;
        Ok(process)
    }

    /// The bare loops, with their files in `dir`.
    pub(super) fn limits(dir: &Path) -> Result<Self, Failure> {
        let mut command = this_program()?;
        command.args(["bench", "limit-server", "--dir"]).arg(dir);
        // Its standard input is closed when this process ends, however that happens; it ends then as well.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let (child, mut process) = start(&mut command)?;
        process.child.stdin = child.stdin;
        let mut line = String::new();
        if let Some(stdout) = child.stdout {
            // Without a line there is no address below.
            let _ = BufReader::new(stdout).read_line(&mut line);
        }
        process.addr = listening(&line)
            .ok_or_else(|| Failure::Runtime("the bare loops did not start".to_owned()))?;
        Ok(process)
    }
}

/// The ends of a child's pipes.
struct Pipes {
    stdin: Option<std::process::ChildStdin>,
    stdout: Option<std::process::ChildStdout>,
    stderr: Option<std::process::ChildStderr>,
}

fn start(command: &mut Command) -> Result<(Pipes, Peer), Failure> {
    let mut child =
        command.spawn().map_err(|error| Failure::runtime("cannot start a process", &error))?;
    scratch::remember(Leftover::Process(child.id()));
    let pipes = Pipes {
        stdin: child.stdin.take(),
        stdout: child.stdout.take(),
        stderr: child.stderr.take(),
    };
    Ok((pipes, Peer { child, addr: String::new() }))
}

fn this_program() -> Result<Command, Failure> {
    let program = std::env::current_exe()
        .map_err(|error| Failure::runtime("cannot find this program", &error))?;
    Ok(Command::new(program))
}

fn is_ours(name: &OsStr) -> bool {
    name.to_string_lossy().starts_with("HERMITMQ_")
}

/// The address in a log line that says that someone listens.
fn listening(line: &str) -> Option<String> {
    let line: Value = serde_json::from_str(line).ok()?;
    if line.get("message")? != "listening" {
        return None;
    }
    line.get("addr")?.as_str().map(str::to_owned)
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It may have ended by itself. What it has written is thrown away in any case.
        let _ = self.child.kill();
        let _ = self.child.wait();
        scratch::forget(&Leftover::Process(self.child.id()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_in_the_log() {
        let line = r#"{"level":"INFO","message":"listening","addr":"127.0.0.1:9","reactors":2}"#;
        assert_eq!(listening(line).as_deref(), Some("127.0.0.1:9"));
        assert_eq!(listening(r#"{"message":"log opened","addr":"127.0.0.1:9"}"#), None);
        assert_eq!(listening("hermitmq: port taken"), None);
    }
}
