//! Who is connected: each reactor is asked for its connections, and answers in its next turn.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use super::Reactor;
use super::inbox::{Inbox, Key, Message};
use super::session::{Role, Session};
use crate::metrics::{CloseReason, ConnectionRole};
use crate::model::{GroupName, TopicPartition};

/// How long the reactors have for their answers.
const ANSWER_TIME: Duration = Duration::from_secs(1);

/// Names a connection while it lives on its reactor. A producer that moves to another one gets another name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionId {
    reactor: usize,
    key: u64,
}

impl fmt::Display for ConnectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{:x}", self.reactor, self.key)
    }
}

/// The text names no connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a connection is named as in a list of them, such as 0-100000000")]
pub struct InvalidConnectionId;

impl FromStr for ConnectionId {
    type Err = InvalidConnectionId;

    fn from_str(text: &str) -> Result<Self, InvalidConnectionId> {
        let (reactor, key) = text.split_once('-').ok_or(InvalidConnectionId)?;
        let reactor = reactor.parse().map_err(|_| InvalidConnectionId)?;
        let key = u64::from_str_radix(key, 16).map_err(|_| InvalidConnectionId)?;
        Ok(Self { reactor, key })
    }
}

/// A connection, as its reactor saw it.
#[derive(Debug, Clone)]
pub struct ConnectionInfo {
    /// Its name.
    pub id: ConnectionId,
    /// The other end.
    pub peer: SocketAddr,
    /// How long it has been there.
    pub age: Duration,
    /// What it is for; `None` before its handshake is done.
    pub role: Option<ConnectionRole>,
    /// What it reads or writes.
    pub partition: Option<TopicPartition>,
    /// Whom it reads or commits for.
    pub group: Option<GroupName>,
    /// Who it is.
    pub principal: Option<String>,
    /// What the client calls itself, in protocol 1.1.
    pub client_name: Option<String>,
    /// Its software and version, in protocol 1.1.
    pub client_software: Option<String>,
    /// Whether it is encrypted.
    pub tls: bool,
    /// Whom the certificate names that it has shown.
    pub certificate: Option<Arc<str>>,
}

/// The connections of a data plane.
#[derive(Debug, Clone)]
pub struct Connections {
    inboxes: Arc<[Arc<Inbox>]>,
}

/// What was found.
#[derive(Debug)]
pub struct Listed {
    /// Connections, by their reactors.
    pub connections: Vec<ConnectionInfo>,
    /// Whether these are all: no reactor had more than it was asked for, or was too busy to answer.
    pub complete: bool,
}

impl Connections {
    pub(super) fn of(inboxes: impl Iterator<Item = Arc<Inbox>>) -> Self {
        Self { inboxes: inboxes.collect() }
    }

    /// Lists them, at most `max` of each reactor. Waits for the reactors: not for one of them.
    pub fn list(&self, max: usize) -> Listed {
        let (sender, answers) = channel();
        for inbox in &*self.inboxes {
            inbox.send(Message::List(max, sender.clone()));
        }
        drop(sender);
        let until = Instant::now() + ANSWER_TIME;
        let mut listed = Listed { connections: Vec::new(), complete: true };
        for _ in &*self.inboxes {
            match answer(&answers, until) {
                Some((connections, all)) => {
                    listed.connections.extend(connections);
                    listed.complete &= all;
                }
                None => listed.complete = false,
            }
        }
        listed.connections.sort_by_key(|info| (info.id.reactor, info.id.key));
        listed
    }

    /// Closes one. False if it is not there; `None` if its reactor is too busy to say. Waits for the reactor: not for one.
    pub fn close(&self, id: ConnectionId) -> Option<bool> {
        let Some(inbox) = self.inboxes.get(id.reactor) else { return Some(false) };
        let (sender, answers) = channel();
        inbox.send(Message::Close(Key(id.key), sender));
        answer(&answers, Instant::now() + ANSWER_TIME)
    }
}

fn answer<T>(answers: &Receiver<T>, until: Instant) -> Option<T> {
    answers.recv_timeout(until.saturating_duration_since(Instant::now())).ok()
}

impl Reactor {
    /// Its connections, at most `max`, and whether these are all.
    pub(super) fn list(&self, max: usize) -> (Vec<ConnectionInfo>, bool) {
        let reactor = self.cx.reactor;
        let now = Instant::now();
        let sessions = self.sessions.iter().take(max);
        let infos = sessions.map(|(_, session)| session.info(reactor, now)).collect();
        (infos, self.sessions.len() <= max)
    }

    /// Closes a connection because an operator wants it. False if it is not there.
    pub(super) fn close_wanted(&mut self, key: Key) -> bool {
        // What it has sent is answered first.
        self.flush_gathered();
        let there = self.session(key).is_some();
        self.close(key, Some(CloseReason::Operator));
        there
    }
}

impl Session {
    fn info(&self, reactor: usize, now: Instant) -> ConnectionInfo {
        let client = self.client.as_deref();
        ConnectionInfo {
            id: ConnectionId { reactor, key: self.key.0 },
            peer: self.peer,
            age: now.saturating_duration_since(self.begun),
            role: self.role.counted(),
            partition: self.partition().map(|partition| partition.name().clone()),
            group: match &self.role {
                Role::Consumer { reading, .. } => reading.group().cloned(),
                Role::Committer(_, key) => Some(key.group.clone()),
                Role::Unknown | Role::Producer(_) | Role::Committed => None,
            },
            principal: self.admitted.as_ref().map(|it| it.identity.principal.to_string()),
            client_name: client.and_then(|client| client.name.clone()),
            client_software: client.and_then(|client| client.software.clone()),
            tls: self.stream.is_tls(),
            certificate: self.certificate.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        let id = ConnectionId { reactor: 3, key: 0x1_0000_002a };
        assert_eq!(id.to_string(), "3-10000002a");
        assert_eq!(id.to_string().parse(), Ok(id));
        for wrong in ["", "3", "-", "3-", "-1", "x-1", "3-g", "3-10000000000000000"] {
            assert_eq!(wrong.parse::<ConnectionId>(), Err(InvalidConnectionId), "{wrong}");
        }
    }
}
