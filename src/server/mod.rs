//! The composition root: builds the layers, runs them, and ends them in the right order.
//!
//! Start: lock the data directory, take the port, recover, accept. Stop: the reverse, with a flush before the lock is
//! given back. [`Server`] is a broker in this process; [`run`] is one that owns the process and its signals.

mod cleanup;
mod compaction;
pub mod data_dir;
mod pace;
mod scrub;
mod signals;
mod watch;

use std::io::{self, IsTerminal as _, Write as _};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::broker::{Broker, BrokerError, CloseError, Parts};
use crate::config::{Config, Loaded};
use crate::metrics::Metrics;
use crate::net::{self, DataPlane, ListenError, Listener};
use crate::storage::{DataDirError, DirLock, OsDisk, SystemClock};
use crate::telemetry::{self, TelemetryError};

use cleanup::Cleanup;
use compaction::Compaction;
use scrub::Scrub;
use watch::Watch;

/// Why a broker did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The data directory cannot be used.
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    /// The address cannot be listened on.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The log cannot be opened.
    #[error(transparent)]
    Broker(#[from] BrokerError),
    /// A thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
}

/// Why the process ends with an error.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The broker did not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// Logging could not be started.
    #[error(transparent)]
    Telemetry(#[from] TelemetryError),
    /// Signals cannot be received.
    #[error("cannot receive signals: {0}")]
    Signals(io::Error),
    /// Not everything could be flushed at the end.
    #[error(transparent)]
    Close(#[from] CloseError),
}

/// A running broker.
#[derive(Debug)]
pub struct Server {
    broker: Arc<Broker>,
    plane: DataPlane,
    watch: Watch,
    scrub: Scrub,
    cleanup: Cleanup,
    compaction: Compaction,
    shutdown_timeout: Duration,
    /// Given back last.
    _lock: DirLock,
}

impl Server {
    /// Starts a broker: when this returns, it has recovered and accepts connections.
    pub fn start(config: &Config) -> Result<Self, StartError> {
        // Before any other file is touched: another broker may be using them.
        let lock = DirLock::acquire(&config.storage.data_dir)?;
        // Before recovery, which may take long: a taken port is said at once. Connections wait until it is done.
        let listener = Listener::bind(&config.server)?;
        // Each partition takes two descriptors, each connection one.
        let open_files = net::raise_descriptor_limit();
        tracing::debug!(open_files, "limit of open files");
        let broker = Arc::new(recover(config)?);
        let watch = Watch::start(Arc::clone(&broker)).map_err(StartError::Thread)?;
        let scrub =
            Scrub::start(Arc::clone(&broker), &config.storage).map_err(StartError::Thread)?;
        let cleanup =
            Cleanup::start(Arc::clone(&broker), &config.storage).map_err(StartError::Thread)?;
        let compaction = Compaction::start(Arc::clone(&broker), &config.compaction)
            .map_err(StartError::Thread)?;
        let plane = DataPlane::start(listener, &config.server, &config.security, &broker)?;
        let shutdown_timeout = Duration::from_secs(config.server.shutdown_timeout_sec.into());
        Ok(Self { broker, plane, watch, scrub, cleanup, compaction, shutdown_timeout, _lock: lock })
    }

    /// The address it listens on.
    pub fn addr(&self) -> SocketAddr {
        self.plane.addr()
    }

    /// The broker, for those who administer it.
    pub fn broker(&self) -> &Arc<Broker> {
        &self.broker
    }

    /// Its instruments.
    pub fn metrics(&self) -> &Arc<Metrics> {
        self.broker.metrics()
    }

    /// Stops: accepts no more, answers what was received, closes connections, flushes.
    pub fn stop(self) -> Result<(), CloseError> {
        let report = self.plane.stop(self.shutdown_timeout);
        if report.broken_off > 0 {
            tracing::warn!(
                connections = report.broken_off,
                "connections broken off: they did not take their answers in time"
            );
        }
        drop((self.watch, self.scrub, self.cleanup, self.compaction));
        self.broker.close()
    }
}

fn recover(config: &Config) -> Result<Broker, BrokerError> {
    let data_dir = config.storage.data_dir.display().to_string();
    let _span = tracing::info_span!("recovery", data_dir).entered();
    let began = Instant::now();
    let broker = Broker::open(Parts {
        options: config.topics.clone(),
        offsets: config.offsets.clone(),
        max_payload_mb: config.security.max_payload_mb,
        declared: config.topic.clone(),
        storage: config.storage.clone(),
        compaction: config.compaction.clone(),
        disk: Arc::new(OsDisk),
        clock: Arc::new(SystemClock),
        metrics: Arc::default(),
    })?;
    tracing::info!(
        data_dir,
        topics = broker.topic_count(),
        committed_offsets = broker.committed_count(),
        millis = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        "log opened"
    );
    Ok(broker)
}

/// Runs a broker until SIGTERM or SIGINT. A second signal ends the process at once, with exit code 1.
pub fn run(loaded: Loaded) -> Result<(), RunError> {
    let Loaded { config, warnings, file, .. } = loaded;
    let _telemetry = telemetry::init(&config.telemetry)?;
    // From here on a signal is not lost, however long recovery takes.
    let signals = signals::Signals::listen().map_err(RunError::Signals)?;
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        pid = std::process::id(),
        config = file.map(|path| path.display().to_string()),
        "HermitMQ starts"
    );
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    let server = Server::start(&config)?;
    tracing::info!(addr = %server.addr(), reactors = server.plane.reactors(), "listening");
    greet(server.addr());
    let signal = signals.wait();
    tracing::info!(signal, "shutting down");
    server.stop()?;
    tracing::info!("stopped; everything accepted is on disk");
    Ok(())
}

/// On a terminal, says what to type next.
fn greet(addr: SocketAddr) {
    let mut stderr = io::stderr().lock();
    if !stderr.is_terminal() {
        return;
    }
    let program = std::env::args().next().unwrap_or_else(|| "hermitmq".to_owned());
    let broker = if addr.port() == 9092 { String::new() } else { format!(" --broker {addr}") };
    // A greeting that cannot be written is no reason to stop.
    let _ = writeln!(
        stderr,
        "\nHermitMQ listens on {addr}. In another terminal:\n\n    \
         echo 'hello, world' | {program} produce greetings{broker}\n    \
         {program} consume greetings{broker}\n\nCtrl-C stops it.\n"
    );
}
