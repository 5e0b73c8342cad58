//! Whether the process lives, has started, and is ready: for whoever restarts it and whoever sends it clients.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::extract::Json;
use super::state::{Pulse, State};
use crate::broker::{Broker, Problem};
use crate::tls::{Expiry, Tls};

/// How long a probe waits for the reactors' answers.
const ANSWER_TIME: Duration = Duration::from_millis(500);

/// Between two looks at whether they have come.
const LOOK_PERIOD: Duration = Duration::from_millis(2);

/// A reactor that has not turned for so long will not: restarting the process is the remedy.
const DEAD_AFTER: Duration = Duration::from_secs(30);

/// The answer of all three, and a part of each event.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    ok: bool,
    checks: Vec<Check>,
}

/// One thing that was looked at.
#[derive(Debug, Serialize)]
struct Check {
    name: &'static str,
    ok: bool,
    /// Whether the whole is not ok if this is not.
    required: bool,
    /// What is wrong, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

impl Check {
    fn required(name: &'static str, wrong: Option<String>) -> Self {
        Self { name, ok: wrong.is_none(), required: true, reason: wrong }
    }
}

impl Report {
    fn of(checks: Vec<Check>) -> Self {
        Self { ok: checks.iter().all(|check| check.ok || !check.required), checks }
    }
}

impl IntoResponse for Report {
    fn into_response(self) -> Response {
        let status = if self.ok { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        (status, Json(self)).into_response()
    }
}

/// `GET /livez`
pub(super) async fn live(extract::State(state): extract::State<Arc<State>>) -> Response {
    let silence = silence(&state).await.filter(|(_, silence)| *silence >= DEAD_AFTER);
    Report::of(vec![Check::required("reactors", silence.map(stalled))]).into_response()
}

/// `GET /startupz`
pub(super) async fn started(extract::State(state): extract::State<Arc<State>>) -> Response {
    Report::of(vec![recovery(&state)]).into_response()
}

/// `GET /readyz`
pub(super) async fn ready(extract::State(state): extract::State<Arc<State>>) -> Response {
    readiness(&state).await.into_response()
}

/// Whether the broker is ready, and why not.
pub(super) async fn readiness(state: &State) -> Report {
    let silence = silence(state).await;
    let mut checks = vec![
        recovery(state),
        Check::required("shutdown", state.is_stopping().then(|| "the broker is going down".into())),
        Check::required("reactors", silence.map(stalled)),
    ];
    checks.extend(state.about.tls.as_deref().map(certificate));
    checks.extend(state.running().map(|running| of_broker(&running.broker)).unwrap_or_default());
    Report::of(checks)
}

fn recovery(state: &State) -> Check {
    let recovering = || {
        let (done, all) = state.about.progress.get();
        let seconds = state.uptime().as_secs();
        format!("the log is being recovered, for {seconds} s so far: {done} of {all} partitions")
    };
    Check::required("recovery", state.running().is_none().then(recovering))
}

/// One that has expired is refused by clients, not by the broker, and those that are connected stay.
fn certificate(tls: &Tls) -> Check {
    let expiry = tls.expiry();
    let wrong = (expiry != Expiry::Fine).then(|| format!("it {expiry}"));
    Check { required: false, ..Check::required("certificate", wrong) }
}

fn of_broker(broker: &Broker) -> Vec<Check> {
    let mut checks = vec![
        Check::required("disk_space", None),
        Check::required("flush", None),
        // What is damaged is kept from everybody, and takes nothing else with it: nobody is helped by an end of all service.
        Check { required: false, ..Check::required("damage", None) },
        // It is tried again, and takes only space meanwhile.
        Check { required: false, ..Check::required("compaction", None) },
    ];
    for problem in broker.health().problems {
        let name = match problem {
            Problem::LowSpace { .. } => "disk_space",
            Problem::ReadOnly { .. } => "flush",
            Problem::Damaged { .. } => "damage",
            Problem::Compaction { .. } => "compaction",
        };
        for check in checks.iter_mut().filter(|check| check.name == name) {
            (check.ok, check.reason) = (false, Some(problem.to_string()));
        }
    }
    checks
}

fn stalled((reactor, silence): (usize, Duration)) -> String {
    format!("reactor {reactor} has not turned for {} ms", silence.as_millis())
}

/// Asks the reactors, and gives them a moment: the one that has not turned for the longest time, if one has not answered.
async fn silence(state: &State) -> Option<(usize, Duration)> {
    // While the broker stops its reactors end, each when it is done.
    let running = state.running().filter(|_| !state.is_stopping())?;
    let pulse: &dyn Pulse = &*running.pulse;
    pulse.ask();
    let begun = Instant::now();
    loop {
        let silence = pulse.silence()?;
        if begun.elapsed() >= ANSWER_TIME {
            return Some(silence).filter(|_| !state.is_stopping());
        }
        tokio::time::sleep(LOOK_PERIOD).await;
    }
}
