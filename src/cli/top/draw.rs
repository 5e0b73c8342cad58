//! How a view looks on so many cells.

use std::fmt::Write as _;

use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Row, Sparkline, Table, Widget as _};

use super::bytes;
use super::view::{GroupRow, Rates, TopicRow, View};
use crate::cli::words::{count, duration, short};

/// Cells in a row from which on all columns are there.
const WIDE: u16 = 64;

/// Rows from which on the rate's past is there.
const TALL: u16 = 18;

/// Rows that it takes.
const HISTORY_ROWS: u16 = 4;

/// Whether there are any. Without them, bold and reversed text still is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Colours(pub(super) bool);

impl Colours {
    fn of(self, colour: Color) -> Style {
        if self.0 { Style::new().fg(colour) } else { Style::new() }
    }
}

/// Draws all of it, whatever the size.
pub(super) fn draw(view: &View, colours: Colours, frame: &mut Buffer) {
    let area = frame.area;
    let past = if area.height >= TALL { HISTORY_ROWS } else { 0 };
    let groups = u16::try_from(view.groups.len()).unwrap_or(u16::MAX).saturating_add(1);
    let room = area.height.saturating_sub(3 + past);
    let [title, summary, history, groups_area, topics_area, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(past),
        // The groups get what they need, up to half of the room.
        Constraint::Length(groups.min(room / 2)),
        Constraint::Min(0),
        Constraint::Length(1),
    ])
    .areas(area);
    draw_title(view, colours, title, frame);
    summary_line(view, colours).render(summary, frame);
    draw_history(view, colours, history, frame);
    draw_groups(view, colours, groups_area, frame);
    draw_topics(view, topics_area, frame);
    draw_foot(view, colours, foot, frame);
}

fn draw_title(view: &View, colours: Colours, area: Rect, frame: &mut Buffer) {
    frame.set_style(area, Style::new().add_modifier(Modifier::REVERSED));
    let state = match (&view.lost, &view.reason) {
        _ if view.is_new() && view.lost.is_none() => "asking".to_owned(),
        (Some(_), _) => "NO ANSWER".to_owned(),
        (None, None) => "ready".to_owned(),
        (None, Some(reason)) => format!("NOT READY: {reason}"),
    };
    let mut words = vec![Span::raw(format!(" hermitmq {}", view.version))];
    let style =
        if view.ready && view.lost.is_none() { Style::new() } else { colours.of(Color::Red) };
    words.push(Span::styled(format!("  {state}"), style.add_modifier(Modifier::BOLD)));
    if !view.is_new() {
        let up = std::time::Duration::from_secs(view.uptime_seconds);
        words.push(Span::raw(format!("  up {}", duration(up))));
    }
    words.push(Span::raw(format!("  {}", view.broker)));
    Line::from(words).render(area, frame);
}

fn summary_line(view: &View, colours: Colours) -> Line<'static> {
    if view.is_new() {
        return Line::default();
    }
    let Rates { records_in_per_sec, bytes_in_per_sec, bytes_out_per_sec } = view.rates;
    let lag = view.lag();
    let plain = |text: String| Span::raw(text);
    let mut words = vec![
        Span::styled(
            format!(" in {}/s", short(records_in_per_sec)),
            colours.of(Color::Green).add_modifier(Modifier::BOLD),
        ),
        plain(format!(" {}/s", bytes(bytes_in_per_sec))),
        plain(format!("  out {}/s", bytes(bytes_out_per_sec))),
        plain(format!("  lag {}", short(number(lag)))),
        plain(format!("  {} open", count(whole(view.connections), "connection", "connections"))),
    ];
    let free = format!("  disk {} free", bytes(view.disk_free_bytes));
    let low = if view.disk_space_low { colours.of(Color::Red) } else { Style::new() };
    words.push(Span::styled(free, low));
    Line::from(words)
}

/// One column a sample, the newest at the right.
fn draw_history(view: &View, colours: Colours, area: Rect, frame: &mut Buffer) {
    if area.height < 2 {
        return;
    }
    let [graph, name] = Layout::vertical([Constraint::Min(0), Constraint::Length(1)]).areas(area);
    let skipped = view.history.len().saturating_sub(usize::from(graph.width));
    let seen: Vec<u64> = view.history.iter().skip(skipped).map(|rate| whole(*rate)).collect();
    let most = seen.iter().copied().max().unwrap_or(0);
    let left = graph.width.saturating_sub(u16::try_from(seen.len()).unwrap_or(u16::MAX));
    let right = Rect { x: graph.x + left, width: graph.width - left, ..graph };
    Sparkline::default().data(seen).style(colours.of(Color::Green)).render(right, frame);
    let text = format!(" records stored per second, {} at most", short(number(most)));
    Line::styled(text, colours.of(Color::DarkGray)).render(name, frame);
}

fn head(names: &[&'static str]) -> Row<'static> {
    let cells = names.iter().enumerate().map(|(number, name)| match number {
        0 => Cell::new(format!(" {name}")),
        _ => Cell::new(Line::raw(*name).right_aligned()),
    });
    Row::new(cells.collect::<Vec<_>>()).style(Style::new().add_modifier(Modifier::BOLD))
}

fn row(name: &str, numbers: Vec<String>, style: Style) -> Row<'static> {
    let numbers = numbers.into_iter().map(|cell| Cell::new(Line::raw(cell).right_aligned()));
    Row::new(std::iter::once(Cell::new(format!(" {name}"))).chain(numbers).collect::<Vec<_>>())
        .style(style)
}

/// The first column takes what the others leave.
fn columns(widths: &[u16]) -> Vec<Constraint> {
    let numbers = widths.iter().map(|width| Constraint::Length(*width));
    std::iter::once(Constraint::Min(8)).chain(numbers).collect()
}

fn draw_groups(view: &View, colours: Colours, area: Rect, frame: &mut Buffer) {
    if view.is_new() {
        return;
    }
    let wide = area.width >= WIDE;
    let rows = view.groups.iter().map(|group| {
        let GroupRow { consumers, lag, records_per_sec, .. } = group;
        let mut cells = vec![short(number(*lag)), short(*records_per_sec)];
        if wide {
            cells.insert(0, consumers.to_string());
            cells.push(trend(group));
        }
        let behind = if group.lag_per_sec > 0.5 { colours.of(Color::Yellow) } else { Style::new() };
        row(&group.group, cells, behind)
    });
    let (names, widths) = if wide {
        (&["GROUP", "consumers", "lag", "read/s", "trend"][..], &[9, 7, 7, 14][..])
    } else {
        (&["GROUP", "lag", "read/s"][..], &[7, 7][..])
    };
    Table::new(rows.collect::<Vec<_>>(), columns(widths)).header(head(names)).render(area, frame);
}

/// Whether a group comes nearer to the end, and how long that takes.
fn trend(group: &GroupRow) -> String {
    let GroupRow { lag, lag_per_sec, records_per_sec, .. } = *group;
    if lag == 0 {
        return "at the end".to_owned();
    }
    // What it handles in a second is what it is about to commit.
    if number(lag) <= records_per_sec {
        return "keeps up".to_owned();
    }
    if lag_per_sec > 0.5 {
        return format!("+{}/s", short(lag_per_sec));
    }
    if lag_per_sec < -0.5 {
        let seconds = std::time::Duration::try_from_secs_f64(number(lag) / -lag_per_sec);
        return format!("{} to the end", duration(seconds.unwrap_or_default()));
    }
    "steady".to_owned()
}

fn draw_topics(view: &View, area: Rect, frame: &mut Buffer) {
    if view.is_new() {
        return;
    }
    let wide = area.width >= WIDE;
    let rows = view.topics.iter().map(|topic| {
        let TopicRow { partitions, rates, log_bytes, .. } = topic;
        let mut cells = vec![short(rates.records_in_per_sec), bytes(*log_bytes)];
        if wide {
            cells.insert(0, partitions.to_string());
            cells.insert(2, bytes(rates.bytes_in_per_sec) + "/s");
            cells.insert(3, bytes(rates.bytes_out_per_sec) + "/s");
        }
        row(&topic.topic, cells, Style::new())
    });
    let (names, widths) = if wide {
        (&["TOPIC", "partitions", "records/s", "in", "out", "kept"][..], &[10, 9, 8, 8, 7][..])
    } else {
        (&["TOPIC", "rec/s", "kept"][..], &[7, 7][..])
    };
    Table::new(rows.collect::<Vec<_>>(), columns(widths)).header(head(names)).render(area, frame);
}

/// What is wrong, else what to try, else how to leave.
fn draw_foot(view: &View, colours: Colours, area: Rect, frame: &mut Buffer) {
    let line = match (&view.lost, &view.hint) {
        (Some((why, _)), _) if view.is_new() => {
            Line::styled(format!(" q quits; trying again: {why}"), colours.of(Color::Red))
        }
        (Some((why, since)), _) => Line::styled(
            format!(" q quits; no answer for {}, trying again: {why}", duration(*since)),
            colours.of(Color::Red),
        ),
        (None, Some(hint)) => Line::raw(format!(" q quits; try: {hint}")),
        (None, None) if view.left_out > 0.0 => {
            let left_out = count(whole(view.left_out), "partition", "partitions");
            Line::raw(format!(" q quits; without {left_out}: admin.metrics_max_series"))
        }
        (None, None) => Line::raw(" q quits"),
    };
    line.render(area, frame);
}

/// A frame as text, without what is blank at the ends of lines and at the end.
pub(super) fn text_of(frame: &Buffer) -> String {
    let rows = (0..frame.area.height).map(|y| {
        let cells = (0..frame.area.width).filter_map(|x| frame.cell((x, y)));
        let line: String = cells.map(ratatui::buffer::Cell::symbol).collect();
        line.trim_end().to_owned()
    });
    let rows: Vec<_> = rows.collect();
    // How to leave is nothing to say there.
    let rows = rows.split_last().map_or(&[][..], |(_, rows)| rows);
    rows.join("\n").trim_end().to_owned() + "\n"
}

/// The same in one line, as far as one line goes.
pub(super) fn line(view: &View) -> String {
    let Rates { records_in_per_sec, bytes_in_per_sec, bytes_out_per_sec } = view.rates;
    let mut text = format!(
        "in {}/s ({}/s), out {}/s",
        short(records_in_per_sec),
        bytes(bytes_in_per_sec),
        bytes(bytes_out_per_sec)
    );
    for group in &view.groups {
        let GroupRow { group, lag, records_per_sec, .. } = group;
        // Writing to a String cannot fail.
        let _ = write!(text, "; {group}: {}/s, lag {lag}", short(*records_per_sec));
    }
    text
}

#[expect(clippy::cast_precision_loss, reason = "it is rounded to two digits")]
fn number(number: u64) -> f64 {
    number as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a count or a rate that is shown, and a cast saturates"
)]
fn whole(number: f64) -> u64 {
    number.round() as u64
}
