//! What is told of access: a counter for each kind of refusal, and lines for whoever audits them.
//!
//! Whoever is refused can come again as often as he likes: each kind of refusal of each principal may say so many lines in a
//! period; those beyond it are counted, and the count is told with the next line.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::principal::Principal;
use crate::metrics::{Metrics, RefusalKind};

/// Lines of one kind and principal in a period.
const LINES_PER_PERIOD: u32 = 10;

const PERIOD: Duration = Duration::from_secs(10);

/// Kinds and principals that are told apart. A name in a certificate is not chosen freely, but there may be many.
const PLACES_MAX: usize = 1024;

/// Somebody who was not let in, or was not allowed something.
#[derive(Debug, Clone, Copy)]
pub struct Refused<'a> {
    /// Which of both.
    pub kind: RefusalKind,
    /// Who, if that is known.
    pub principal: Option<&'a Principal>,
    /// Where from.
    pub peer: IpAddr,
    /// What was asked for: `native 1.0`, `native 1.1`, or a request of the admin listener.
    pub asked: &'a str,
    /// Why not, for people.
    pub reason: &'a str,
}

/// Counts and tells refusals.
#[derive(Debug)]
pub(super) struct Audit {
    metrics: Arc<Metrics>,
    said: Mutex<HashMap<(RefusalKind, Option<Principal>), Said>>,
}

/// What was said in a period.
#[derive(Debug, Clone, Copy)]
struct Said {
    since: Instant,
    lines: u32,
    held_back: u64,
}

impl Audit {
    pub(super) fn new(metrics: Arc<Metrics>) -> Self {
        Self { metrics, said: Mutex::default() }
    }

    pub(super) fn refused(&self, refused: &Refused<'_>) {
        self.metrics.refused.inc(refused.kind);
        let Some(held_back) = self.admit(refused, Instant::now()) else { return };
        let Refused { kind, principal, peer, asked, reason } = *refused;
        tracing::warn!(
            target: "hermitmq::audit",
            kind = kind.label(),
            principal = principal.map(Principal::as_str),
            %peer,
            asked,
            reason,
            held_back = (held_back > 0).then_some(held_back),
            "refused"
        );
    }

    /// Whether it may be said now: how many before it were not.
    fn admit(&self, refused: &Refused<'_>, now: Instant) -> Option<u64> {
        let key = (refused.kind, refused.principal.cloned());
        let mut said = self.said.lock();
        if said.len() >= PLACES_MAX && !said.contains_key(&key) {
            said.retain(|_, said| now.saturating_duration_since(said.since) < PERIOD);
            if said.len() >= PLACES_MAX {
                return None;
            }
        }
        let fresh = Said { since: now, lines: 0, held_back: 0 };
        let place = said.entry(key).or_insert(fresh);
        if now.saturating_duration_since(place.since) >= PERIOD {
            *place = Said { held_back: place.held_back, ..fresh };
        }
        if place.lines >= LINES_PER_PERIOD {
            place.held_back += 1;
            return None;
        }
        place.lines += 1;
        Some(std::mem::take(&mut place.held_back))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_one_principal_holds_back_nobody_else() {
        let audit = Audit::new(Arc::default());
        let (alice, bob) = (Principal::parse("alice").unwrap(), Principal::parse("bob").unwrap());
        let of = |principal| Refused {
            kind: RefusalKind::Unauthorized,
            principal,
            peer: IpAddr::from([127, 0, 0, 1]),
            asked: "native 1.1",
            reason: "no",
        };
        let now = Instant::now();
        for _ in 0..LINES_PER_PERIOD {
            assert_eq!(audit.admit(&of(Some(&alice)), now), Some(0));
        }
        for _ in 0..3 {
            assert_eq!(audit.admit(&of(Some(&alice)), now), None);
        }
        assert_eq!(audit.admit(&of(Some(&bob)), now), Some(0));
        assert_eq!(audit.admit(&of(None), now), Some(0));
        assert_eq!(audit.admit(&of(Some(&alice)), now + PERIOD), Some(3), "told once");
        assert_eq!(audit.admit(&of(Some(&alice)), now + PERIOD), Some(0));
    }
}
