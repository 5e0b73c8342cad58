//! Quotas: how many bytes a principal may produce and consume in a second, over all its connections.
//!
//! Who is over its quota is not refused anything: it is not read, or not sent to, until its bucket has filled again. The peer
//! sees a slow broker, and TCP holds it back.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::options::QuotaOptions;

/// A bucket holds what may go through in this time: a burst after a pause.
const BURST: Duration = Duration::from_secs(1);

/// Of what may go through in a second, at most this part goes at once, so that pauses are short.
const STEPS_PER_SECOND: u64 = 8;

/// But no less than this at once, in bytes.
const STEP_MIN: u64 = 4096;

/// The quotas there are, by the principals that have one.
#[derive(Debug, Default)]
pub(super) struct Quotas(HashMap<Arc<str>, Arc<Quota>>);

/// The quota of one principal.
#[derive(Debug)]
pub(super) struct Quota {
    pub(super) produce: Bucket,
    pub(super) consume: Bucket,
}

/// Tokens, one for each byte. It may go into debt: what has come or gone is charged afterwards.
#[derive(Debug)]
pub(super) struct Bucket {
    /// In bytes a second, if there is a limit.
    rate: Option<u64>,
    /// What times are counted from.
    epoch: Instant,
    /// When it would be full if nothing more were taken, in ns since the epoch: all there is to know.
    full_at: AtomicU64,
}

impl Quotas {
    pub(super) fn of(options: &[QuotaOptions]) -> Arc<Self> {
        let quota = |options: &QuotaOptions| {
            let produce = Bucket::new(options.produce_kb_per_s);
            let consume = Bucket::new(options.consume_kb_per_s);
            (Arc::from(&*options.principal), Arc::new(Quota { produce, consume }))
        };
        Arc::new(Self(options.iter().map(quota).collect()))
    }

    /// The quota of a principal, if it has one. Its name is asked for only if anybody has.
    pub(super) fn find(&self, principal: impl FnOnce() -> Arc<str>) -> Option<Arc<Quota>> {
        if self.0.is_empty() {
            return None;
        }
        self.0.get(&principal()).map(Arc::clone)
    }
}

impl Bucket {
    fn new(kb_per_s: Option<NonZeroU32>) -> Self {
        let rate = kb_per_s.map(|kb| u64::from(kb.get()) * 1024);
        Self { rate, epoch: Instant::now(), full_at: AtomicU64::new(0) }
    }

    /// Of so many bytes those that may go at once.
    pub(super) fn step<N: Copy + Ord + TryFrom<u64>>(&self, bytes: N) -> N {
        let step = self.rate.map(|rate| (rate / STEPS_PER_SECOND).max(STEP_MIN));
        step.and_then(|step| N::try_from(step).ok()).map_or(bytes, |step| step.min(bytes))
    }

    /// Takes a token for each byte. If there are too few: when the debt is paid.
    pub(super) fn charge(&self, now: Instant, bytes: u64) -> Option<Instant> {
        const SECOND_NS: u64 = 1_000_000_000;
        let rate = self.rate?;
        let since = nanos(now.saturating_duration_since(self.epoch));
        let price = bytes.saturating_mul(SECOND_NS) / rate;
        let charged = |full_at: u64| full_at.max(since).saturating_add(price);
        let before = self
            .full_at
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |full_at| Some(charged(full_at)));
        let full_at = charged(before.unwrap_or_default());
        let debt = (full_at - since).saturating_sub(nanos(BURST));
        (debt > 0).then(|| now + Duration::from_nanos(debt))
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bucket(kb_per_s: u32) -> Bucket {
        Bucket::new(NonZeroU32::new(kb_per_s))
    }

    #[test]
    fn a_burst_is_free_and_then_the_rate_holds() {
        let bucket = bucket(100);
        let start = bucket.epoch;
        assert_eq!(bucket.charge(start, 100 * 1024), None, "what a second brings");
        // 50 KiB more take half a second to come back.
        let until = bucket.charge(start, 50 * 1024).unwrap();
        assert_eq!(until - start, Duration::from_millis(500));
        assert_eq!(bucket.charge(until, 0), None, "the debt is paid");
        let mut now = until;
        let mut sent = 0;
        while now < until + Duration::from_secs(10) {
            now = bucket.charge(now, 8192).unwrap_or(now);
            sent += 8192;
        }
        assert!((1000 * 1024..1010 * 1024).contains(&sent), "{sent} bytes in 10 s");
        // It never holds more than a second's worth.
        let later = now + Duration::from_secs(1000);
        assert_eq!(bucket.charge(later, 100 * 1024), None);
        assert!(bucket.charge(later, 1).is_some());
    }

    #[test]
    fn those_who_share_a_bucket_wait_for_each_other() {
        let bucket = bucket(1);
        let now = bucket.epoch;
        let waits: Vec<_> = (0..4).filter_map(|_| bucket.charge(now, 1024)).collect();
        let seconds: Vec<_> = waits.iter().map(|until| (*until - now).as_secs()).collect();
        assert_eq!(seconds, [1, 2, 3]);
    }

    #[test]
    fn only_who_is_named_has_a_quota_and_only_of_what_is_said() {
        let options = QuotaOptions {
            principal: "a".to_owned(),
            produce_kb_per_s: NonZeroU32::new(64),
            consume_kb_per_s: None,
        };
        let quotas = Quotas::of(&[options]);
        assert!(quotas.find(|| "b".into()).is_none());
        let quota = quotas.find(|| "a".into()).unwrap();
        assert_eq!((quota.produce.step(10_000), quota.consume.step(10_000)), (8192, 10_000));
        assert_eq!(quota.produce.step(100), 100);
        assert_eq!(quota.consume.charge(Instant::now(), u64::MAX), None);
        let none = Quotas::of(&[]);
        assert!(none.find(|| panic!("nobody is asked for a name")).is_none());
    }
}
