//! The configuration that new connections get, exchanged while the broker runs.

use std::fmt;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::{Mutex, RwLock};
use rustls::ServerConfig;

use super::load::{LoadError, Loaded, Validity, load};
use super::options::{Mode, Options};
use crate::metrics::Metrics;

/// How long a certificate holds. As text, where it ends: what is wrong with it, behind its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expiry {
    /// Long enough.
    Fine,
    /// It is time to renew it: less than seven days are left, or a quarter of the whole time if that is less.
    Soon {
        /// For so long.
        left: Duration,
    },
    /// Not any more.
    Expired,
}

impl Expiry {
    pub(super) fn of(Validity { renewal, end }: Validity, now: Duration) -> Self {
        if now >= end {
            Self::Expired
        } else if now > renewal {
            Self::Soon { left: end.saturating_sub(now) }
        } else {
            Self::Fine
        }
    }
}

impl fmt::Display for Expiry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fine => f.write_str("need not be renewed yet"),
            Self::Soon { left } => {
                write!(f, "expires in {} h; renew tls.cert_file", left.as_secs() / 3600)
            }
            Self::Expired => f.write_str("has expired; renew tls.cert_file"),
        }
    }
}

/// What tells one state of a file from another: device, inode, size, and the times of the last change of its content and of what else
/// is known of it (who may read it), in seconds and nanoseconds. `None` for one that is not there.
type Stamp = Option<([u64; 3], [i64; 4])>;

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
    /// Of what was loaded, of each file in turn.
    stamps: [Stamp; 3],
    validity: Validity,
    /// The state of the files that could not be used last, and why, without its numbers: it is told.
    told: Option<([Stamp; 3], String)>,
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
        let Loaded { config, validity } = load(options)?;
        tell(metrics, validity);
        Ok(Arc::new(Self {
            mode: options.mode,
            current: RwLock::new(config),
            files: Mutex::new(Files { options: options.clone(), stamps, validity, told: None }),
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
        let Renewed { options, stamps, loaded: Loaded { config, validity } } = renewed;
        *files = Files { options, stamps, validity, told: None };
        *self.current.write() = config;
        tell(&self.metrics, validity);
    }

    /// Reads the files again if they are not as they were when they were loaded: whether they could be. What cannot be used may be
    /// with time alone (a certificate that begins to hold, a file that can be opened again), so each call tries it; a state of the
    /// files, and what is wrong with it, is reported once, and what was loaded before stays.
    pub fn reload_if_changed(&self) -> Result<bool, LoadError> {
        let Some((options, now)) = self.changed() else { return Ok(false) };
        match self.renew(&options) {
            Ok(renewed) => Ok(self.install_over(&options, renewed)),
            Err(error) => {
                let mut why = error.to_string();
                why.retain(|letter| !letter.is_ascii_digit());
                let why = Some((now, why));
                let mut files = self.files.lock();
                if files.told == why {
                    return Ok(false);
                }
                files.told = why;
                Err(error)
            }
        }
    }

    /// What names the files, and how they are now, if that is not as they were loaded.
    pub(super) fn changed(&self) -> Option<(Options, [Stamp; 3])> {
        let (options, loaded) = {
            let files = self.files.lock();
            (files.options.clone(), files.stamps)
        };
        // Without the lock: a file system that does not answer holds up nobody who asks how long the certificate holds.
        let now = stamps(&options);
        (now != loaded).then_some((options, now))
    }

    /// How long the certificate still holds.
    pub fn expiry(&self) -> Expiry {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Expiry::of(self.files.lock().validity, now)
    }
}

fn tell(metrics: &Metrics, Validity { renewal, end }: Validity) {
    let seconds = |time: Duration| i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    metrics.tls_certificate_renewal_s.set(seconds(renewal));
    metrics.tls_certificate_expiry_s.set(seconds(end));
}

/// Of what the paths name now: where files are replaced through symbolic links, that of another file.
fn stamps(options: &Options) -> [Stamp; 3] {
    let of = |path: Option<&Path>| {
        let meta = std::fs::metadata(path?).ok()?;
        let times = [meta.mtime(), meta.mtime_nsec(), meta.ctime(), meta.ctime_nsec()];
        Some(([meta.dev(), meta.ino(), meta.len()], times))
    };
    [&options.cert_file, &options.key_file, &options.client_ca_file].map(|path| of(path.as_deref()))
}
