//! What an operator can set about logs and traces.

use serde::de::{Error as _, Unexpected};
use serde::{Deserialize, Deserializer, Serialize};
use tracing_subscriber::EnvFilter;

/// Section `telemetry` of the configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// What is logged: a level, or directives such as `info,hermitmq::storage=debug`.
    #[serde(deserialize_with = "filter")]
    pub log_level: String,
    /// The form of the log lines.
    pub log_format: LogFormat,
    /// Where trace spans go.
    pub traces: Traces,
    /// Share of the traces that is kept, from 0.0 to 1.0. A trace begun elsewhere keeps the decision made there.
    #[serde(deserialize_with = "ratio")]
    pub trace_sample_ratio: f64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            log_level: "info".to_owned(),
            log_format: LogFormat::Auto,
            traces: Traces::Off,
            trace_sample_ratio: 1.0,
        }
    }
}

/// The form of the log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Text on a terminal, JSON lines otherwise.
    Auto,
    /// One readable line for each event.
    Text,
    /// One JSON object for each event, its message and fields at the top level.
    Json,
}

/// Where trace spans go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Traces {
    /// Nowhere; nothing is recorded.
    Off,
    /// To standard output as text, to look at while developing.
    Stdout,
    /// To a collector, by OTLP over HTTP. `OTEL_*` variables say where it is.
    Otlp,
}

fn filter<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse_filter(&text).map_err(D::Error::custom)?;
    Ok(text)
}

/// The filter that a text means; what it must be if it means none.
pub(super) fn parse_filter(text: &str) -> Result<EnvFilter, String> {
    match EnvFilter::try_new(text) {
        Ok(filter) if !names_no_level(text) => Ok(filter),
        _ => Err(format!(
            "must be error, warn, info, debug, trace or off, or directives such as \
             \"info,hermitmq::storage=debug\", not {text:?}"
        )),
    }
}

/// Whether the text is one word that is no level, such as `loud` or `warning`. As a directive it would turn everything
/// off but a crate of that name.
fn names_no_level(text: &str) -> bool {
    let word = text.trim().trim_matches(',');
    let is_word = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphabetic());
    is_word && word != "hermitmq" && word.parse::<tracing::level_filters::LevelFilter>().is_err()
}

fn ratio<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let ratio = f64::deserialize(deserializer).ok().filter(|ratio| (0.0..=1.0).contains(ratio));
    ratio.ok_or_else(|| {
        D::Error::invalid_value(Unexpected::Other("something else"), &"a number from 0.0 to 1.0")
    })
}
