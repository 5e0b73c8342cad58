//! Who may do what: names for those who come, and rules for what they do. No sockets, no frames, no HTTP.
//!
//! Whoever comes has a [`Principal`]: by a token, by a client certificate, by the network it comes from, or `anonymous`, in this
//! order. Rules say which principals may do which [`Operation`] on which topics and groups; what no rule allows is denied.
//! Without any rule everything is allowed.
//!
//! * [`Options`]: what an operator can set; `check`: what is wrong with it.
//! * `token`: tokens and how they are kept; `network`, `pattern`, `rule`: the parts of a [`Table`].
//! * [`Access`]: the table in effect, which can be replaced while the broker runs; `audit`: what is told of it.

mod audit;
mod check;
mod network;
mod options;
mod pattern;
mod principal;
mod rule;
mod table;
mod token;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::RwLock;

use crate::metrics::Metrics;
use audit::Audit;

pub use audit::{HeldBack, Refused};
pub use check::{AccessError, Problem};
pub use options::{CertificateOptions, NetworkOptions, Options, RuleOptions, Secret, TokenOptions};
pub use principal::{ANONYMOUS, Credentials, Denied, Identity, InvalidPrincipal, Principal};
pub use rule::{Decision, Operation, Resource, UnknownOperation};
pub use table::Table;
pub use token::{NewToken, generate};

/// The rules in effect, and the counters and the log of what they refuse.
#[derive(Debug)]
pub struct Access {
    table: RwLock<Arc<Table>>,
    /// How often the table was replaced.
    generation: AtomicU64,
    audit: Audit,
}

impl Access {
    /// With the rules of a configuration.
    pub fn new(options: &Options, metrics: Arc<Metrics>) -> Result<Self, AccessError> {
        Ok(Self::with(Table::build(options)?, metrics))
    }

    /// Without rules: everybody may do everything.
    pub fn open(metrics: Arc<Metrics>) -> Self {
        Self::with(Table::default(), metrics)
    }

    fn with(table: Table, metrics: Arc<Metrics>) -> Self {
        Self {
            table: RwLock::new(Arc::new(table)),
            generation: AtomicU64::new(0),
            audit: Audit::new(metrics),
        }
    }

    /// The table in effect. Taken once for a handshake or a request: no lock is held while it is used.
    pub fn table(&self) -> Arc<Table> {
        Arc::clone(&self.table.read())
    }

    /// Puts another table in effect, for whoever comes from now on.
    pub fn replace(&self, mut table: Table) {
        table.adopt(&self.table());
        *self.table.write() = Arc::new(table);
        // Whoever reads the new number finds the new table.
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// How often the table was replaced. Read before the table, it says later whether that table still holds.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Counts a refusal and logs it, unless the same was said often just now.
    pub fn refused(&self, refused: &Refused<'_>) {
        self.audit.refused(refused);
    }

    /// Whether to log what this principal has administered, where there may be no end of it: what was held back before; `None` if
    /// it has said enough just now.
    pub fn administered(&self, principal: &Principal) -> Option<HeldBack> {
        self.audit.administered(principal)
    }
}

#[cfg(test)]
mod tests;
