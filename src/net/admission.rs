//! How many connections there are, in all and from each address, and whether one more is let in.
//!
//! One that is too many is kept until it can be told so, which version 1.1 can and which takes its handshake. Only a few
//! are: the others are closed at once.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use parking_lot::Mutex;

use super::options::SecurityOptions;
use crate::model::limits::REFUSED_CONNECTIONS_MAX;

/// Of an IPv6 address, the bits that name a network: a host takes any address in it.
const NETWORK: u128 = !0 << 64;

/// A connection is one too many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum TooManyConnections {
    /// Of all.
    #[error("the broker has {max} connections and takes no more (security.max_connections)")]
    InAll {
        /// The limit.
        max: u32,
    },
    /// Of those from its address.
    #[error(
        "there are {max} connections from this address, and no more are taken (security.max_connections_per_address)"
    )]
    OfAddress {
        /// The limit.
        max: u32,
    },
}

/// The count. Its lock is taken when a connection comes and when it goes.
#[derive(Debug)]
pub(super) struct Admission {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    max: Option<u32>,
    max_per_address: Option<u32>,
    all: u32,
    refused: u32,
    by_address: HashMap<IpAddr, u32>,
}

/// A place among the connections; given back when dropped.
#[derive(Debug)]
pub(super) struct Seat {
    admission: Arc<Admission>,
    /// `None` if it is one of those that are only told that they are too many.
    address: Option<IpAddr>,
}

/// What becomes of a connection.
#[derive(Debug)]
pub(super) enum Entry {
    /// It is let in.
    Admitted(Seat),
    /// It is kept until it can be told why not.
    Refused(Seat, TooManyConnections),
    /// It is closed at once.
    TurnedAway(TooManyConnections),
}

impl Admission {
    pub(super) fn new(options: &SecurityOptions) -> Arc<Self> {
        let admission = Self { state: Mutex::default() };
        admission.set(options);
        Arc::new(admission)
    }

    /// Takes over other limits. Connections that are there stay, however many.
    pub(super) fn set(&self, options: &SecurityOptions) {
        let limit = |max: u32| (max > 0).then_some(max);
        let mut state = self.state.lock();
        state.max = limit(options.max_connections);
        state.max_per_address = limit(options.max_connections_per_address);
    }

    /// Asks for a connection from an address to be let in.
    pub(super) fn enter(self: &Arc<Self>, from: IpAddr) -> Entry {
        let address = counted(from);
        let mut state = self.state.lock();
        let seat = |address| Seat { admission: Arc::clone(self), address };
        match state.judge(address) {
            Ok(()) => {
                state.all += 1;
                *state.by_address.entry(address).or_default() += 1;
                Entry::Admitted(seat(Some(address)))
            }
            Err(error) if state.refused < REFUSED_CONNECTIONS_MAX => {
                state.refused += 1;
                Entry::Refused(seat(None), error)
            }
            Err(error) => Entry::TurnedAway(error),
        }
    }
}

impl State {
    fn judge(&self, address: IpAddr) -> Result<(), TooManyConnections> {
        if let Some(max) = self.max.filter(|max| self.all >= *max) {
            return Err(TooManyConnections::InAll { max });
        }
        let here = self.by_address.get(&address).copied().unwrap_or(0);
        match self.max_per_address.filter(|max| here >= *max) {
            Some(max) => Err(TooManyConnections::OfAddress { max }),
            None => Ok(()),
        }
    }
}

/// What stands for an address in the count.
fn counted(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & NETWORK).into(),
        address @ IpAddr::V4(_) => address,
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut state = self.admission.state.lock();
        let Some(address) = self.address else {
            state.refused -= 1;
            return;
        };
        state.all -= 1;
        if let Some(here) = state.by_address.get_mut(&address) {
            *here -= 1;
            if *here == 0 {
                state.by_address.remove(&address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admission(max: u32, per_address: u32) -> Arc<Admission> {
        Admission::new(&SecurityOptions {
            max_connections: max,
            max_connections_per_address: per_address,
            ..SecurityOptions::default()
        })
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn seat(entry: Entry) -> Seat {
        match entry {
            Entry::Admitted(seat) => seat,
            other => panic!("not admitted: {other:?}"),
        }
    }

    fn refused(entry: &Entry) -> TooManyConnections {
        match entry {
            Entry::Refused(_, error) | Entry::TurnedAway(error) => *error,
            Entry::Admitted(_) => panic!("admitted"),
        }
    }

    #[test]
    fn a_seat_that_is_given_back_is_free_again() {
        let admission = admission(2, 0);
        let first = seat(admission.enter(ip("10.0.0.1")));
        let _second = seat(admission.enter(ip("10.0.0.1")));
        let one_more = admission.enter(ip("10.0.0.2"));
        assert_eq!(refused(&one_more), TooManyConnections::InAll { max: 2 });
        // Those who are only told take no seat.
        drop(first);
        let _third = seat(admission.enter(ip("10.0.0.2")));
        drop(one_more);
        assert_eq!(admission.state.lock().refused, 0);
    }

    #[test]
    fn an_address_has_its_own_limit_and_a_network_of_ipv6_is_one() {
        let admission = admission(0, 1);
        let v4 = seat(admission.enter(ip("10.0.0.1")));
        let _v6 = seat(admission.enter(ip("2001:db8::1")));
        let too_many = TooManyConnections::OfAddress { max: 1 };
        for same in ["10.0.0.1", "::ffff:10.0.0.1", "2001:db8::ffff:1:2"] {
            assert_eq!(refused(&admission.enter(ip(same))), too_many, "{same}");
        }
        let _other = seat(admission.enter(ip("2001:db8:0:1::1")));
        drop(v4);
        let _again = seat(admission.enter(ip("::ffff:10.0.0.1")));
        assert_eq!(admission.state.lock().by_address.len(), 3);
    }

    #[test]
    fn only_a_few_are_kept_to_be_told_and_other_limits_hold_at_once() {
        let admission = admission(1, 0);
        let _only = seat(admission.enter(ip("10.0.0.1")));
        let kept: Vec<_> =
            (0..REFUSED_CONNECTIONS_MAX).map(|_| admission.enter(ip("10.0.0.2"))).collect();
        assert!(kept.iter().all(|entry| matches!(entry, Entry::Refused(..))));
        assert!(matches!(admission.enter(ip("10.0.0.2")), Entry::TurnedAway(_)));
        drop(kept);
        assert!(matches!(admission.enter(ip("10.0.0.2")), Entry::Refused(..)));
        admission.set(&SecurityOptions { max_connections: 0, ..SecurityOptions::default() });
        let _second = seat(admission.enter(ip("10.0.0.1")));
        assert_eq!(admission.state.lock().all, 2);
    }
}
