//! Bytes of each message as documented, what is refused, and round trips over streams that are cut anywhere.

mod answers;
mod consumer;
mod faults;
mod handshake;

use std::num::NonZeroU32;

use proptest::prelude::*;

use super::*;
use crate::model::limits::TOKEN_BYTES_MAX;
use crate::model::{GroupName, TopicName};
use crate::protocol::Status;

/// Tags and values.
type Fields<'a> = &'a [(u8, &'a [u8])];

/// Any handshake that can be written.
fn handshakes() -> impl Strategy<Value = Handshake> {
    let topic = "[A-Za-z0-9_-]{1,249}".prop_map(|name| TopicName::parse(name).unwrap());
    let token = prop::option::of(prop::collection::vec(any::<u8>(), 0..=TOKEN_BYTES_MAX));
    let token = token.prop_map(|bytes| bytes.map(|bytes| Token::new(bytes).unwrap()));
    (roles(), topic, any::<u32>(), token, clients()).prop_map(
        |(role, topic, partition, token, client)| Handshake {
            role,
            topic,
            partition,
            token,
            client,
        },
    )
}

fn groups() -> impl Strategy<Value = GroupName> {
    "[A-Za-z0-9_-]{1,249}".prop_map(|name| GroupName::parse(name).unwrap())
}

fn roles() -> impl Strategy<Value = Role> {
    let heartbeat = any::<u32>().prop_map(NonZeroU32::new);
    let consume = (prop::option::of(groups()), starts(), heartbeat, any::<bool>()).prop_map(
        |(group, start, heartbeat_ms, until_end)| Role::Consume {
            group,
            start,
            heartbeat_ms,
            until_end,
        },
    );
    prop_oneof![
        Just(Role::Produce { durability: Durability::Topic }),
        Just(Role::Produce { durability: Durability::Flushed }),
        consume,
        groups().prop_map(|group| Role::Commit { group }),
    ]
}

fn starts() -> impl Strategy<Value = Start> {
    prop_oneof![
        Just(Start::Committed(Fallback::Earliest)),
        Just(Start::Committed(Fallback::Latest)),
        Just(Start::Earliest),
        Just(Start::Latest),
        any::<u64>().prop_map(Start::Offset),
        any::<u64>().prop_map(Start::Timestamp),
    ]
}

fn clients() -> impl Strategy<Value = Client> {
    let traceparent = (1u128.., 1u64.., any::<u8>()).prop_map(|(trace, parent, flags)| {
        TraceParent { trace_id: trace.to_ne_bytes(), parent_id: parent.to_ne_bytes(), flags }
    });
    (prop::option::of(".{0,40}"), prop::option::of(".{0,40}"), prop::option::of(traceparent))
        .prop_map(|(name, software, traceparent)| Client { name, software, traceparent })
}

/// A handshake as bytes, from its role and fields, well-formed or not.
fn bytes_of(role: u8, fields: Fields<'_>) -> Vec<u8> {
    let length = |len: usize| u16::try_from(len).unwrap();
    let fields: Vec<u8> = fields
        .iter()
        .flat_map(|(tag, value)| {
            [&[*tag], &crate::record::wire::u16_bytes(length(value.len()))[..], value].concat()
        })
        .collect();
    let len = crate::record::wire::u16_bytes(length(fields.len()));
    [&[role], &len[..], &fields].concat()
}

/// The handshake of role and fields, which must be one.
fn read(role: u8, fields: Fields<'_>) -> Handshake {
    let bytes = bytes_of(role, fields);
    match Handshake::parse(&bytes) {
        Ok(Parsed::Complete(handshake, used)) if used == bytes.len() => handshake,
        other => panic!("{other:?}"),
    }
}

/// Why role and fields are refused.
fn refused(role: u8, fields: Fields<'_>) -> HandshakeError {
    Handshake::parse(&bytes_of(role, fields)).unwrap_err()
}
