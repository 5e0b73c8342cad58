//! Tokens: random secrets that begin with the name of their entry, and how they are kept.
//!
//! A token is `hmq_`, twelve hexadecimal digits that name its entry, `_`, and 192 random bits in base64url. At rest it is a PHC
//! string of Argon2id over the whole token, in which `keyid` is that name: `$argon2id$v=19$m=1024,t=1,p=1,keyid=…$salt$hash`.
//! A token with a name that nobody has costs no hashing.
//!
//! Nobody guesses 192 random bits, however fast the hash. Argon2id is there for whoever chose a token by hand, and so its
//! parameters may be small: what they cost is also what each wrong token costs.

use std::fmt;
use std::sync::OnceLock;

use argon2::{Algorithm, Argon2, Params, Version};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use blake2::Blake2bMac512;
use blake2::digest::{KeyInit as _, Mac as _};
use subtle::ConstantTimeEq as _;

use super::principal::Principal;

/// Begins every token, so that whoever looks for lost secrets finds it.
const PREFIX: &str = "hmq_";

const ID_BYTES: usize = 6;
const SECRET_BYTES: usize = 24;
const SALT_BYTES: usize = 16;

/// Bytes of a hash.
const HASH_BYTES: usize = 32;

/// Parameters of new hashes: memory in KiB, passes, lanes.
const NEW: Cost = Cost { memory_kib: 1024, passes: 1, lanes: 1 };

/// The most that a hash may cost: it is paid for wrong tokens, too.
const MOST: Cost = Cost { memory_kib: 64 * 1024, passes: 10, lanes: 4 };

/// Names the entry of a token. No secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct TokenId([u8; ID_BYTES]);

impl TokenId {
    /// That of a token; `None` if it cannot be one.
    pub(super) fn of(token: &[u8]) -> Option<Self> {
        let rest = token.strip_prefix(PREFIX.as_bytes())?;
        let digits = rest.get(..2 * ID_BYTES).filter(|_| rest.get(2 * ID_BYTES) == Some(&b'_'))?;
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        let mut id = [0; ID_BYTES];
        for (byte, pair) in id.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Some(Self(id))
    }
}

impl fmt::Display for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// What a hash costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cost {
    memory_kib: u32,
    passes: u32,
    lanes: u32,
}

/// A token at rest.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct TokenHash {
    id: TokenId,
    cost: Cost,
    salt: Box<[u8]>,
    hash: [u8; HASH_BYTES],
}

/// The text is no hash of a token. Does not say what it is: it may be the token itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum InvalidHash {
    /// Not the form.
    #[error("must be a hash as `hermitmq token generate` prints it ($argon2id$…)")]
    Form,
    /// It is a token.
    #[error("is a token: only its hash belongs here, as `hermitmq token generate` prints it")]
    IsToken,
    /// Each wrong token would cost too much, or the parameters are none.
    #[error("has parameters that are not allowed: at most m=65536, t=10, p=4")]
    Cost,
}

impl TokenHash {
    pub(super) fn parse(text: &str) -> Result<Self, InvalidHash> {
        if text.starts_with(PREFIX) {
            return Err(InvalidHash::IsToken);
        }
        let mut parts = text.strip_prefix("$argon2id$v=19$").ok_or(InvalidHash::Form)?.split('$');
        let (Some(params), Some(salt), Some(hash), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(InvalidHash::Form);
        };
        let mut id = None;
        let mut numbers = [None; 3];
        for param in params.split(',') {
            let (name, value) = param.split_once('=').ok_or(InvalidHash::Form)?;
            let number = || value.parse::<u32>().map_err(|_| InvalidHash::Form);
            match name {
                "m" => numbers[0] = Some(number()?),
                "t" => numbers[1] = Some(number()?),
                "p" => numbers[2] = Some(number()?),
                "keyid" => id = Some(TokenId(bytes_of(value)?)),
                _ => return Err(InvalidHash::Form),
            }
        }
        let (Some(id), [Some(memory_kib), Some(passes), Some(lanes)]) = (id, numbers) else {
            return Err(InvalidHash::Form);
        };
        let cost = Cost { memory_kib, passes, lanes };
        let salt = STANDARD_NO_PAD.decode(salt).map_err(|_| InvalidHash::Form)?;
        if !(8..=64).contains(&salt.len()) {
            return Err(InvalidHash::Form);
        }
        let hash = bytes_of(hash)?;
        let bounded = memory_kib <= MOST.memory_kib && passes <= MOST.passes && lanes <= MOST.lanes;
        if !bounded || cost.params().is_none() {
            return Err(InvalidHash::Cost);
        }
        Ok(Self { id, cost, salt: salt.into(), hash })
    }

    pub(super) fn id(&self) -> TokenId {
        self.id
    }

    /// Hashes a token and compares. Takes about a millisecond: not for a reactor.
    fn is_of(&self, token: &[u8]) -> bool {
        hash(token, &self.salt, self.cost).is_some_and(|found| same(&found, &self.hash))
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TokenHash({})", self.id)
    }
}

impl fmt::Display for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cost { memory_kib, passes, lanes } = self.cost;
        let [id, salt, hash] = [&self.id.0[..], &self.salt, &self.hash].map(encode);
        write!(f, "$argon2id$v=19$m={memory_kib},t={passes},p={lanes},keyid={id}${salt}${hash}")
    }
}

impl Cost {
    fn params(self) -> Option<Params> {
        Params::new(self.memory_kib, self.passes, self.lanes, Some(HASH_BYTES)).ok()
    }
}

fn encode(bytes: &[u8]) -> String {
    STANDARD_NO_PAD.encode(bytes)
}

fn bytes_of<const N: usize>(text: &str) -> Result<[u8; N], InvalidHash> {
    let bytes = STANDARD_NO_PAD.decode(text).map_err(|_| InvalidHash::Form)?;
    bytes.try_into().map_err(|_| InvalidHash::Form)
}

fn hash(token: &[u8], salt: &[u8], cost: Cost) -> Option<[u8; HASH_BYTES]> {
    let mut found = [0; HASH_BYTES];
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, cost.params()?);
    argon2.hash_password_into(token, salt, &mut found).ok()?;
    Some(found)
}

/// Whether two secrets of one length are the same, in a time that does not depend on where they differ. Every comparison of
/// something that comes from a token goes through here.
pub(super) fn same<const N: usize>(a: &[u8; N], b: &[u8; N]) -> bool {
    a.ct_eq(b).into()
}

/// A token that is known, and whether it was shown already.
#[derive(Debug)]
pub(super) struct TokenEntry {
    pub(super) principal: Principal,
    pub(super) hash: TokenHash,
    /// Keyed hash of the token that was found to be the right one. From then on others are known to be wrong at the same price.
    verified: OnceLock<Fingerprint>,
}

impl TokenEntry {
    pub(super) fn new(principal: Principal, hash: TokenHash) -> Self {
        Self { principal, hash, verified: OnceLock::new() }
    }

    /// Whether another entry says the same.
    pub(super) fn is_as(&self, other: &Self) -> bool {
        self.hash == other.hash && self.principal == other.principal
    }

    /// Whether it is this token, if that can be said without hashing it with Argon2.
    pub(super) fn is_now(&self, token: &[u8], key: &FingerprintKey) -> Option<bool> {
        let verified = self.verified.get()?;
        Some(key.fingerprint(token).is_some_and(|found| same(&found.0, &verified.0)))
    }

    /// Whether it is this token. Not for a reactor.
    pub(super) fn is(&self, token: &[u8], key: &FingerprintKey) -> bool {
        if let Some(known) = self.is_now(token, key) {
            return known;
        }
        let right = self.hash.is_of(token);
        if right && let Some(fingerprint) = key.fingerprint(token) {
            // Another thread may have been as fast, with the same.
            let _ = self.verified.set(fingerprint);
        }
        right
    }
}

/// A keyed hash of a token: of no use to whoever reads it, without the key.
#[derive(Clone, Copy)]
struct Fingerprint([u8; 64]);

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fingerprint(…)")
    }
}

/// The key of fingerprints, another one in each process.
pub(super) struct FingerprintKey([u8; 64]);

impl FingerprintKey {
    /// Without random bytes there is no key, and every token is hashed each time.
    fn fingerprint(&self, token: &[u8]) -> Option<Fingerprint> {
        let mut mac = Blake2bMac512::new_from_slice(&self.0).ok()?;
        mac.update(token);
        Some(Fingerprint(mac.finalize().into_bytes().into()))
    }

    pub(super) fn random() -> Result<Self, getrandom::Error> {
        let mut key = [0; 64];
        getrandom::fill(&mut key)?;
        Ok(Self(key))
    }
}

impl fmt::Debug for FingerprintKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FingerprintKey(…)")
    }
}

/// A token that was made just now: shown once, and kept nowhere.
pub struct NewToken {
    /// What the client is given.
    pub token: String,
    /// What the broker is given.
    pub hash: String,
}

/// Makes a token of the operating system's random bytes.
pub fn generate() -> std::io::Result<NewToken> {
    let (mut id, mut secret, mut salt) = ([0; ID_BYTES], [0; SECRET_BYTES], [0; SALT_BYTES]);
    for bytes in [&mut id[..], &mut secret[..], &mut salt[..]] {
        getrandom::fill(bytes).map_err(std::io::Error::other)?;
    }
    let id = TokenId(id);
    let token = format!("{PREFIX}{id}_{}", URL_SAFE_NO_PAD.encode(secret));
    let hash = hash(token.as_bytes(), &salt, NEW)
        .ok_or_else(|| std::io::Error::other("the token could not be hashed"))?;
    let hash = TokenHash { id, cost: NEW, salt: salt.into(), hash };
    Ok(NewToken { token, hash: hash.to_string() })
}
