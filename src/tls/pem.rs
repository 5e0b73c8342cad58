//! PEM files into certificates and keys.

use std::io;
use std::path::{Path, PathBuf};

use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::model::read_named_file;

/// A file that was to hold certificates or a key. Never says what is in it.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", path.display())]
pub struct PemError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub problem: PemProblem,
}

/// What is wrong with a PEM file.
#[derive(Debug, thiserror::Error)]
pub enum PemProblem {
    /// It cannot be read.
    #[error("cannot be read: {0}")]
    Read(#[from] io::Error),
    /// It is larger than any chain or key.
    #[error("is larger than 1 MiB")]
    TooLarge,
    /// It is no PEM.
    #[error("is not PEM")]
    Malformed,
    /// It holds no certificate.
    #[error("holds no certificate (-----BEGIN CERTIFICATE-----)")]
    NoCertificate,
    /// It holds no private key that is not encrypted.
    #[error("holds no private key (-----BEGIN PRIVATE KEY-----); an encrypted one cannot be used")]
    NoKey,
}

/// Largest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// All certificates of a file, in their order: at least one.
pub fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, PemError> {
    let all = || {
        let text = read(path)?;
        let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
        let certificates = found.map_err(|error| problem(&error))?;
        if certificates.is_empty() {
            return Err(PemProblem::NoCertificate);
        }
        Ok(certificates)
    };
    all().map_err(|problem| PemError { path: path.to_owned(), problem })
}

/// The first private key of a file.
pub fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, PemError> {
    let key = || {
        let text = read(path)?;
        PrivateKeyDer::from_pem_slice(&text).map_err(|error| match error {
            pem::Error::NoItemsFound => PemProblem::NoKey,
            other => problem(&other),
        })
    };
    key().map_err(|problem| PemError { path: path.to_owned(), problem })
}

fn read(path: &Path) -> Result<Vec<u8>, PemProblem> {
    read_named_file(path, FILE_BYTES_MAX).map_err(|error| match error.kind() {
        io::ErrorKind::FileTooLarge => PemProblem::TooLarge,
        _ => error.into(),
    })
}

/// The parser's own errors may quote what it has read, which may be a key.
fn problem(error: &pem::Error) -> PemProblem {
    match error {
        pem::Error::NoItemsFound => PemProblem::NoCertificate,
        _ => PemProblem::Malformed,
    }
}
