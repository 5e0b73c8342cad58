//! TLS of the SDK: whom to trust, and as whom to connect.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    AlertDescription, CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore,
    SignatureScheme,
};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::tls::pem::{self, PemError};

/// How to connect with TLS. The files are read for each connection, so that renewed ones are used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsOptions {
    /// Whose certificates are accepted. What the operating system trusts means nothing here.
    pub trust: Trust,
    /// The certificate to connect with, where the broker asks for one.
    pub identity: Option<Identity>,
    /// The name that the broker's certificate must have, if it is not the host of the address.
    pub server_name: Option<String>,
}

/// Which certificate of a broker is accepted.
#[derive(Clone, PartialEq, Eq)]
pub enum Trust {
    /// Those signed by a CA of this PEM file, for the right name.
    CaFile(PathBuf),
    /// Those signed by a CA of this PEM text, for the right name.
    CaPem(Vec<u8>),
    /// The first one of this PEM file and no other, whoever signed it and whatever its name is.
    Exactly(PathBuf),
}

/// A client's certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The certificate and those between it and its CA, PEM.
    pub cert_file: PathBuf,
    /// Its key, PEM, not encrypted.
    pub key_file: PathBuf,
}

/// Why there is no TLS connection. Nothing but the handshake was sent.
#[derive(Debug, thiserror::Error)]
pub enum TlsProblem {
    /// A file cannot be used.
    #[error(transparent)]
    File(#[from] PemError),
    /// The text holds no CA.
    #[error("the PEM text of the CA holds no certificate")]
    NoCa,
    /// The certificate and the key do not belong together, or the CA is none.
    #[error("the certificate, its key or the CA cannot be used: {0}")]
    Setup(Error),
    /// The name cannot be that of a certificate.
    #[error("{0:?} cannot be the name of a certificate; give the right one as `server_name`")]
    ServerName(String),
    /// It is signed by somebody else, or is not the one that is expected.
    #[error("its certificate is not signed by a CA that is trusted; check `trust`")]
    UnknownAuthority,
    /// It is that of another name.
    #[error(
        "its certificate is not for {0}; connect by a name that it has, or say which it is in `server_name`"
    )]
    WrongName(String),
    /// It has expired, or is not valid yet, by this machine's clock.
    #[error("its certificate has expired, or is not valid yet; is this machine's clock right?")]
    Expired,
    /// The broker asks for a certificate, and none was sent.
    #[error("it asks for a certificate of the client: `identity`")]
    CertificateRequired,
    /// The broker does not accept the client's certificate.
    #[error("it does not accept the certificate of this client: {0:?}")]
    Rejected(AlertDescription),
    /// What answers does not speak TLS, or nothing does.
    #[error(
        "it does not speak TLS; is that the right port, and is tls.mode of the broker not off?"
    )]
    NotTls,
    /// Something else.
    #[error("the TLS handshake failed: {0}")]
    Other(Error),
}

impl TlsOptions {
    /// Accepts certificates that are signed by a CA of this PEM file, and shows none.
    pub fn with_ca(file: impl Into<PathBuf>) -> Self {
        Self { trust: Trust::CaFile(file.into()), identity: None, server_name: None }
    }

    fn config(&self) -> Result<ClientConfig, TlsProblem> {
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(TlsProblem::Setup)?;
        let builder =
            builder.dangerous().with_custom_certificate_verifier(self.trust.verifier(&provider)?);
        let Some(Identity { cert_file, key_file }) = &self.identity else {
            return Ok(builder.with_no_client_auth());
        };
        let (chain, key) = (pem::certificates(cert_file)?, pem::private_key(key_file)?);
        builder.with_client_auth_cert(chain, key).map_err(TlsProblem::Setup)
    }

    /// The name for an address `HOST:PORT`.
    fn name(&self, addr: &str) -> Result<ServerName<'static>, TlsProblem> {
        let host = addr.rsplit_once(':').map_or(addr, |(host, _)| host);
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let name = self.server_name.as_deref().unwrap_or(host);
        ServerName::try_from(name.to_owned()).map_err(|_| TlsProblem::ServerName(name.to_owned()))
    }

    /// A session with the broker at `addr`, its handshake not begun.
    pub(super) fn session(&self, addr: &str) -> Result<rustls::ClientConnection, TlsProblem> {
        let config = Arc::new(self.config()?);
        rustls::ClientConnection::new(config, self.name(addr)?).map_err(TlsProblem::Setup)
    }

    /// Does the handshake on a socket that is connected to `addr`.
    pub(super) async fn secure(
        &self,
        socket: TcpStream,
        addr: &str,
    ) -> Result<TlsStream<TcpStream>, Unsecured> {
        let (config, name) = (Arc::new(self.config()?), self.name(addr)?);
        let shown = name.to_str().into_owned();
        let connected = TlsConnector::from(config).connect(name, socket).await;
        connected.map_err(|error| match problem_of(&error) {
            Some(TlsProblem::WrongName(_)) => TlsProblem::WrongName(shown).into(),
            Some(problem) => problem.into(),
            // Nobody closes without an alert who understood the first message.
            None if is_close(&error) => TlsProblem::NotTls.into(),
            None => Unsecured::Io(error),
        })
    }
}

/// What a handshake may end with.
#[derive(Debug)]
pub(super) enum Unsecured {
    Problem(TlsProblem),
    Io(io::Error),
}

impl From<TlsProblem> for Unsecured {
    fn from(problem: TlsProblem) -> Self {
        Self::Problem(problem)
    }
}

fn is_close(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
}

/// What TLS has to do with an error of a socket that speaks it; `None` if nothing. A broker that does not accept a client's
/// certificate says so behind the handshake.
pub(super) fn problem_of(error: &io::Error) -> Option<TlsProblem> {
    let error = error.get_ref()?.downcast_ref::<Error>()?;
    Some(match error {
        Error::InvalidCertificate(reason) => of_certificate(reason, error),
        Error::AlertReceived(AlertDescription::CertificateRequired) => {
            TlsProblem::CertificateRequired
        }
        Error::AlertReceived(
            alert @ (AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::CertificateRevoked
            | AlertDescription::DecryptError
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::AccessDenied),
        ) => TlsProblem::Rejected(*alert),
        Error::InvalidMessage(_) => TlsProblem::NotTls,
        other => TlsProblem::Other(other.clone()),
    })
}

fn of_certificate(reason: &CertificateError, error: &Error) -> TlsProblem {
    use CertificateError as Reason;
    match reason {
        Reason::UnknownIssuer | Reason::ApplicationVerificationFailure | Reason::BadSignature => {
            TlsProblem::UnknownAuthority
        }
        Reason::NotValidForName | Reason::NotValidForNameContext { .. } => {
            TlsProblem::WrongName(String::new())
        }
        Reason::Expired
        | Reason::ExpiredContext { .. }
        | Reason::NotValidYet
        | Reason::NotValidYetContext { .. } => TlsProblem::Expired,
        _ => TlsProblem::Other(error.clone()),
    }
}

impl Trust {
    fn verifier(
        &self,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Arc<dyn ServerCertVerifier>, TlsProblem> {
        let roots = match self {
            Self::CaFile(file) => pem::certificates(file)?,
            Self::CaPem(text) => {
                let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
                found.map_err(|_| TlsProblem::NoCa)?
            }
            Self::Exactly(file) => {
                let expected = pem::certificates(file)?.swap_remove(0);
                return Ok(Arc::new(Pinned { expected, provider: Arc::clone(provider) }));
            }
        };
        let mut store = RootCertStore::empty();
        for root in roots {
            store.add(root).map_err(TlsProblem::Setup)?;
        }
        let verifier =
            WebPkiServerVerifier::builder_with_provider(Arc::new(store), Arc::clone(provider))
                .build();
        Ok(verifier.map_err(|_| TlsProblem::NoCa)?)
    }
}

/// What is secret is not in it, but long.
impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CaFile(file) => f.debug_tuple("CaFile").field(file).finish(),
            Self::CaPem(text) => write!(f, "CaPem({} bytes)", text.len()),
            Self::Exactly(file) => f.debug_tuple("Exactly").field(file).finish(),
        }
    }
}

/// Accepts one certificate. That the other end has its key is checked as always.
#[derive(Debug)]
struct Pinned {
    expected: CertificateDer<'static>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if *end_entity == self.expected {
            return Ok(ServerCertVerified::assertion());
        }
        Err(CertificateError::ApplicationVerificationFailure.into())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
