//! Standard error by a thread of its own: who has something to say does not wait for whoever reads it.
//!
//! A reader that stops, such as the log driver of a container or the disk below a file, stops this thread and nothing else. What
//! does not fit the queue meanwhile is dropped, counted, and told once there is room again.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::fmt::Write as _;
use std::io::{self, Write};
use std::panic::{self, PanicHookInfo};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::metrics::Metrics;

/// Bytes that wait to be written, at the most; as many again may be on their way.
const WAITING_BYTES_MAX: usize = 1 << 20;

/// Longest time that the end of the process waits for what was said to be written.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// Of this process, once [`start`]ed. It stays to the end: what is said on the way out takes this way, too.
static QUEUE: OnceLock<Arc<Queue>> = OnceLock::new();

/// From here on whatever is said here is written by a thread of its own, panics included.
pub(super) fn start(metrics: Arc<Metrics>) -> io::Result<()> {
    let queue = Arc::new(Queue::new(metrics));
    let writer = Arc::clone(&queue);
    thread::Builder::new().name("log".to_owned()).spawn(move || writer.run(io::stderr()))?;
    if QUEUE.set(queue).is_ok() {
        panic::set_hook(Box::new(tell_panic));
    }
    Ok(())
}

/// Says something: whole lines.
pub fn tell(lines: &str) {
    // There is nobody to tell of a failure.
    let _ = Stderr.write_all(lines.as_bytes());
}

/// Waits until everything that was said is written, but for no stuck reader.
pub fn flush() {
    if let Some(queue) = QUEUE.get() {
        queue.flush(END_TIMEOUT);
    }
}

/// What log lines are written to, each with one call.
pub(super) struct Stderr;

impl Write for Stderr {
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        match QUEUE.get() {
            Some(queue) => queue.push(lines),
            None => io::stderr().write_all(lines)?,
        }
        Ok(lines.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// As the standard library tells it, which would write it here and now: the process may end behind this.
fn tell_panic(panic: &PanicHookInfo<'_>) {
    let thread = thread::current();
    let mut text = format!("thread '{}' {panic}\n", thread.name().unwrap_or("<unnamed>"));
    let backtrace = Backtrace::capture();
    if backtrace.status() == BacktraceStatus::Captured {
        let _ = writeln!(text, "{backtrace}");
    }
    tell(&text);
    flush();
}

/// Lines between those who say them and the thread that writes them.
#[derive(Debug)]
struct Queue {
    state: Mutex<State>,
    filled: Condvar,
    written: Condvar,
    metrics: Arc<Metrics>,
}

#[derive(Debug, Default)]
struct State {
    waiting: Vec<u8>,
    /// Whether others are on their way.
    writing: bool,
    /// Lines that did not fit, and of which nothing was said yet.
    dropped: u64,
}

impl Queue {
    fn new(metrics: Arc<Metrics>) -> Self {
        let (filled, written) = (Condvar::new(), Condvar::new());
        Self { state: Mutex::default(), filled, written, metrics }
    }

    fn push(&self, lines: &[u8]) {
        let mut state = self.state.lock();
        if state.waiting.len() + lines.len() > WAITING_BYTES_MAX {
            state.dropped += 1;
            self.metrics.log_lines_dropped.inc();
            return;
        }
        state.waiting.extend_from_slice(lines);
        self.filled.notify_one();
    }

    fn flush(&self, timeout: Duration) {
        let is_pending = |state: &mut State| state.writing || !state.waiting.is_empty();
        self.written.wait_while_for(&mut self.state.lock(), is_pending, timeout);
    }

    fn run(&self, mut to: impl Write) -> ! {
        let mut lines = Vec::new();
        loop {
            let dropped = self.take(&mut lines);
            if dropped > 0 {
                tracing::warn!(
                    lines = dropped,
                    "log lines were dropped here: standard error was not read"
                );
            }
            // One by one: so those of other processes come between lines, not within.
            for line in lines.split_inclusive(|&byte| byte == b'\n') {
                if to.write_all(line).is_err() {
                    self.metrics.log_lines_dropped.inc();
                }
            }
        }
    }

    /// Waits for lines, and takes all there are in exchange for those that are written; how many were dropped behind them.
    fn take(&self, lines: &mut Vec<u8>) -> u64 {
        lines.clear();
        let mut state = self.state.lock();
        state.writing = false;
        if state.waiting.is_empty() {
            self.written.notify_all();
            self.filled.wait_while(&mut state, |state| state.waiting.is_empty());
        }
        state.writing = true;
        std::mem::swap(&mut state.waiting, lines);
        std::mem::take(&mut state.dropped)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use tracing_subscriber::Registry;
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    /// Takes a line when it is let to, and hands it on.
    struct Reader {
        may: Receiver<()>,
        read: Sender<String>,
    }

    impl Write for Reader {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            let over = |_| io::Error::from(io::ErrorKind::BrokenPipe);
            self.may.recv().map_err(over)?;
            let line = String::from_utf8(line.to_vec()).unwrap();
            let _ = self.read.send(line.clone());
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A queue with the thread that writes it, whose own lines go there, too; what lets lines be read, and the lines.
    fn queue() -> (Arc<Queue>, Sender<()>, Receiver<String>) {
        let (let_read, may) = channel();
        let (read, lines) = channel();
        let queue = Arc::new(Queue::new(Arc::default()));
        let writer = Arc::clone(&queue);
        thread::spawn(move || {
            let own = Arc::clone(&writer);
            let layer =
                crate::telemetry::logs::layer_to(true, false, false, move || Own(Arc::clone(&own)));
            tracing::subscriber::with_default(Registry::default().with(layer), || {
                writer.run(Reader { may, read })
            });
        });
        (queue, let_read, lines)
    }

    struct Own(Arc<Queue>);

    impl Write for Own {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            self.0.push(line);
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_come_in_order_and_a_flush_waits_for_them() {
        let (queue, let_read, lines) = queue();
        (0..100).for_each(|number| queue.push(format!("{number}\n").as_bytes()));
        (0..100).for_each(|_| let_read.send(()).unwrap());
        queue.flush(Duration::MAX);
        let read: Vec<_> = lines.try_iter().collect();
        assert_eq!(read, (0..100).map(|number| format!("{number}\n")).collect::<Vec<_>>());
    }

    #[test]
    fn what_does_not_fit_is_dropped_and_told_where_it_was() {
        let (queue, let_read, lines) = queue();
        let line = format!("{}\n", "x".repeat(1023));
        let fit = WAITING_BYTES_MAX / line.len();
        // The first one is on its way, and nobody reads.
        queue.push(b"first\n");
        while !queue.state.lock().waiting.is_empty() {
            thread::yield_now();
        }
        (0..fit + 7).for_each(|_| queue.push(line.as_bytes()));
        queue.flush(Duration::from_millis(1));
        assert_eq!(queue.metrics.log_lines_dropped.get(), 7);

        (0..fit + 2).for_each(|_| let_read.send(()).unwrap());
        let read: Vec<_> = lines.iter().take(fit + 2).collect();
        assert_eq!(read[0], "first\n");
        assert!(read[1..=fit].iter().all(|read| *read == line));
        let told: serde_json::Value = serde_json::from_str(&read[fit + 1]).unwrap();
        assert_eq!((&told["level"], &told["lines"]), (&"WARN".into(), &7.into()));
        queue.flush(Duration::MAX);
    }

    #[test]
    fn what_cannot_be_written_is_counted() {
        let (queue, let_read, _lines) = queue();
        drop(let_read);
        queue.push(b"one\ntwo\n");
        queue.flush(Duration::MAX);
        assert_eq!(queue.metrics.log_lines_dropped.get(), 2);
    }
}
