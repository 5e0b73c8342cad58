//! When other rules come into effect: who was let in, and would not be now, is ended.

use super::Reactor;
use super::context::Context;
use super::inbox::Key;
use super::session::{Ending, Role, Session, Verdict};
use crate::access::Refused;
use crate::metrics::{CloseReason, RefusalKind};
use crate::net::admit::{self, Has};
use crate::net::status::Refusal;
use crate::protocol::Status;

impl Reactor {
    /// Looks through all sessions.
    pub(super) fn review(&mut self) {
        let keys: Vec<Key> = self.sessions.iter().map(|(_, session)| session.key).collect();
        for key in keys {
            let session = self.sessions.get_mut(key.slot()).filter(|session| session.key == key);
            if session.is_some_and(|session| session.review(&mut self.cx)) {
                self.drive(key);
            }
        }
    }
}

impl Session {
    /// Whether it is to end: it would not be let in now.
    pub(super) fn review(&mut self, cx: &mut Context) -> bool {
        if self.closing.is_some() {
            return false;
        }
        let visitor = self.visitor();
        let Some(admitted) = &mut self.admitted else { return false };
        let has = match &self.role {
            // What comes of its handshake is looked at again.
            Role::Unknown | Role::Committed => return false,
            Role::Producer(partition) => Has::Produce(&partition.name().topic),
            Role::Consumer { partition, reading, .. } => {
                Has::Consume(&partition.name().topic, reading.group())
            }
            Role::Committer(partition, key) => Has::Commit(&partition.name().topic, &key.group),
        };
        match admit::review(&cx.access, admitted, &visitor, &has) {
            Ok(()) => false,
            Err(refusal) => {
                self.turn_away(refusal, cx);
                true
            }
        }
    }

    /// Reviews a session that was on its way while all were: it is of a time before.
    pub(super) fn review_if_stale(&mut self, cx: &mut Context) {
        let generation = self.admitted.as_ref().map(|admitted| admitted.generation);
        if generation.is_some_and(|generation| generation != cx.access.generation()) {
            self.review(cx);
        }
    }

    /// Begins to end a session that was let in: it is told why where that can be said.
    pub(super) fn turn_away(&mut self, refusal: Refusal, cx: &mut Context) {
        self.tell_audit(&refusal, cx);
        let Role::Consumer { cursor, reading, .. } = &mut self.role else {
            self.refuse(refusal);
            return;
        };
        // What it still sends counts for nothing.
        reading.commits = false;
        if let Some(offset) = cursor.tail_offset().filter(|_| self.connection.speaks_1_1()) {
            self.end_with(refusal.status, offset, &refusal.message, cx);
        }
        self.closing = Some(Ending(Some(refusal.reason)));
        self.detail = refusal.detail;
        // What it is being sent may take for ever.
        self.linger(cx);
    }

    fn tell_audit(&self, refusal: &Refusal, cx: &Context) {
        let known = refusal.status == Status::Unauthorized;
        cx.access.refused(&Refused {
            kind: if known { RefusalKind::Unauthorized } else { RefusalKind::Unauthenticated },
            principal: self.admitted.as_ref().map(|admitted| &admitted.identity.principal),
            peer: self.peer.ip(),
            asked: "to go on",
            reason: &refusal.detail,
        });
    }

    /// Whether a consumer has sent a commit that it may not send; it is told so, and ends.
    pub(super) fn refuse_commit(&mut self, cx: &mut Context) -> Option<Verdict> {
        let refusal = self.admitted.as_ref()?.commit.clone()?;
        debug_assert_eq!(refusal.reason, CloseReason::Unauthorized);
        self.turn_away(*refusal, cx);
        Some(Verdict::Again)
    }
}
