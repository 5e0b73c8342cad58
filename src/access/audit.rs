//! What is told of access: a counter for each kind of refusal, and lines for whoever audits them.
//!
//! Whoever is refused can come again as often as he likes: each kind of refusal of each principal may say so many lines in a
//! period, and so may what it administers of a kind that has no end; those beyond it are counted, and the count is told with the next line. Where there are too many to be told apart, the
//! others are as one.

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
    places: Mutex<Places>,
}

/// What was said of whom.
#[derive(Debug)]
struct Places {
    known: HashMap<Subject, Said>,
    /// Those for whom there is no place, and what was held back of those who had one.
    others: Said,
}

/// What was said in a period.
#[derive(Debug, Clone, Copy)]
struct Said {
    since: Instant,
    lines: u32,
    held_back: u64,
}

/// What lines are about: a kind of refusal, or `None` for what was administered; and whom.
type Subject = (Option<RefusalKind>, Option<Principal>);

/// Lines before one that were not logged.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct HeldBack {
    /// Like it.
    pub like_it: u64,
    /// Of those who are not told apart.
    pub others: u64,
}

impl Audit {
    pub(super) fn new(metrics: Arc<Metrics>) -> Self {
        let others = Said::since(Instant::now());
        Self { metrics, places: Mutex::new(Places { known: HashMap::new(), others }) }
    }

    pub(super) fn refused(&self, refused: &Refused<'_>) {
        self.metrics.refused.inc(refused.kind);
        let subject = (Some(refused.kind), refused.principal.cloned());
        let Some(held_back) = self.admit(subject, Instant::now()) else { return };
        let told = |count: u64| (count > 0).then_some(count);
        let Refused { kind, principal, peer, asked, reason } = *refused;
        tracing::warn!(
            target: "hermitmq::audit",
            kind = kind.label(),
            principal = principal.map(Principal::as_str),
            %peer,
            asked,
            reason,
            held_back = told(held_back.like_it),
            held_back_of_others = told(held_back.others),
            "refused"
        );
    }

    /// Whether what this principal has administered may be said now.
    pub(super) fn administered(&self, principal: &Principal) -> Option<HeldBack> {
        self.admit((None, Some(principal.clone())), Instant::now())
    }

    /// Whether it may be said now: how many before it were not.
    fn admit(&self, key: Subject, now: Instant) -> Option<HeldBack> {
        let mut places = self.places.lock();
        let Places { known, others } = &mut *places;
        if known.len() >= PLACES_MAX && !known.contains_key(&key) {
            known.retain(|_, said| {
                let kept = !said.is_over(now);
                others.held_back += if kept { 0 } else { said.held_back };
                kept
            });
        }
        if known.len() >= PLACES_MAX && !known.contains_key(&key) {
            return others.admit(now).map(|others| HeldBack { like_it: 0, others });
        }
        let like_it = known.entry(key).or_insert_with(|| Said::since(now)).admit(now)?;
        Some(HeldBack { like_it, others: std::mem::take(&mut others.held_back) })
    }
}

impl Said {
    fn since(now: Instant) -> Self {
        Self { since: now, lines: 0, held_back: 0 }
    }

    fn is_over(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.since) >= PERIOD
    }

    fn admit(&mut self, now: Instant) -> Option<u64> {
        if self.is_over(now) {
            *self = Self { held_back: self.held_back, ..Self::since(now) };
        }
        if self.lines >= LINES_PER_PERIOD {
            self.held_back += 1;
            return None;
        }
        self.lines += 1;
        Some(std::mem::take(&mut self.held_back))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(principal: Option<&Principal>) -> Subject {
        (Some(RefusalKind::Unauthorized), principal.cloned())
    }

    #[expect(clippy::unnecessary_wraps, reason = "it is compared with what may be nothing")]
    fn held_back(like_it: u64, others: u64) -> Option<HeldBack> {
        Some(HeldBack { like_it, others })
    }

    #[test]
    fn a_flood_of_one_principal_holds_back_nobody_else() {
        let audit = Audit::new(Arc::default());
        let (alice, bob) = (Principal::parse("alice").unwrap(), Principal::parse("bob").unwrap());
        let now = Instant::now();
        for _ in 0..LINES_PER_PERIOD {
            assert_eq!(audit.admit(of(Some(&alice)), now), held_back(0, 0));
        }
        for _ in 0..3 {
            assert_eq!(audit.admit(of(Some(&alice)), now), None);
        }
        assert_eq!(audit.admit(of(Some(&bob)), now), held_back(0, 0));
        assert_eq!(audit.admit(of(None), now), held_back(0, 0));
        assert_eq!(audit.administered(&alice), held_back(0, 0));
        assert_eq!(audit.admit(of(Some(&alice)), now + PERIOD), held_back(3, 0), "told once");
        assert_eq!(audit.admit(of(Some(&alice)), now + PERIOD), held_back(0, 0));
    }

    #[test]
    fn however_many_there_are_each_refusal_is_told_or_counted() {
        let audit = Audit::new(Arc::default());
        let begun = Instant::now();
        let name = |number: usize| Principal::parse(&format!("p{number}")).unwrap();
        let mut told = 0;
        let mut refuse = |number: usize, now| {
            let said = audit.admit(of(Some(&name(number))), now);
            told += said.as_ref().map_or(0, |said| 1 + said.like_it + said.others);
            said
        };
        let mut refused = 0;
        // Each place is taken, and each has something that was held back.
        for number in 0..PLACES_MAX {
            for _ in 0..=LINES_PER_PERIOD {
                refuse(number, begun);
                refused += 1;
            }
        }
        // Others have one place together.
        for number in PLACES_MAX..PLACES_MAX + 30 {
            let said = refuse(number, begun);
            assert_eq!(said.is_some(), number < PLACES_MAX + LINES_PER_PERIOD as usize);
            refused += 1;
        }
        // The places are taken from who has not been seen for a while.
        assert_eq!(refuse(PLACES_MAX, begun + PERIOD), held_back(0, PLACES_MAX as u64 + 20));
        assert_eq!(told, refused + 1);
    }
}
