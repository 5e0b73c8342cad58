//! What the handlers know: how far the broker is, and how to reach it.

use std::fmt::Debug;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime};

use serde::Serialize;

use super::live::Feed;
use super::problem::{Kind, Problem};
use crate::access::Access;
use crate::broker::{Broker, OpenProgress};
use crate::metrics::Metrics;
use crate::model::PartitionId;
use crate::tls::Tls;

/// Asks the threads that serve connections whether they turn. Implemented above, where they are known.
pub trait Pulse: Debug + Send + Sync {
    /// Has each answer as soon as it can. Must not block.
    fn ask(&self);
    /// The one that has owed an answer for the longest time, and that time; `None` if all have answered.
    fn silence(&self) -> Option<(usize, Duration)>;
}

/// A connection of a client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Connection {
    /// Names it to [`Connections::close`].
    pub id: String,
    /// The other end.
    pub peer: String,
    /// How long it has been there, in seconds.
    pub age_seconds: u64,
    /// `producer`, `consumer` or `committer`; `None` before its handshake is done.
    pub role: Option<&'static str>,
    /// The topic that it reads or writes.
    pub topic: Option<String>,
    /// And the partition of it.
    pub partition: Option<PartitionId>,
    /// The group that it reads or commits for.
    pub group: Option<String>,
    /// Who it is.
    pub principal: Option<String>,
    /// What the client calls itself.
    pub client_name: Option<String>,
    /// Its software and version.
    pub client_software: Option<String>,
    /// Whether it is encrypted.
    pub tls: bool,
    /// Whom the certificate names that it has shown.
    pub certificate: Option<String>,
}

/// A connection was not closed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CloseError {
    /// The text names no connection.
    #[error("{0}")]
    Name(String),
    /// It is not there, or not any longer.
    #[error("there is no such connection; a producer's name changes once, after its handshake")]
    Unknown,
    /// Whoever serves it does not answer.
    #[error("its reactor is too busy; it may be closed later")]
    Busy,
}

/// The connections of clients. Implemented above, where they are known.
pub trait Connections: Debug + Send + Sync {
    /// Lists them, about `max` at most, and says whether these are all. Blocks for a moment.
    fn list(&self, max: usize) -> (Vec<Connection>, bool);
    /// Closes one. Blocks for a moment.
    fn close(&self, id: &str) -> Result<(), CloseError>;
}

/// The filter of the log, while the broker runs. Implemented above, where it is known.
pub trait LogLevel: Debug + Send + Sync {
    /// The directives in effect.
    fn get(&self) -> String;
    /// Puts other ones in effect; what is wrong with them if it cannot.
    fn set(&self, directives: &str) -> Result<(), String>;
}

/// One setting in effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// Its dotted key.
    pub key: String,
    /// Its value, as it would stand in a file.
    pub value: String,
    /// What set it: `default`, a file, an environment variable or a flag.
    pub layer: String,
}

/// What is known before the broker is there.
#[derive(Debug)]
pub struct About {
    /// Directory of the log.
    pub data_dir: PathBuf,
    /// The settings in effect, if they are known.
    pub settings: Vec<Setting>,
    /// The filter of the log, if it can be changed.
    pub log_level: Option<Arc<dyn LogLevel>>,
    /// `admin.metrics_max_series`.
    pub metrics_max_series: u32,
    /// `admin.metrics_open`.
    pub metrics_open: bool,
    /// Who may do what.
    pub access: Arc<Access>,
    /// The instruments.
    pub metrics: Arc<Metrics>,
    /// How far the recovery is.
    pub progress: Arc<OpenProgress>,
    /// What connections with TLS are accepted with, if there are any.
    pub tls: Option<Arc<Tls>>,
}

/// A broker that has recovered and serves connections.
#[derive(Debug)]
pub struct Running {
    /// The broker.
    pub broker: Arc<Broker>,
    /// Its reactors.
    pub pulse: Arc<dyn Pulse>,
    /// Those who are connected.
    pub connections: Arc<dyn Connections>,
    /// How many they are.
    pub reactors: usize,
    /// Where it listens for clients.
    pub addr: SocketAddr,
}

/// How far the broker is.
#[derive(Debug)]
pub struct State {
    pub(super) about: About,
    settings: RwLock<Vec<Setting>>,
    running: OnceLock<Running>,
    stopping: AtomicBool,
    /// Those who watch.
    pub(super) feed: Feed,
    begun: Instant,
    /// When the process began, or this one was made: for people and for metrics.
    pub(super) begun_at: SystemTime,
}

impl State {
    /// A broker that recovers.
    pub fn new(mut about: About) -> Arc<Self> {
        Arc::new(Self {
            settings: RwLock::new(std::mem::take(&mut about.settings)),
            about,
            running: OnceLock::new(),
            stopping: AtomicBool::new(false),
            feed: Feed::default(),
            begun: Instant::now(),
            begun_at: SystemTime::now(),
        })
    }

    /// The broker has recovered and accepts connections. Said once.
    pub fn set_running(&self, running: Running) {
        let _ = self.running.set(running);
    }

    /// Other settings are in effect.
    pub fn set_settings(&self, settings: Vec<Setting>) {
        *self.settings.write().unwrap_or_else(PoisonError::into_inner) = settings;
    }

    pub(super) fn settings(&self) -> Vec<Setting> {
        self.settings.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The broker is going down.
    pub fn set_stopping(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// The broker, if it has recovered.
    pub(super) fn running(&self) -> Option<&Running> {
        self.running.get()
    }

    /// `starting`, `running` or `stopping`.
    pub(super) fn stage(&self) -> &'static str {
        match self.running() {
            _ if self.is_stopping() => "stopping",
            Some(_) => "running",
            None => "starting",
        }
    }

    pub(super) fn uptime(&self) -> Duration {
        self.begun.elapsed()
    }

    /// What runs, for a request that needs it.
    fn needed(&self) -> Result<&Running, Problem> {
        if self.is_stopping() {
            return Err(Problem::new(Kind::ShuttingDown, "the broker is going down"));
        }
        self.running().ok_or_else(|| {
            Problem::new(Kind::Starting, "the broker is recovering its log; try again later")
        })
    }

    /// Does what may wait for the disk, off the thread that answers.
    pub(super) async fn with_broker<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Broker) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let broker = Arc::clone(&self.needed()?.broker);
        Self::aside(move || work(&broker)).await
    }

    /// Does what waits for the reactors, off the thread that answers.
    pub(super) async fn with_connections<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn Connections) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let connections = Arc::clone(&self.needed()?.connections);
        Self::aside(move || work(&*connections)).await
    }

    async fn aside<T: Send + 'static>(
        work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let span = tracing::Span::current();
        match tokio::task::spawn_blocking(move || span.in_scope(work)).await {
            Ok(result) => result,
            Err(error) => {
                tracing::error!(%error, "an administrative request failed");
                Err(Problem::new(Kind::Internal, "the request failed; the log says more"))
            }
        }
    }
}
