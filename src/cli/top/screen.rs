//! The terminal: its second screen, its size, its keys.
//!
//! Cells that have changed are written with the sequences of ECMA-48, which every terminal of today takes. Ctrl-C stays a
//! signal, as for every other command.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Read as _, Write as _};

use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier};
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr,
};
use tokio::sync::mpsc;

/// The second screen, without a cursor.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[2J";

/// Back to the first one, as it was.
const LEAVE: &str = "\x1b[0m\x1b[?25h\x1b[?1049l";

/// Cells of a terminal that does not know its size.
const SIZE_DEFAULT: (u16, u16) = (80, 24);

/// No special character: `_POSIX_VDISABLE` of Linux and macOS.
const DISABLED: [u8; 2] = [0, 0xff];

/// What was pressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    Quit,
    Other,
}

/// A terminal that shows frames; as it was when dropped.
#[derive(Debug)]
pub(super) struct Screen {
    /// What is to be seen now.
    shown: Buffer,
    keys: mpsc::UnboundedReceiver<Key>,
    /// How the terminal was, if standard input is one.
    before: Option<Termios>,
}

impl Screen {
    pub(super) fn enter() -> io::Result<Self> {
        let before = io::stdin().is_terminal().then(quiet).transpose()?;
        let (sender, keys) = mpsc::unbounded_channel();
        // From here on it is put back, whatever happens.
        let screen = Self { shown: Buffer::empty(Rect::ZERO), keys, before };
        write(ENTER)?;
        if screen.before.is_some() {
            // Waits in a read for as long as the process lives.
            let reading = move || read_keys(&sender);
            std::thread::Builder::new().name("keys".to_owned()).spawn(reading)?;
        }
        Ok(screen)
    }

    /// Its size now.
    pub(super) fn area() -> io::Result<Rect> {
        let size = tcgetwinsize(io::stdout())?;
        let (columns, rows) = match (size.ws_col, size.ws_row) {
            (0, _) | (_, 0) => SIZE_DEFAULT,
            known => known,
        };
        Ok(Rect::new(0, 0, columns, rows))
    }

    /// Shows a frame: writes what is different from the one before it.
    pub(super) fn paint(&mut self, frame: &Buffer) -> io::Result<()> {
        let mut text = String::new();
        if frame.area != self.shown.area {
            text.push_str("\x1b[0m\x1b[2J");
            self.shown = Buffer::empty(frame.area);
        }
        let (mut at, mut look) = (None, String::new());
        for (x, y, cell) in self.shown.diff(frame) {
            // Writing has moved the cursor there already.
            if at != Some((x, y)) {
                let _ = write!(text, "\x1b[{};{}H", y + 1, x + 1);
            }
            let style = style(cell);
            if look != style {
                text.push_str(&style);
                look = style;
            }
            text.push_str(cell.symbol());
            at = (cell.symbol().len() == 1).then_some((x + 1, y));
        }
        if text.is_empty() {
            return Ok(());
        }
        self.shown = frame.clone();
        write(&text)
    }

    /// The next key; none on a terminal that cannot be read.
    pub(super) async fn key(&mut self) -> Key {
        if self.before.is_none() {
            return std::future::pending().await;
        }
        // A terminal that was closed is not looked at any more.
        self.keys.recv().await.unwrap_or(Key::Quit)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // What cannot be put back is gone with its terminal.
        let _ = write(LEAVE);
        if let Some(before) = &self.before {
            let _ = tcsetattr(io::stdin(), OptionalActions::Flush, before);
        }
    }
}

/// Keys come one by one and are not shown, and Ctrl-Z does not leave the terminal like that. Returns how it was.
fn quiet() -> io::Result<Termios> {
    let before = tcgetattr(io::stdin())?;
    let mut termios = before.clone();
    termios.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
    termios.special_codes[SpecialCodeIndex::VSUSP] =
        DISABLED[usize::from(cfg!(target_os = "macos"))];
    termios.special_codes[SpecialCodeIndex::VMIN] = 1;
    termios.special_codes[SpecialCodeIndex::VTIME] = 0;
    tcsetattr(io::stdin(), OptionalActions::Flush, &termios)?;
    Ok(before)
}

fn read_keys(sender: &mpsc::UnboundedSender<Key>) {
    let mut byte = [0];
    let mut stdin = io::stdin().lock();
    while let Ok(1) = stdin.read(&mut byte) {
        let key = if matches!(byte[0], b'q' | b'Q') { Key::Quit } else { Key::Other };
        if sender.send(key).is_err() {
            return;
        }
    }
}

fn write(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

/// The sequence that makes what follows look like a cell.
fn style(cell: &Cell) -> String {
    let mut text = "\x1b[0".to_owned();
    for (modifier, code) in [(Modifier::BOLD, ";1"), (Modifier::REVERSED, ";7")] {
        if cell.modifier.contains(modifier) {
            text.push_str(code);
        }
    }
    text.push_str(match cell.fg {
        Color::Red => ";31",
        Color::Green => ";32",
        Color::Yellow => ";33",
        Color::DarkGray => ";90",
        // No other is drawn with.
        _ => "",
    });
    text.push('m');
    text
}

#[cfg(test)]
mod tests {
    use ratatui::style::Style;

    use super::*;

    #[test]
    fn styles_are_sequences() {
        let mut cell = Cell::new("x");
        assert_eq!(style(&cell), "\x1b[0m");
        cell.set_style(
            Style::new().fg(Color::Red).add_modifier(Modifier::BOLD | Modifier::REVERSED),
        );
        assert_eq!(style(&cell), "\x1b[0;1;7;31m");
    }
}
