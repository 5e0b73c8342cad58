//! Who a connection is, and whether it may do what its handshake asks for. Before anything is looked up: whoever may not see a
//! topic does not learn whether it exists.

use std::net::IpAddr;
use std::sync::Arc;

use super::connection::Asked;
use super::status::{self, Refusal};
use crate::access::{
    Access, Credentials, Denied, Identity, Operation, Principal, Refused, Resource, Table,
};
use crate::metrics::RefusalKind;
use crate::model::{GroupName, TopicName};
use crate::protocol::Request;
use crate::protocol::v1_1::{Role, Token};

/// What is known of a peer beside what its handshake says.
#[derive(Debug, Clone)]
pub(super) struct Visitor {
    /// Where it comes from.
    pub(super) address: IpAddr,
    /// The name in its client certificate, if it has shown one that was verified.
    pub(super) certificate: Option<Arc<str>>,
}

/// Somebody who was let in.
#[derive(Debug, Clone)]
pub(super) struct Admitted {
    pub(super) identity: Identity,
    /// A consumer that reads for a group and may not commit for it: what it is told if it does.
    pub(super) commit: Option<Box<Refusal>>,
    /// Of the rules that let it in.
    pub(super) generation: u64,
}

impl Visitor {
    fn credentials<'a>(&'a self, token: Option<&'a [u8]>) -> Credentials<'a> {
        Credentials { token, certificate: self.certificate.as_deref(), address: self.address }
    }
}

/// Lets a peer in or not, if that takes no hashing of a token.
pub(super) fn admit_now(
    access: &Access,
    asked: &Asked,
    visitor: &Visitor,
) -> Option<Result<Admitted, Refusal>> {
    let (generation, table) = (access.generation(), access.table());
    let identity = table.authenticate_now(&visitor.credentials(token(asked)))?;
    Some(judge(access, &table, identity, generation, asked, visitor))
}

/// Lets a peer in or not. May take a millisecond: not for a reactor.
pub(super) fn admit(
    access: &Access,
    asked: &Asked,
    visitor: &Visitor,
) -> Result<Admitted, Refusal> {
    let (generation, table) = (access.generation(), access.table());
    let identity = table.authenticate(&visitor.credentials(token(asked)));
    judge(access, &table, identity, generation, asked, visitor)
}

/// Whether somebody who was let in would be let in now, to what it has: words for the refusal if not.
pub(super) fn review(
    access: &Access,
    admitted: &mut Admitted,
    visitor: &Visitor,
    has: &Has<'_>,
) -> Result<(), Refusal> {
    let (generation, table) = (access.generation(), access.table());
    let identity = &admitted.identity;
    if !table.stands(identity, &visitor.credentials(None)) {
        let reason = format!("{} is not known any more", identity.principal);
        return Err(status::of_unauthenticated(&reason));
    }
    let allowed = has.allowed(&table, &identity.principal);
    allowed.map_err(|reason| status::of_unauthorized(&reason))?;
    admitted.commit = has.commit(&table, &identity.principal);
    admitted.generation = generation;
    Ok(())
}

fn token(asked: &Asked) -> Option<&[u8]> {
    match asked {
        Asked::V1_0(_) => None,
        Asked::V1_1(handshake) => handshake.token.as_ref().map(Token::as_bytes),
    }
}

fn judge(
    access: &Access,
    table: &Table,
    identity: Result<Identity, Denied>,
    generation: u64,
    asked: &Asked,
    visitor: &Visitor,
) -> Result<Admitted, Refusal> {
    let tell = |kind, principal: Option<&Principal>, reason: &str| {
        let version = if matches!(asked, Asked::V1_0(_)) { "native 1.0" } else { "native 1.1" };
        let peer = visitor.address;
        access.refused(&Refused { kind, principal, peer, asked: version, reason });
    };
    let identity = identity.map_err(|error| {
        let refusal = status::of_unauthenticated(&error);
        tell(RefusalKind::Unauthenticated, None, &refusal.detail);
        refusal
    })?;
    let has = Has::of(asked);
    if let Err(reason) = has.allowed(table, &identity.principal) {
        tell(RefusalKind::Unauthorized, Some(&identity.principal), &reason);
        return Err(status::of_unauthorized(&reason));
    }
    let commit = has.commit(table, &identity.principal);
    Ok(Admitted { identity, commit, generation })
}

/// What a connection does, or wants to.
#[derive(Debug)]
pub(super) enum Has<'a> {
    Produce(&'a TopicName),
    Consume(&'a TopicName, Option<&'a GroupName>),
    Commit(&'a TopicName, &'a GroupName),
}

impl<'a> Has<'a> {
    fn of(asked: &'a Asked) -> Self {
        match asked {
            Asked::V1_0(Request::Produce { topic, .. }) => Self::Produce(topic),
            Asked::V1_0(Request::Consume { topic, group, .. }) => Self::Consume(topic, Some(group)),
            Asked::V1_0(Request::Commit { topic, group, .. }) => Self::Commit(topic, group),
            Asked::V1_1(handshake) => {
                let topic = &handshake.topic;
                match &handshake.role {
                    Role::Produce { .. } => Self::Produce(topic),
                    Role::Consume { group, .. } => Self::Consume(topic, group.as_ref()),
                    Role::Commit { group } => Self::Commit(topic, group),
                }
            }
        }
    }

    /// Whoever commits for a topic must be one who may read it: the answer says where its log ends.
    fn allowed(&self, table: &Table, principal: &Principal) -> Result<(), String> {
        let may = |operation, resource| table.allow(principal, operation, resource);
        match *self {
            Self::Produce(topic) => may(Operation::Produce, Resource::Topic(topic)),
            Self::Consume(topic, group) => {
                may(Operation::Consume, Resource::Topic(topic))?;
                group.map_or(Ok(()), |group| may(Operation::Consume, Resource::Group(group)))
            }
            Self::Commit(topic, group) => {
                may(Operation::Commit, Resource::Group(group))?;
                may(Operation::Consume, Resource::Topic(topic))
            }
        }
    }

    /// What a consumer is told that commits and may not.
    fn commit(&self, table: &Table, principal: &Principal) -> Option<Box<Refusal>> {
        let Self::Consume(_, Some(group)) = *self else { return None };
        let allowed = table.allow(principal, Operation::Commit, Resource::Group(group));
        allowed.err().map(|reason| Box::new(status::of_unauthorized(&reason)))
    }
}
