//! The composition root: builds the layers, runs them, and ends them in the right order.
//!
//! Start: lock the data directory, take the ports, answer on the admin listener, recover, accept. Stop: the reverse, with a
//! flush before the lock is given back. [`Server`] is a broker in this process; [`run`] is one that owns the process and its signals.

mod adapters;
mod cleanup;
mod compaction;
pub mod data_dir;
mod notify;
mod opening;
mod pace;
mod reload;
mod scrub;
mod signals;
mod watch;
mod watchdog;

use std::io::{self, IsTerminal as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::access::{Access, AccessError, Table};
use crate::admin::{self, About, Admin, BindError};
use crate::broker::{Broker, BrokerError, CloseError, OpenProgress, Parts};
use crate::config::{Config, ConfigError, Loaded};
use crate::metrics::Metrics;
use crate::net::{self, DataPlane, ListenError, Listener};
use crate::storage::{DataDirError, DirLock, OsDisk, SystemClock};
use crate::telemetry::{self, TelemetryError};
use crate::tls::{self, Expiry, Tls};

use adapters::{Connections, LogLevel, Pulse};
use cleanup::Cleanup;
use compaction::Compaction;
use data_dir::{UnfinishedBackup, refuse_unfinished};
use notify::Notify;
use opening::Opening;
use scrub::Scrub;
use signals::{Signals, Wish};
use watch::Watch;
use watchdog::Watchdog;

/// Why a broker did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The data directory cannot be used.
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    /// The data directory is a backup that was broken off.
    #[error(transparent)]
    Unfinished(#[from] UnfinishedBackup),
    /// The address cannot be listened on.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The certificate or its key cannot be used.
    #[error(transparent)]
    Tls(#[from] tls::LoadError),
    /// The admin listener cannot be had.
    #[error(transparent)]
    Admin(#[from] BindError),
    /// Who may do what is not told right.
    #[error(transparent)]
    Access(#[from] AccessError),
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
    /// The settings in effect cannot be listed.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Not everything could be flushed at the end.
    #[error(transparent)]
    Close(#[from] CloseError),
}

/// A running broker.
#[derive(Debug)]
pub struct Server {
    broker: Arc<Broker>,
    access: Arc<Access>,
    plane: DataPlane,
    watch: Watch,
    scrub: Scrub,
    cleanup: Cleanup,
    compaction: Compaction,
    shutdown_timeout: Duration,
    state: Arc<admin::State>,
    /// What connections with TLS are accepted with, if there are to be any.
    tls: Option<Arc<Tls>>,
    /// Ends when everything else has: until then it tells how that goes.
    admin: Option<Admin>,
    /// Given back last.
    _lock: DirLock,
}

/// Reads the configuration again, from the file that it came from; if that was none, from the first that is found by now.
pub type Reread<'a> = &'a dyn Fn(Option<PathBuf>) -> Result<Loaded, ConfigError>;

/// What the process around the broker has, for the admin listener and while it opens.
#[derive(Debug, Default)]
struct Around {
    settings: Vec<admin::Setting>,
    log_level: Option<Arc<dyn admin::LogLevel>>,
    metrics: Arc<Metrics>,
    progress: Arc<OpenProgress>,
}

impl Server {
    /// Starts a broker: when this returns, it has recovered and accepts connections.
    pub fn start(config: &Config) -> Result<Self, StartError> {
        Self::start_within(config, Around::default())
    }

    fn start_within(config: &Config, around: Around) -> Result<Self, StartError> {
        refuse_unfinished(&config.storage.data_dir)?;
        // Before any other file is touched: another broker may be using them.
        let lock = DirLock::acquire(&config.storage.data_dir)?;
        OsDisk::warn_of_copies_on_write(&config.storage.data_dir);
        // Before recovery, which may take long: a taken port is said at once. Connections wait until it is done.
        let listener = Listener::bind(&config.server)?;
        let metrics = around.metrics;
        let access = Arc::new(Access::new(&config.access, Arc::clone(&metrics))?);
        let tls = load_tls(config, &metrics)?;
        let state = admin::State::new(About {
            data_dir: config.storage.data_dir.clone(),
            settings: around.settings,
            log_level: around.log_level,
            metrics_max_series: config.admin.metrics_max_series,
            metrics_open: config.admin.metrics_open,
            access: Arc::clone(&access),
            metrics: Arc::clone(&metrics),
            progress: Arc::clone(&around.progress),
            tls: tls.clone(),
        });
        // Answers at once: a recovery that takes long is not taken for a process that hangs.
        let admin = start_admin(config, &state, tls.as_ref())?;
        // Each partition takes four descriptors and each of its sealed segments one, each connection one.
        let open_files = net::raise_descriptor_limit();
        tracing::debug!(open_files, "limit of open files");
        let broker = Arc::new(recover(config, metrics, around.progress)?);
        let watch = Watch::start(Arc::clone(&broker), tls.clone()).map_err(StartError::Thread)?;
        let scrub =
            Scrub::start(Arc::clone(&broker), &config.storage).map_err(StartError::Thread)?;
        let cleanup =
            Cleanup::start(Arc::clone(&broker), &config.storage).map_err(StartError::Thread)?;
        let compaction = Compaction::start(Arc::clone(&broker), &config.compaction)
            .map_err(StartError::Thread)?;
        let plane = DataPlane::start(
            listener,
            &config.server,
            &config.security,
            tls.as_ref(),
            &broker,
            &access,
        )?;
        warn_if_open(&access, plane.addr());
        state.set_running(admin::Running {
            broker: Arc::clone(&broker),
            pulse: Arc::new(Pulse(plane.pulse())),
            connections: Arc::new(Connections(plane.connections())),
            reactors: plane.reactors(),
            addr: plane.addr(),
        });
        let shutdown_timeout = Duration::from_secs(config.server.shutdown_timeout_sec.into());
        Ok(Self {
            broker,
            access,
            plane,
            watch,
            scrub,
            cleanup,
            compaction,
            shutdown_timeout,
            state,
            tls,
            admin,
            _lock: lock,
        })
    }

    /// The address it listens on.
    pub fn addr(&self) -> SocketAddr {
        self.plane.addr()
    }

    /// The address of its admin listener, if it has one.
    pub fn admin_addr(&self) -> Option<SocketAddr> {
        self.admin.as_ref().map(Admin::addr)
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
        self.state.set_stopping();
        let report = self.plane.stop(self.shutdown_timeout);
        if report.broken_off > 0 {
            tracing::warn!(
                connections = report.broken_off,
                "connections broken off: they did not take their answers in time"
            );
        }
        drop((self.watch, self.scrub, self.cleanup, self.compaction));
        let closed = self.broker.close();
        if let Some(admin) = self.admin {
            admin.stop();
        }
        closed
    }
}

/// What connections with TLS are accepted with; `None` if nobody speaks it.
fn load_tls(config: &Config, metrics: &Arc<Metrics>) -> Result<Option<Arc<Tls>>, tls::LoadError> {
    let wanted = config.tls.mode.is_on() || config.admin.tls;
    wanted.then(|| Tls::load(&config.tls, metrics)).transpose()
}

/// Reads the certificates and tokens that a configuration names, as a start does before it opens the log: why it would not start,
/// and what it would warn of.
pub fn check_files(config: &Config) -> Result<Option<String>, Vec<StartError>> {
    let mut errors: Vec<_> =
        Table::build(&config.access).err().map(StartError::from).into_iter().collect();
    let expiry = match load_tls(config, &Arc::default()) {
        Ok(tls) => tls.map_or(Expiry::Fine, |tls| tls.expiry()),
        Err(error) => {
            errors.push(error.into());
            Expiry::Fine
        }
    };
    if !errors.is_empty() {
        return Err(errors);
    }
    Ok((expiry != Expiry::Fine).then(|| format!("the broker's certificate {expiry}")))
}

/// Without rules whoever can connect may do everything.
fn warn_if_open(access: &Access, addr: SocketAddr) {
    if !access.table().has_rules() && !addr.ip().is_loopback() {
        tracing::warn!(
            %addr,
            "whoever can connect may do everything: there are no rules (section access), and this is no loopback address"
        );
    }
}

fn start_admin(
    config: &Config,
    state: &Arc<admin::State>,
    tls: Option<&Arc<Tls>>,
) -> Result<Option<Admin>, StartError> {
    let Some(listener) = admin::Listener::bind(&config.admin, config.guards_admin())? else {
        return Ok(None);
    };
    tracing::info!(addr = %listener.addr(), "the admin listener answers");
    let tls = tls.filter(|_| config.admin.tls).cloned();
    Admin::start(listener, Arc::clone(state), tls).map(Some).map_err(StartError::Thread)
}

fn recover(
    config: &Config,
    metrics: Arc<Metrics>,
    progress: Arc<OpenProgress>,
) -> Result<Broker, BrokerError> {
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
        metrics,
        progress,
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

/// Runs a broker until SIGTERM or SIGINT. A second signal ends the process at once, with exit code 1. At SIGHUP it reads its
/// configuration again.
pub fn run(mut loaded: Loaded, reread: Reread<'_>) -> Result<(), RunError> {
    let settings = loaded.settings()?.into_iter().map(adapters::setting).collect();
    let metrics = Arc::<Metrics>::default();
    let (_telemetry, level) = telemetry::init(&loaded.config.telemetry, Arc::clone(&metrics))?;
    let (progress, notify) = (Arc::<OpenProgress>::default(), Arc::new(Notify::of_process()));
    // From here on a signal is not lost, however long recovery takes.
    let signals = Signals::listen(Arc::clone(&progress)).map_err(RunError::Signals)?;
    tell_start(&loaded);
    let log_level: Arc<dyn admin::LogLevel> = Arc::new(LogLevel(level.clone()));
    let log_level = Some(log_level);
    let around = Around { settings, log_level, metrics, progress: Arc::clone(&progress) };
    let opening =
        Opening::start(Arc::clone(&progress), Arc::clone(&notify)).map_err(StartError::Thread)?;
    let started = Server::start_within(&loaded.config, around);
    drop(opening);
    let mut server = match started {
        Err(StartError::Broker(_)) if progress.is_stopped() => {
            tracing::info!("ended while the log was being recovered; the next start begins anew");
            return Ok(());
        }
        started => started?,
    };
    let watchdog = Watchdog::start(&notify, server.plane.pulse()).map_err(StartError::Thread)?;
    tracing::info!(addr = %server.addr(), reactors = server.plane.reactors(), "listening");
    let serving = format!("serving on {}", server.addr());
    notify.ready(&serving);
    greet(server.addr(), server.admin_addr(), &loaded.config);
    let signal = loop {
        match signals.wait() {
            Wish::Stop(signal) => break signal,
            Wish::Reload => {
                notify.reloading();
                reload::reload(&mut server, &mut loaded, &level, reread);
                notify.ready(&serving);
            }
        }
    };
    let drain_delay_ms = loaded.config.server.drain_delay_ms;
    tracing::info!(signal, drain_delay_ms, "shutting down");
    server.state.set_stopping();
    notify.stopping("answering what was received, then flushing");
    if let Some(watchdog) = &watchdog {
        watchdog.set_stopping();
    }
    // Whoever sends connections here has so long to see that no more are wanted.
    thread::sleep(Duration::from_millis(drain_delay_ms.into()));
    server.stop()?;
    tracing::info!("stopped; everything accepted is on disk");
    Ok(())
}

/// What this is and what it goes by.
fn tell_start(loaded: &Loaded) {
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        pid = std::process::id(),
        config = loaded.file.as_ref().map(|path| path.display().to_string()),
        "HermitMQ starts"
    );
    for (key, value, source) in loaded.decided() {
        tracing::info!(key, value, source, "how much of the machine is used");
    }
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
}

/// On a terminal, says what to type next.
fn greet(addr: SocketAddr, admin: Option<SocketAddr>, config: &Config) {
    if !io::stderr().is_terminal() {
        return;
    }
    let program = std::env::args().next().unwrap_or_else(|| "hermitmq".to_owned());
    let broker = if addr.port() == 9092 { String::new() } else { format!(" --broker {addr}") };
    let broker = match config.tls.mode {
        tls::Mode::Required => format!("{broker} --tls-ca FILE"),
        tls::Mode::Off | tls::Mode::Optional => broker,
    };
    let scheme = if config.admin.tls { "https" } else { "http" };
    let admin = admin.map_or_else(String::new, |admin| {
        format!(
            "Dashboard: {scheme}://{admin}/. Health, metrics and more: /readyz, /metrics, /api/v1/topics.\n"
        )
    });
    telemetry::tell(&format!(
        "\nHermitMQ listens on {addr}. In another terminal:\n\n    \
         echo 'hello, world' | {program} produce greetings{broker}\n    \
         {program} consume greetings{broker}\n\n{admin}Ctrl-C stops it.\n\n"
    ));
}
