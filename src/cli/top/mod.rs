//! `hermitmq top`: what a broker does, live.
//!
//! `sample` is what was asked of it at one time, `view` what two samples come to, `draw` how that looks on so many cells,
//! `screen` the terminal. [`watch`] asks again and again; [`live`] puts it together.

mod draw;
mod sample;
mod screen;
mod view;
mod watch;

use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use tokio::time::Instant;

use super::args::TopArgs;
use super::failure::Failure;
use super::runtime::{self, Interrupt};
use super::show::{self, Form};
use super::{admin, words};

use draw::Colours;
use screen::{Key, Screen};
pub(super) use view::View;
pub(super) use watch::Watch;

/// Cells of a frame on something that is no terminal.
const PLAIN: (u16, u16) = (100, 30);

/// Between two looks at the size of the terminal.
const TICK: Duration = Duration::from_millis(200);

pub(super) fn run(args: &TopArgs) -> Result<(), Failure> {
    let client = admin::client(&args.target)?;
    let interval = Duration::from_secs_f64(args.interval);
    let form = args.target.output;
    if !args.once && (form != Form::Table || !io::stdout().is_terminal()) {
        let message =
            "the live view needs a terminal, and is no table; --once prints one frame of it";
        return Err(Failure::Usage(message.to_owned()));
    }
    let view = View::new(&client.address(), None);
    runtime::block_on(async {
        let watch = Watch::start(client, interval);
        if args.once {
            once(watch, view, form).await
        } else {
            live(watch, view, Interrupt::listen()?, None).await
        }
    })
}

/// Prints what two samples come to.
async fn once(mut watch: Watch, mut view: View, form: Form) -> Result<(), Failure> {
    for _ in 0..2 {
        let sample = watch.next().await.map_err(Failure::Runtime)?;
        view.take(sample);
    }
    show::show(form, &view, plain)
}

/// A frame without anything that only a terminal knows.
fn plain(view: &View) -> String {
    let columns = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let area = Rect::new(0, 0, columns.unwrap_or(PLAIN.0).clamp(20, 400), PLAIN.1);
    let mut frame = Buffer::empty(area);
    draw::draw(view, Colours(false), &mut frame);
    draw::text_of(&frame)
}

/// Shows the broker on the terminal until somebody has seen enough, or the time is over.
pub(super) async fn live(
    mut watch: Watch,
    mut view: View,
    mut interrupt: Interrupt,
    until: Option<Instant>,
) -> Result<(), Failure> {
    let cannot = |error: io::Error| Failure::runtime("cannot use the terminal", &error);
    let colours = Colours(has_colours());
    let mut screen = Screen::enter().map_err(cannot)?;
    let mut ticks = tokio::time::interval(TICK);
    loop {
        let area = Screen::area().map_err(cannot)?;
        let mut frame = Buffer::empty(area);
        draw::draw(&view, colours, &mut frame);
        screen.paint(&frame).map_err(cannot)?;
        tokio::select! {
            () = interrupt.asked() => return Ok(()),
            key = screen.key() => match key {
                Key::Quit => return Ok(()),
                Key::Other => {}
            },
            sample = watch.next() => match sample {
                Ok(sample) => view.take(sample),
                Err(why) => view.lost(why),
            },
            _ = ticks.tick() => view.tick(),
        }
        if until.is_some_and(|until| until <= Instant::now()) {
            return Ok(());
        }
    }
}

/// <https://no-color.org>: set and not empty, it is a wish for none.
fn has_colours() -> bool {
    let none = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    !none && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// A line about each sample, for who has no terminal.
pub(super) async fn lines(
    mut watch: Watch,
    mut view: View,
    mut interrupt: Interrupt,
    until: Option<Instant>,
) -> Result<(), Failure> {
    let mut stdout = io::stdout();
    // Rates are of two samples.
    view.take(watch.next().await.map_err(Failure::Runtime)?);
    loop {
        tokio::select! {
            () = interrupt.asked() => return Ok(()),
            sample = watch.next() => {
                view.take(sample.map_err(Failure::Runtime)?);
                let written = writeln!(stdout, "{}", draw::line(&view)).and_then(|()| stdout.flush());
                written.map_err(|error| Failure::output(&error))?;
            }
        }
        if until.is_some_and(|until| until <= Instant::now()) {
            return Ok(());
        }
    }
}

/// Bytes as people say them.
fn bytes(bytes: f64) -> String {
    words::short(bytes) + "B"
}

#[cfg(test)]
mod tests;
