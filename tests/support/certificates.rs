//! Certificates made for one test: authorities, and whom they sign.
#![allow(dead_code, unreachable_pub, missing_docs, clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DnType, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

const HOUR: Duration = Duration::from_hours(1);

/// Who signs.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: Certificate,
}

/// A certificate and its key, as PEM.
#[derive(Debug, Clone)]
pub struct Identity {
    pub certificate: String,
    pub key: String,
}

/// How long a certificate holds, in hours from now.
#[derive(Debug, Clone, Copy)]
pub struct Holds {
    pub from: i64,
    pub until: i64,
}

/// Long enough that nobody warns.
pub const FINE: Holds = Holds { from: -1, until: 24 * 30 };
pub const EXPIRED: Holds = Holds { from: -48, until: -1 };
pub const NOT_YET: Holds = Holds { from: 24, until: 24 * 30 };
pub const EXPIRES_SOON: Holds = Holds { from: -24 * 30, until: 48 };
/// As soon, but it never holds for longer than that.
pub const SHORT: Holds = Holds { from: -1, until: 48 };

impl Authority {
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        params.key_usages.push(KeyUsagePurpose::KeyCertSign);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        Self { issuer: Issuer::new(params, key), certificate }
    }

    /// Its own certificate, as PEM.
    pub fn pem(&self) -> String {
        self.certificate.pem()
    }

    /// A broker's: for `localhost` and 127.0.0.1.
    pub fn broker(&self) -> Identity {
        self.broker_that(FINE)
    }

    pub fn broker_that(&self, holds: Holds) -> Identity {
        self.sign("broker", &["localhost", "127.0.0.1"], holds)
    }

    /// A client's, with this common name.
    pub fn client(&self, name: &str) -> Identity {
        self.sign(name, &[], FINE)
    }

    /// With a common name, unless that is empty, and alternative names.
    pub fn sign(&self, name: &str, alternatives: &[&str], holds: Holds) -> Identity {
        let names: Vec<String> = alternatives.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        if !name.is_empty() {
            params.distinguished_name.push(DnType::CommonName, name);
        }
        params.not_before = in_hours(holds.from).into();
        params.not_after = in_hours(holds.until).into();
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Identity { certificate: certificate.pem(), key: key.serialize_pem() }
    }
}

impl Identity {
    /// Writes both to files of this name; returns their paths.
    pub fn write(&self, dir: &Path, name: &str) -> (PathBuf, PathBuf) {
        let certificate = write(dir, &format!("{name}.pem"), &self.certificate);
        (certificate, write(dir, &format!("{name}.key"), &self.key))
    }
}

/// Writes a file; returns its path.
pub fn write(dir: &Path, name: &str, text: &str) -> PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

fn in_hours(hours: i64) -> SystemTime {
    let now = SystemTime::now();
    let distance = HOUR * u32::try_from(hours.unsigned_abs()).unwrap();
    if hours < 0 { now - distance } else { now + distance }
}
