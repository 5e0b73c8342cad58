//! What is to be seen, at several sizes.

#![expect(clippy::float_cmp, reason = "whole numbers over a power of two")]

use std::time::{Duration, Instant};

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::{Color, Modifier};

use super::draw::{Colours, draw, line, text_of};
use super::sample::tests::{METRICS, sample};
use super::view::View;

/// Two samples, two seconds apart: 200 records came in, the group has handled 100 of them.
fn view() -> View {
    let start = Instant::now();
    let mut view = View::new("http://127.0.0.1:9093", None);
    view.take(sample(METRICS, 600, start));
    let later = METRICS
        .replace("303.5", "305.5")
        .replace("records_in_total 1000", "records_in_total 1200")
        .replace("bytes_in_total 90000", "bytes_in_total 110000")
        .replace(
            "records_in_total{topic=\"orders\",partition=\"0\"} 600",
            "records_in_total{topic=\"orders\",partition=\"0\"} 800",
        )
        .replace("partition=\"0\"} 300", "partition=\"0\"} 400");
    view.take(sample(&later, 700, start + Duration::from_secs(2)));
    view
}

fn terminal(view: &View, colours: bool, width: u16, height: u16) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(view, Colours(colours), frame.buffer_mut())).unwrap();
    terminal
}

fn lines(view: &View, width: u16, height: u16) -> Vec<String> {
    let terminal = terminal(view, true, width, height);
    let buffer = terminal.backend().buffer();
    let cells = |y| (0..width).map(move |x| buffer[(x, y)].symbol());
    (0..height).map(|y| cells(y).collect::<String>().trim_end().to_owned()).collect()
}

#[test]
fn rates_are_of_the_time_between_two_samples() {
    let view = view();
    assert_eq!(view.rates.records_in_per_sec, 100.0);
    assert_eq!(view.rates.bytes_in_per_sec, 10_000.0);
    assert_eq!(view.topics[0].rates.records_in_per_sec, 100.0);
    let group = &view.groups[0];
    assert_eq!((group.records_per_sec, group.lag_per_sec, group.lag), (50.0, 50.0, 700));
    assert_eq!(line(&view), "in 100/s (10kB/s), out 0B/s; billing: 50/s, lag 700");
    let json = serde_json::to_value(&view).unwrap();
    assert_eq!(json["records_in_per_sec"], 100.0);
    assert_eq!(json["groups"][0]["lag"], 700);
}

#[test]
fn a_broker_that_was_started_again_counts_anew() {
    let mut view = view();
    let again =
        METRICS.replace("303.5", "1.5").replace("records_in_total 1000", "records_in_total 5");
    view.take(sample(&again, 0, Instant::now()));
    assert_eq!(view.rates.records_in_per_sec, 0.0);
    assert_eq!(view.history.len(), 1);
}

#[test]
fn a_wide_terminal_has_everything() {
    let lines = lines(&view(), 100, 24);
    assert_eq!(lines[0], " hermitmq 1.2.3  ready  up 5m05s  127.0.0.1:9093");
    assert_eq!(lines[1], " in 100/s 10kB/s  out 0B/s  lag 700  4 connections open  disk 12GB free");
    assert_eq!(lines[5], " records stored per second, 100 at most");
    assert!(lines[4].ends_with('\u{2588}'), "{lines:?}");
    let words = |line: &str| line.split_whitespace().map(ToOwned::to_owned).collect::<Vec<_>>();
    assert_eq!(words(&lines[6]), ["GROUP", "consumers", "lag", "read/s", "trend"]);
    assert_eq!(words(&lines[7]), ["billing", "2", "700", "50", "+50/s"]);
    assert_eq!(words(&lines[8]), ["TOPIC", "partitions", "records/s", "in", "out", "kept"]);
    assert_eq!(words(&lines[9]), ["orders", "2", "100", "0B/s", "0B/s", "90kB"]);
    assert_eq!(lines[23], " q quits");
}

#[test]
fn a_narrow_terminal_has_what_matters() {
    let lines = lines(&view(), 40, 12);
    assert_eq!(lines[0], " hermitmq 1.2.3  ready  up 5m05s  127.0.");
    assert_eq!(lines[2], " GROUP                       lag  read/s");
    assert_eq!(lines[3], " billing                     700      50");
    assert_eq!(lines[4], " TOPIC                     rec/s    kept");
    assert_eq!(lines[5], " orders                      100    90kB");
    assert_eq!(lines[11], " q quits");
}

#[test]
fn no_size_is_too_small_or_too_large() {
    for (width, height) in [(1, 1), (2, 3), (8, 2), (300, 1), (1, 90), (500, 200)] {
        let view = view();
        terminal(&view, true, width, height);
        terminal(&View::new("b", None), true, width, height);
    }
}

#[test]
fn a_broker_that_is_gone_is_shown_and_so_is_its_return() {
    let mut view = view();
    view.lost("connection refused".to_owned());
    let gone = lines(&view, 100, 24);
    assert!(gone[0].contains("NO ANSWER"), "{gone:?}");
    assert!(gone[23].contains("trying again: connection refused"), "{gone:?}");
    assert!(gone.iter().any(|line| line.contains("billing")), "the last answer stays");
    view.take(sample(METRICS, 600, Instant::now() + Duration::from_secs(9)));
    let back = lines(&view, 100, 24);
    assert!(back[0].contains("ready") && back[23] == " q quits", "{back:?}");
}

#[test]
fn one_that_never_answered_says_why() {
    let mut view = View::new("http://x:1", None);
    assert!(lines(&view, 80, 24)[0].contains("asking"));
    view.lost("connection refused".to_owned());
    let lines = lines(&view, 80, 24);
    assert!(
        lines[0].contains("NO ANSWER") && lines[23].contains("connection refused"),
        "{lines:?}"
    );
}

#[test]
fn colours_are_only_where_they_are_wanted() {
    let coloured = |colours| {
        let terminal = terminal(&view(), colours, 100, 24);
        let buffer = terminal.backend().buffer().clone();
        let (fg, bold) = (|color| color != Color::Reset, Modifier::BOLD);
        (
            buffer.content.iter().any(|cell| fg(cell.fg)),
            buffer.content.iter().any(|cell| cell.modifier.contains(bold)),
        )
    };
    assert_eq!(coloured(true), (true, true));
    assert_eq!(coloured(false), (false, true));
}

#[test]
fn plain_text_ends_with_what_there_is() {
    let terminal = terminal(&view(), false, 100, 24);
    let text = text_of(terminal.backend().buffer());
    assert!(text.contains("\n billing ") && text.ends_with("90kB\n"), "{text}");
}
