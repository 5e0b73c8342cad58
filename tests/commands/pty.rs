//! A terminal that a command runs on, and what is to be seen on it.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};

use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use super::support::wait_for;

/// The command, its terminal, and what it has written so far.
pub(crate) struct Pty {
    child: Child,
    ours: File,
    /// Kept open: without it there would be no terminal to look at when the command has ended.
    theirs: OwnedFd,
    output: Arc<Mutex<Vec<u8>>>,
    size: (u16, u16),
}

impl Pty {
    pub(crate) fn start(mut command: Command, columns: u16, rows: u16) -> Self {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap();
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let theirs = open(name, flags, Mode::empty()).unwrap();
        let end = || Stdio::from(theirs.try_clone().unwrap());
        tcsetwinsize(&ours, winsize(columns, rows)).unwrap();
        let child = command.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
        let ours = File::from(ours);
        let output: Arc<Mutex<Vec<u8>>> = Arc::default();
        let (mut reader, sink) = (ours.try_clone().unwrap(), Arc::clone(&output));
        std::thread::spawn(move || {
            let mut some = [0; 4096];
            while let Ok(read @ 1..) = reader.read(&mut some) {
                sink.lock().unwrap().extend_from_slice(&some[..read]);
            }
        });
        Self { child, ours, theirs, output, size: (columns, rows) }
    }

    pub(crate) fn child(&self) -> &Child {
        &self.child
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.ours.write_all(keys.as_bytes()).unwrap();
    }

    pub(crate) fn resize(&mut self, columns: u16, rows: u16) {
        self.size = (columns, rows);
        tcsetwinsize(&self.ours, winsize(columns, rows)).unwrap();
    }

    /// Whether what is typed is shown and comes in lines, as a shell wants it.
    pub(crate) fn is_cooked(&self) -> bool {
        let modes = tcgetattr(&self.theirs).unwrap().local_modes;
        modes.contains(LocalModes::ICANON | LocalModes::ECHO)
    }

    /// Everything that was written, escape sequences and all.
    pub(crate) fn everything(&self) -> String {
        // What was written before the end may be still on its way: a mark behind it is not.
        String::from_utf8_lossy(&self.output.lock().unwrap()).into_owned()
    }

    /// What is to be seen: a terminal of the sequences that the command writes.
    pub(crate) fn screen(&self) -> Vec<String> {
        screen(&self.everything(), self.size)
    }

    /// Waits until the screen is as it should be.
    pub(crate) fn see(&self, what: &str, is: impl Fn(&[String]) -> bool) -> Vec<String> {
        let seen = || {
            let screen = self.screen();
            is(&screen).then_some(screen)
        };
        wait_for(&format!("{what} on the screen"), seen)
    }

    /// Waits for the end, and for all of the output.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let status =
            wait_for("the command on the terminal to end", || self.child.try_wait().unwrap());
        File::from(self.theirs.try_clone().unwrap()).write_all(b"\0the end\0").unwrap();
        let output = Arc::clone(&self.output);
        wait_for("its output", || {
            let mut output = output.lock().unwrap();
            let whole = output.ends_with(b"\0the end\0");
            whole.then(|| {
                let len = output.len() - 9;
                output.truncate(len);
            })
        });
        status
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            println!("the screen:\n{}", self.screen().join("\n"));
        }
    }
}

fn winsize(columns: u16, rows: u16) -> Winsize {
    Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

/// Moves, clearing and text; how text looks is left out.
fn screen(output: &str, (columns, rows): (u16, u16)) -> Vec<String> {
    let (columns, rows) = (usize::from(columns), usize::from(rows));
    let mut cells = vec![vec![' '; columns]; rows];
    let (mut x, mut y) = (0, 0);
    let mut chars = output.chars();
    while let Some(char) = chars.next() {
        match char {
            '\x1b' => {
                let mut arguments = String::new();
                let end = chars.by_ref().skip(1).find(|char| {
                    arguments.push(*char);
                    char.is_ascii_alphabetic()
                });
                arguments.pop();
                match end {
                    Some('H') => {
                        let (row, column) = arguments.split_once(';').unwrap();
                        y = row.parse::<usize>().unwrap() - 1;
                        x = column.parse::<usize>().unwrap() - 1;
                    }
                    Some('J') => cells = vec![vec![' '; columns]; rows],
                    _ => {}
                }
            }
            '\r' => x = 0,
            '\n' => y += 1,
            char => {
                // What was drawn for a larger size may be on its way.
                if let Some(cell) = cells.get_mut(y).and_then(|row| row.get_mut(x)) {
                    *cell = char;
                }
                x += 1;
            }
        }
    }
    cells.into_iter().map(|row| row.into_iter().collect::<String>().trim_end().to_owned()).collect()
}

#[test]
fn a_screen_is_what_was_drawn_last() {
    let drawn = screen("\x1b[?1049h\x1b[2Jab\x1b[2;3Hx\x1b[0;1my\x1b[1;1HA", (4, 2));
    assert_eq!(drawn, ["Ab", "  xy"]);
}
