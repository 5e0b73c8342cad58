//! Holding a connection to the quota of its principal: it is left alone until its bucket has filled again.

use std::sync::Arc;

use super::Reactor;
use super::context::Context;
use super::inbox::Key;
use super::session::Session;
use crate::access::ANONYMOUS;

impl Session {
    /// Takes the quota of its principal, if that has one, or else of the address that it comes from.
    pub(super) fn take_quota(&mut self, cx: &Context) {
        let principal = || match &self.admitted {
            Some(admitted) => Arc::from(admitted.identity.principal.as_str()),
            None => Arc::from(ANONYMOUS),
        };
        let address = || Arc::from(self.peer.ip().to_canonical().to_string());
        self.quota = cx.quotas.find(principal).or_else(|| cx.quotas.find(address));
    }

    /// What was received is charged to its principal.
    pub(super) fn charge_produced(&mut self, bytes: usize, cx: &mut Context) {
        if let Some(quota) = &self.quota {
            self.paused = quota.produce.charge(cx.now, bytes as u64);
            self.wait_for_quota(cx);
        }
    }

    /// What was sent is charged to its principal. True if no more is to be sent for now.
    pub(super) fn charge_consumed(&mut self, bytes: u64, cx: &Context) -> bool {
        if let Some(quota) = &self.quota {
            self.paused = quota.consume.charge(cx.now, bytes);
        }
        self.is_paused(cx)
    }

    /// Whether it is left alone. Not when the broker goes down: what was sent is to be answered.
    pub(super) fn is_paused(&self, cx: &Context) -> bool {
        self.paused.is_some() && !cx.stopping
    }

    /// Has it go on once the debt is paid.
    pub(super) fn wait_for_quota(&self, cx: &mut Context) {
        if let Some(until) = self.paused
            && cx.pauses.insert((until, self.key.0))
        {
            cx.metrics.quota_waits.inc();
        }
    }
}

impl Reactor {
    /// Goes on with those whose debt is paid.
    pub(super) fn end_pauses(&mut self) {
        while self.cx.pauses.first().is_some_and(|(at, _)| *at <= self.cx.now) {
            let Some((_, key)) = self.cx.pauses.pop_first() else { return };
            let key = Key(key);
            if let Some(session) = self.session(key) {
                session.paused = None;
                self.drive(key);
            }
        }
    }
}
