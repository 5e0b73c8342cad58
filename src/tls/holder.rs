//! The configuration that new connections get, exchanged while the broker runs.

use std::fmt;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::{Mutex, RwLock};
use rustls::ServerConfig;

use super::load::{LoadError, Loaded, load};
use super::options::{Mode, Options};
use crate::metrics::Metrics;

/// A certificate that holds for less time is a warning.
const EXPIRES_SOON: Duration = Duration::from_hours(7 * 24);

/// How long a certificate holds. As text, where it ends: what is wrong with it, behind its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expiry {
    /// Long enough.
    Fine,
    /// For less than seven days.
    Soon {
        /// For so long.
        left: Duration,
    },
    /// Not any more.
    Expired,
}

impl Expiry {
    pub(super) fn of(left: Duration) -> Self {
        match left {
            Duration::ZERO => Self::Expired,
            left if left < EXPIRES_SOON => Self::Soon { left },
            _ => Self::Fine,
        }
    }
}

impl fmt::Display for Expiry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fine => f.write_str("holds for more than 7 days"),
            Self::Soon { left } => {
                write!(f, "expires in {} h; renew tls.cert_file", left.as_secs() / 3600)
            }
            Self::Expired => f.write_str("has expired; renew tls.cert_file"),
        }
    }
}

/// What tells one state of a file from another, of each file in turn: device, inode, size and the time of its last change, in
/// seconds and nanoseconds. `None` for one that is not there.
type Stamp = Option<(u64, u64, u64, i64, i64)>;

/// What TLS connections are accepted with.
#[derive(Debug)]
pub struct Tls {
    mode: Mode,
    current: RwLock<Arc<ServerConfig>>,
    files: Mutex<Files>,
    metrics: Arc<Metrics>,
}

/// Where the current configuration is from.
#[derive(Debug)]
struct Files {
    options: Options,
    stamps: [Stamp; 3],
    /// When the certificate ends to hold, from the Unix epoch.
    expires: Duration,
}

/// Files that were read again, and are as they should be.
#[derive(Debug)]
pub struct Renewed {
    options: Options,
    stamps: [Stamp; 3],
    loaded: Loaded,
}

impl Tls {
    /// Reads and checks the files of `options`.
    pub fn load(options: &Options, metrics: &Arc<Metrics>) -> Result<Arc<Self>, LoadError> {
        let stamps = stamps(options);
        let Loaded { config, expires } = load(options)?;
        tell(metrics, expires);
        Ok(Arc::new(Self {
            mode: options.mode,
            current: RwLock::new(config),
            files: Mutex::new(Files { options: options.clone(), stamps, expires }),
            metrics: Arc::clone(metrics),
        }))
    }

    /// Whether connections of clients are encrypted.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// What a connection that begins now is accepted with. It keeps that until its end.
    pub fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.current.read())
    }

    /// Reads and checks the files that `options` names now, for [`Tls::install`]. Nothing has changed yet.
    pub fn renew(&self, options: &Options) -> Result<Renewed, LoadError> {
        // Older than what is read: a change in between is seen by the next look.
        let stamps = stamps(options);
        let loaded = load(options)?;
        Ok(Renewed { options: options.clone(), stamps, loaded })
    }

    /// Gives connections that begin from now on what was read.
    pub fn install(&self, renewed: Renewed) {
        self.put(&mut self.files.lock(), renewed);
    }

    /// The same, unless others than those of `before` are in effect meanwhile: whether it was done.
    pub(super) fn install_over(&self, before: &Options, renewed: Renewed) -> bool {
        let mut files = self.files.lock();
        let same = files.options == *before;
        if same {
            self.put(&mut files, renewed);
        }
        same
    }

    fn put(&self, files: &mut Files, renewed: Renewed) {
        let Renewed { options, stamps, loaded: Loaded { config, expires } } = renewed;
        *files = Files { options, stamps, expires };
        *self.current.write() = config;
        tell(&self.metrics, expires);
    }

    /// Reads the files again if one of them has changed: whether it was so. A state of the files that cannot be used is reported
    /// once, and what was loaded before stays.
    pub fn reload_if_changed(&self) -> Result<bool, LoadError> {
        let Some(options) = self.changed() else { return Ok(false) };
        let renewed = self.renew(&options)?;
        Ok(self.install_over(&options, renewed))
    }

    /// What names the files, if one of them has changed; this state of them is not told again.
    pub(super) fn changed(&self) -> Option<Options> {
        let mut files = self.files.lock();
        let now = stamps(&files.options);
        if files.stamps == now {
            return None;
        }
        files.stamps = now;
        Some(files.options.clone())
    }

    /// How long the certificate still holds.
    pub fn expiry(&self) -> Expiry {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Expiry::of(self.files.lock().expires.saturating_sub(now))
    }
}

fn tell(metrics: &Metrics, expires: Duration) {
    metrics.tls_certificate_expiry_s.set(i64::try_from(expires.as_secs()).unwrap_or(i64::MAX));
}

/// Of what the paths name now: where files are replaced through symbolic links, that of another file.
fn stamps(options: &Options) -> [Stamp; 3] {
    let of = |path: Option<&Path>| {
        let meta = std::fs::metadata(path?).ok()?;
        Some((meta.dev(), meta.ino(), meta.len(), meta.mtime(), meta.mtime_nsec()))
    };
    [&options.cert_file, &options.key_file, &options.client_ca_file].map(|path| of(path.as_deref()))
}
