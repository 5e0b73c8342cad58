//! Lines and spans as they come out.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use tracing_subscriber::filter::FilterExt as _;
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::{EnvFilter, Registry};

use super::{LogFormat, Options, Traces, logs, traces};

#[derive(Clone, Default)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn logged(json: bool, ansi: bool) -> String {
    let sink = Sink::default();
    let writer = sink.clone();
    let layer = logs::layer_to(json, ansi, false, move || writer.clone());
    tracing::subscriber::with_default(Registry::default().with(layer), || {
        let _span = tracing::info_span!("outer", id = 7).entered();
        tracing::warn!(topic = "orders", offset = 5, "a torn tail was cut");
    });
    let bytes = sink.0.lock().unwrap().clone();
    String::from_utf8(bytes).unwrap()
}

#[test]
fn a_json_line_has_its_message_and_fields_at_the_top() {
    let line: serde_json::Value = serde_json::from_str(&logged(true, false)).unwrap();
    assert_eq!(line["message"], "a torn tail was cut");
    assert_eq!(line["level"], "WARN");
    assert_eq!(line["topic"], "orders");
    assert_eq!(line["offset"], 5);
    assert_eq!(line["span"]["name"], "outer");
    assert!(line["timestamp"].as_str().unwrap().ends_with('Z'));
}

#[test]
fn text_has_colours_only_when_asked() {
    let plain = logged(false, false);
    assert!(plain.contains("a torn tail was cut") && plain.contains("orders"), "{plain}");
    assert_eq!(plain.lines().count(), 1);
    assert!(!plain.contains('\x1b'), "{plain}");
    assert!(logged(false, true).contains('\x1b'));
}

#[test]
fn a_flood_of_one_line_is_held_back_and_no_other() {
    let sink = Sink::default();
    let writer = sink.clone();
    let layer = logs::layer_to::<Registry, _>(true, false, false, move || writer.clone());
    let layer = layer.with_filter(super::Repeats::default());
    tracing::subscriber::with_default(Registry::default().with(layer), || {
        for number in 0..1000 {
            tracing::warn!(number, "again");
            tracing::debug!(number, "looked for");
            tracing::info!(target: "hermitmq::audit", number, "audited");
        }
        tracing::warn!("something else");
    });
    let text = String::from_utf8(sink.0.lock().unwrap().clone()).unwrap();
    let count = |message: &str| text.lines().filter(|line| line.contains(message)).count();
    assert_eq!((count("\"again\""), count("looked for"), count("something else")), (100, 1000, 1));
    assert_eq!(count("audited"), 1000, "many speak from one place");
}

#[test]
fn what_only_the_traces_want_takes_nothing_from_the_log() {
    let on = Options { traces: Traces::Stdout, ..Options::default() };
    let provider = traces::provider(&on).unwrap().unwrap();
    let sink = Sink::default();
    let writer = sink.clone();
    let layer = logs::layer_to::<Registry, _>(true, false, true, move || writer.clone());
    let layer = layer.with_filter(EnvFilter::new("warn").and(super::Repeats::default()));
    let subscriber = Registry::default().with(layer).with(traces::layer(&provider));
    tracing::subscriber::with_default(subscriber, || {
        for number in 0..300 {
            tracing::info!(number, "for the traces");
            tracing::warn!(number, "for the log, too");
            tracing::warn!(target: "elsewhere", number, "for the log alone");
        }
        for _ in 0..3 {
            tracing::info!("for the traces");
            tracing::error!("worse");
        }
    });
    let text = String::from_utf8(sink.0.lock().unwrap().clone()).unwrap();
    let count = |message: &str| text.lines().filter(|line| line.contains(message)).count();
    assert_eq!(count("for the traces"), 0);
    assert_eq!(
        (count("for the log, too"), count("for the log alone"), count("worse")),
        (100, 100, 3)
    );
    drop(traces::Guard::of(provider));
}

#[test]
fn auto_is_text_on_a_terminal_only() {
    assert!(logs::is_json(LogFormat::Auto, false));
    assert!(!logs::is_json(LogFormat::Auto, true));
    assert!(!logs::is_json(LogFormat::Text, false));
    assert!(logs::is_json(LogFormat::Json, true));
}

#[test]
fn traces_exist_only_when_on() {
    assert!(traces::provider(&Options::default()).unwrap().is_none());
    let on = Options { traces: Traces::Stdout, ..Options::default() };
    let provider = traces::provider(&on).unwrap().unwrap();
    let subscriber = Registry::default().with(traces::layer(&provider));
    tracing::subscriber::with_default(subscriber, || {
        tracing::info_span!("request").in_scope(|| tracing::info!("inside"));
    });
    drop(traces::Guard::of(provider));
}

#[test]
fn one_word_that_is_no_level_is_refused() {
    let parsed =
        |level: &str| serde_json::from_value::<Options>(serde_json::json!({ "log_level": level }));
    for level in ["info", "WARN", "off", "hermitmq", "hermitmq::net", "info,mio=off", "debug,"] {
        assert!(parsed(level).is_ok(), "{level}");
    }
    for word in ["loud", "warning", " Information "] {
        let error = parsed(word).unwrap_err().to_string();
        assert!(error.starts_with("must be error, warn"), "{error}");
    }
}
