//! Forgetting what groups have committed that nobody has heard of for long.

use std::collections::{HashMap, HashSet};

use super::broker::Broker;
use super::retention::{HOUR_NS, age_ns};
use crate::model::GroupName;

/// After a start, consumers have at least this long to come back, in ns.
const GRACE_NS: u64 = HOUR_NS;

impl Broker {
    /// Forgets the offsets of groups without a commit and without a connected consumer for `offsets.retention_hours`. What
    /// cannot be written down is logged, and tried again by the next pass.
    pub(super) fn expire_offsets(&self) {
        let Some(age) = age_ns(self.offsets_retention_hours()) else { return };
        let now_ns = self.now_ns();
        if now_ns.saturating_sub(self.opened_ns) < age.min(GRACE_NS) {
            return;
        }
        let is_old = |seen_ns: u64| now_ns.saturating_sub(seen_ns) >= age;
        let all = self.table.collect(|_| true);
        let mut seen: HashMap<&GroupName, u64> = HashMap::new();
        for (key, committed) in &all {
            let last = seen.entry(&key.group).or_default();
            *last = committed.seen_ns.max(*last);
        }
        let connected: HashSet<_> =
            self.connected.counts().into_keys().map(|key| key.group).collect();
        let goes = |group: &GroupName| {
            seen.get(group).is_some_and(|last| is_old(*last)) && !connected.contains(group)
        };
        let mut expired = 0;
        for (key, _) in all.iter().filter(|(key, _)| goes(&key.group)) {
            // Not if it has committed just now.
            match self.table.forget(&self.offsets_log, key, now_ns, |now| is_old(now.seen_ns)) {
                Ok(forgotten) => expired += u64::from(forgotten),
                Err(error) => {
                    tracing::warn!(%error, "committed offsets of idle groups cannot be forgotten now");
                    break;
                }
            }
        }
        self.metrics().offsets_expired.add(expired);
        if expired > 0 {
            tracing::info!(offsets = expired, "committed offsets of idle groups were forgotten");
        }
    }
}
