//! Files into a configuration that connections can be accepted with, or one line that says why not.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{VerifierBuilderError, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};

use super::certificate::Certificate;
use super::options::{ClientAuth, Options};
use super::pem::{self, PemError};

/// A setting, or the file that it names, cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{key}: {}{reason}; {fix}", path.as_ref().map(|path| format!("{}: ", path.display())).unwrap_or_default())]
pub struct LoadError {
    /// The setting's key.
    pub key: &'static str,
    /// The file, if there is one.
    pub path: Option<PathBuf>,
    /// What is wrong with it.
    pub reason: String,
    /// What to do.
    pub fix: &'static str,
}

const CERT: &str = "tls.cert_file";
const KEY: &str = "tls.key_file";
const CLIENT_CA: &str = "tls.client_ca_file";

const FIX_CERT: &str =
    "it must hold the broker's certificate in PEM, followed by those between it and its CA";
const FIX_KEY: &str = "it must hold the unencrypted PEM key of the certificate in tls.cert_file";
const FIX_CA: &str = "it must hold the PEM certificates of the CAs that sign those of clients";
const FIX_EXPIRED: &str = "renew it, and check this machine's clock";

/// What was loaded.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) config: Arc<ServerConfig>,
    pub(super) validity: Validity,
}

/// Until when a certificate holds, and those between it and its CA; from the Unix epoch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Validity {
    /// From when on it should be renewed.
    pub(super) renewal: Duration,
    /// When it ends to hold.
    pub(super) end: Duration,
}

/// So long before its end a certificate should be renewed; or with a quarter of its time left, if that is less. What renews those that
/// hold for days does so by then: most with a third left.
const RENEWAL_MAX: Duration = Duration::from_hours(7 * 24);

impl Validity {
    fn of(from: Duration, end: Duration) -> Self {
        let left = RENEWAL_MAX.min(end.saturating_sub(from) / 4);
        Self { renewal: end.saturating_sub(left), end }
    }

    /// What ends with whichever ends first.
    fn and(self, other: Self) -> Self {
        Self { renewal: self.renewal.min(other.renewal), end: self.end.min(other.end) }
    }
}

/// Reads and checks the files.
pub(super) fn load(options: &Options) -> Result<Loaded, LoadError> {
    let cert_file = set(CERT, options.cert_file.as_deref(), FIX_CERT)?;
    let key_file = set(KEY, options.key_file.as_deref(), FIX_KEY)?;
    let chain = pem::certificates(cert_file).map_err(|error| of_pem(CERT, error, FIX_CERT))?;
    let validity = check_validity(cert_file, &chain)?;
    let key = pem::private_key(key_file).map_err(|error| of_pem(KEY, error, FIX_KEY))?;
    let provider = Arc::new(ring::default_provider());
    let verifier = verifier(options, &provider)?;
    let at = |key, path: &Path, error: &rustls::Error, fix| LoadError {
        key,
        path: Some(path.to_owned()),
        reason: error.to_string(),
        fix,
    };
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| at(CERT, cert_file, &error, FIX_CERT))?;
    let signer = provider
        .key_provider
        .load_private_key(key)
        .map_err(|error| at(KEY, key_file, &error, FIX_KEY))?;
    let certified = rustls::sign::CertifiedKey::new(chain, signer);
    match certified.keys_match() {
        // The key of a kind that does not tell its public half is compared by the first handshake.
        Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => {}
        Err(rustls::Error::InconsistentKeys(_)) => {
            return Err(LoadError {
                key: KEY,
                path: Some(key_file.to_owned()),
                reason: format!("is not the key of the certificate in {}", cert_file.display()),
                fix: FIX_KEY,
            });
        }
        Err(error) => return Err(at(CERT, cert_file, &error, FIX_CERT)),
    }
    let resolver = Arc::new(rustls::sign::SingleCertAndKey::from(certified));
    let config = builder.with_client_cert_verifier(verifier).with_cert_resolver(resolver);
    Ok(Loaded { config: Arc::new(config), validity })
}

fn set<'a>(
    key: &'static str,
    path: Option<&'a Path>,
    fix: &'static str,
) -> Result<&'a Path, LoadError> {
    let missing = || LoadError { key, path: None, reason: "is not set".to_owned(), fix };
    path.ok_or_else(missing)
}

fn of_pem(key: &'static str, error: PemError, fix: &'static str) -> LoadError {
    LoadError { key, path: Some(error.path), reason: error.problem.to_string(), fix }
}

/// Who may connect, by their certificates.
fn verifier(
    options: &Options,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, LoadError> {
    if !options.client_auth.is_on() {
        return Ok(WebPkiClientVerifier::no_client_auth());
    }
    let path = set(CLIENT_CA, options.client_ca_file.as_deref(), FIX_CA)?;
    let wrong = |reason: String| LoadError {
        key: CLIENT_CA,
        path: Some(path.to_owned()),
        reason,
        fix: FIX_CA,
    };
    let mut roots = RootCertStore::empty();
    for root in pem::certificates(path).map_err(|error| of_pem(CLIENT_CA, error, FIX_CA))? {
        roots.add(root).map_err(|error| wrong(error.to_string()))?;
    }
    let none: [CertificateRevocationListDer<'static>; 0] = [];
    let builder =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
            .with_crls(none);
    let builder = match options.client_auth {
        ClientAuth::Required => builder,
        ClientAuth::Off | ClientAuth::Optional => builder.allow_unauthenticated(),
    };
    builder.build().map_err(|error: VerifierBuilderError| wrong(error.to_string()))
}

/// Checks that every certificate of the chain holds now; returns until when all of them do.
fn check_validity(path: &Path, chain: &[CertificateDer<'_>]) -> Result<Validity, LoadError> {
    let wrong =
        |reason: String, fix| LoadError { key: CERT, path: Some(path.to_owned()), reason, fix };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut validity = Validity { renewal: Duration::MAX, end: Duration::MAX };
    for der in chain {
        let certificate = Certificate::parse(der)
            .map_err(|error| wrong(format!("holds what is no certificate: {error}"), FIX_CERT))?;
        let (from, until) = certificate.validity();
        if now < from {
            let ahead = from.saturating_sub(now).as_secs();
            return Err(wrong(
                format!("the certificate is not valid yet, for {ahead} s"),
                FIX_EXPIRED,
            ));
        }
        if now > until {
            let ago = now.saturating_sub(until).as_secs();
            return Err(wrong(format!("the certificate has expired, {ago} s ago"), FIX_EXPIRED));
        }
        validity = validity.and(Validity::of(from, until));
    }
    Ok(validity)
}
