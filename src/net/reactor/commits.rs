//! Commits of version 1.1: each answered on a connection of role commit, none on a consumer's.

use super::context::Context;
use super::session::{Role, Session, Verdict};
use crate::broker::{Broker, CommitError};
use crate::net::status;
use crate::protocol::v1_1::{Answer, AnswerTo, Commits, commits};

/// Carries out commits in order; returns their answers.
pub(super) fn answer(role: &Role, commits: Commits<'_>, broker: &Broker) -> Vec<u8> {
    let mut answers = Vec::new();
    let Role::Committer(partition, key) = role else { return answers };
    for offset in commits {
        let committed = broker.commit_within(key.clone(), partition, offset);
        committed
            .map_or_else(|error| status::answer_of_commit(&error), Answer::ok)
            .write(AnswerTo::Commit, &mut answers);
    }
    answers
}

impl Session {
    /// Takes commits; ends once those are answered that came before the topic was deleted.
    pub(super) fn drive_committer(&mut self, cx: &mut Context) -> Verdict {
        let deleted = self.partition().is_some_and(|partition| partition.is_deleted());
        let verdict = self.drive_input(cx);
        if verdict == Verdict::Keep && deleted && !self.is_sending() && self.closing.is_none() {
            self.refuse(status::of_deleted());
            return Verdict::Again;
        }
        verdict
    }

    /// Takes what a consumer has sent, commits for its group, and keeps one that is cut off. Of several that came at once
    /// the newest one that can be stored counts. One who may not commit is told so, and ends.
    pub(super) fn take_commits(&mut self, bytes: &[u8], cx: &mut Context) -> Result<(), Verdict> {
        let all = commits(bytes);
        if all.clone().next().is_some()
            && let Some(verdict) = self.refuse_commit(cx)
        {
            return Err(verdict);
        }
        self.store_newest(all, bytes, cx);
        Ok(())
    }

    fn store_newest(&mut self, all: Commits<'_>, bytes: &[u8], cx: &Context) {
        self.pending.clear();
        self.pending.extend_from_slice(&bytes[all.consumed()..]);
        let Role::Consumer { partition, reading, .. } = &self.role else { return };
        let Some(key) = reading.commit_key() else { return };
        let Some(newest) = all.clone().next_back() else { return };
        let _in_span = self.span.enter();
        let not_committed = |error: &CommitError| {
            let (group, partition) = (&key.group, &key.partition);
            if cx.warnings.allow() {
                tracing::warn!(%group, %partition, %error, "not committed");
            } else {
                tracing::debug!(%group, %partition, %error, "not committed");
            }
        };
        let mut result = cx.broker.commit_within(key.clone(), partition, newest);
        if let Err(error @ CommitError::BeyondEnd { end, .. }) = &result {
            not_committed(error);
            let Some(valid) = all.rev().find(|offset| offset <= end) else { return };
            result = cx.broker.commit_within(key.clone(), partition, valid);
        }
        if let Err(error) = result {
            not_committed(&error);
        }
    }
}
