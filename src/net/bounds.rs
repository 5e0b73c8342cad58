//! What holds for connections: the options that are about them, as the reactors use them. A running broker may be given
//! others.

use std::time::Duration;

use super::options::{Options, SecurityOptions};
use crate::model::limits;
use crate::record::FrameLimits;

/// How often a look through all connections comes within the shortest time that it is about: a limit holds this exactly.
const LOOKS: u32 = 4;

/// See the options of the same names.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// What frames may claim, before the topic is known.
    pub(super) frames: FrameLimits,
    /// Time for the whole handshake.
    pub(super) handshake: Duration,
    /// Silence that ends a producer or committer.
    pub(super) idle: Option<Duration>,
    /// Time without taking anything that ends anybody.
    pub(super) write: Option<Duration>,
    /// Silence before a question of keepalive.
    pub(super) keepalive: Option<Duration>,
    /// Time that what was sent may stay unconfirmed.
    pub(super) user: Option<Duration>,
}

impl Bounds {
    pub(super) fn of(options: &Options, security: &SecurityOptions) -> Self {
        let payload_bytes = u64::from(security.max_payload_mb) * limits::MIB;
        let seconds = |seconds: u32| (seconds > 0).then(|| Duration::from_secs(u64::from(seconds)));
        Self {
            frames: FrameLimits {
                key_bytes: security.max_key_kb.saturating_mul(1024),
                payload_bytes: u32::try_from(payload_bytes).unwrap_or(u32::MAX),
                record_count: security.max_record_count,
            },
            handshake: Duration::from_secs(options.handshake_timeout_sec.into()),
            idle: seconds(security.idle_timeout_sec),
            write: seconds(security.write_timeout_sec),
            keepalive: seconds(security.keepalive_sec),
            user: seconds(security.user_timeout_sec),
        }
    }

    /// How often all connections are looked through, if at all.
    pub(super) fn look_every(&self) -> Option<Duration> {
        self.idle.into_iter().chain(self.write).min().map(|shortest| shortest / LOOKS)
    }
}
