//! TLS: certificates and keys from files, checked, and the configurations of rustls that are made of them.
//!
//! * [`pem`]: files into certificates and keys; the SDK uses it, too;
//! * [`Options`]: what an operator can set;
//! * [`Tls`]: the configuration that new connections get, exchanged while the broker runs; [`Expiry`]: how long it holds;
//! * [`LoadError`]: what is wrong with a file, in one line;
//! * [`principal`]: whom a certificate names.
//!
//! No sockets: `net` and `admin` do the handshakes.

#[cfg(feature = "server")]
mod certificate;
#[cfg(feature = "server")]
mod holder;
#[cfg(feature = "server")]
mod load;
#[cfg(feature = "server")]
mod options;
pub mod pem;
#[cfg(feature = "server")]
#[cfg(test)]
mod tests;

#[cfg(feature = "server")]
#[cfg(test)]
#[path = "../../tests/support/certificates.rs"]
pub(crate) mod certificates;

#[cfg(feature = "server")]
pub use certificate::principal;
#[cfg(feature = "server")]
pub use holder::{Expiry, Renewed, Tls};
#[cfg(feature = "server")]
pub use load::LoadError;
#[cfg(feature = "server")]
pub use options::{ClientAuth, Mode, Options};

/// Whom the certificate of an administrative request's connection names: in the request's extensions.
#[cfg(feature = "server")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerCertificate(pub std::sync::Arc<str>);
