//! Asking a broker again and again, so that nothing that waits for it holds up a key.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::sample::Sample;
use crate::cli::failure::causes;
use crate::client::admin::{AdminClient, AdminError};

/// Time for an answer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// What a broker answers, once per interval.
#[derive(Debug)]
pub(in crate::cli) struct Watch {
    samples: mpsc::Receiver<Result<Sample, String>>,
    asking: JoinHandle<()>,
}

impl Watch {
    /// Within a runtime.
    pub(in crate::cli) fn start(client: AdminClient, interval: Duration) -> Self {
        let (sender, samples) = mpsc::channel(1);
        let client = client.with_timeout(TIMEOUT);
        let asking = tokio::spawn(async move {
            let mut due = tokio::time::interval(interval);
            // One that came late moves the others: rates are of the time between two answers.
            due.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            loop {
                due.tick().await;
                let sample = ask(&client).await.map_err(|error| causes(&error));
                if sender.send(sample).await.is_err() {
                    return;
                }
            }
        });
        Self { samples, asking }
    }

    /// The next answer, or why there is none.
    pub(super) async fn next(&mut self) -> Result<Sample, String> {
        // The task ends only when nobody receives.
        self.samples.recv().await.unwrap_or_else(|| Err("nobody asks the broker".to_owned()))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.asking.abort();
    }
}

async fn ask(client: &AdminClient) -> Result<Sample, AdminError> {
    let metrics = client.metrics().await?;
    let groups = match client.groups().await {
        // It has none to tell of yet.
        Err(AdminError::Problem(problem)) if problem.kind() == "starting" => Vec::new(),
        groups => groups?,
    };
    let health = client.ready().await?;
    Ok(Sample::of(&metrics, &groups, &health, std::time::Instant::now()))
}
