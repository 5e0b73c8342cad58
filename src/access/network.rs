//! Networks: an address and how many of its first bits count (CIDR).

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A network, or a single address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Network {
    /// All bits behind the prefix are 0.
    address: IpAddr,
    prefix: u8,
}

/// The text is no network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum InvalidNetwork {
    /// Neither an address nor a network.
    #[error("must be an address or a network such as 10.1.0.0/16 or fd00::/8, not {0:?}")]
    Form(String),
    /// Bits are set that do not count: one of both numbers is wrong.
    #[error("has bits set behind the prefix; did you mean {0}?")]
    HostBits(Network),
}

impl FromStr for Network {
    type Err = InvalidNetwork;

    fn from_str(text: &str) -> Result<Self, InvalidNetwork> {
        let form = || InvalidNetwork::Form(text.to_owned());
        let (address, prefix) = match text.split_once('/') {
            None => (text, None),
            Some((address, prefix)) => (address, Some(prefix)),
        };
        let address: IpAddr = address.parse().map_err(|_| form())?;
        let bits = bits_of(address);
        let prefix = match prefix {
            None => bits,
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                digits.parse().ok().filter(|prefix| *prefix <= bits).ok_or_else(form)?
            }
            Some(_) => return Err(form()),
        };
        let network = Self { address: masked(address, prefix), prefix };
        if network.address != address {
            return Err(InvalidNetwork::HostBits(network));
        }
        Ok(network.unmapped())
    }
}

impl Network {
    /// How many bits count: the more, the narrower.
    pub(super) fn prefix(self) -> u8 {
        self.prefix
    }

    /// Whether the address is in it. An IPv4 address in the form of IPv6, as a socket that listens on both gives it, is the
    /// IPv4 address.
    pub(super) fn contains(self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_ipv4() == self.address.is_ipv4() && masked(address, self.prefix) == self.address
    }

    /// `::ffff:10.0.0.0/104` is 10.0.0.0/8.
    fn unmapped(self) -> Self {
        const MAPPED_BITS: u8 = 96;
        match (self.address.to_canonical(), self.address, self.prefix.checked_sub(MAPPED_BITS)) {
            (address @ IpAddr::V4(_), IpAddr::V6(_), Some(prefix)) => Self { address, prefix },
            _ => self,
        }
    }
}

fn bits_of(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// The address with only its first bits.
fn masked(address: IpAddr, prefix: u8) -> IpAddr {
    let prefix = u32::from(prefix);
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32_u32.saturating_sub(prefix)).unwrap_or(0);
            Ipv4Addr::from_bits(address.to_bits() & mask).into()
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128_u32.saturating_sub(prefix)).unwrap_or(0);
            Ipv6Addr::from_bits(address.to_bits() & mask).into()
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}
