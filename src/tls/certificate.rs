//! What a certificate says: how long it holds, and whom it names.

use std::sync::Arc;
use std::time::Duration;

use x509_cert::attr::AttributeTypeAndValue;
use x509_cert::der::asn1::{Ia5StringRef, ObjectIdentifier, PrintableStringRef, Utf8StringRef};
use x509_cert::der::{self, Decode as _};
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

/// `commonName`.
const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");

/// A certificate, as far as it is looked at here. Signatures are the business of rustls.
#[derive(Debug)]
pub(super) struct Certificate(x509_cert::Certificate);

impl Certificate {
    pub(super) fn parse(der: &[u8]) -> Result<Self, der::Error> {
        x509_cert::Certificate::from_der(der).map(Self)
    }

    /// When it begins and when it ends to hold, from the Unix epoch.
    pub(super) fn validity(&self) -> (Duration, Duration) {
        let validity = &self.0.tbs_certificate.validity;
        (validity.not_before.to_unix_duration(), validity.not_after.to_unix_duration())
    }

    /// The common name of its subject, empty if that cannot be read, else its first DNS name.
    fn name(&self) -> Option<String> {
        let subject = self.0.tbs_certificate.subject.0.iter().rev();
        let mut attributes = subject.flat_map(|names| names.0.iter());
        match attributes.find(|attribute| attribute.oid == COMMON_NAME) {
            Some(common_name) => Some(text(common_name).unwrap_or_default()),
            None => self.dns_name(),
        }
    }

    fn dns_name(&self) -> Option<String> {
        let (_, names) = self.0.tbs_certificate.get::<SubjectAltName>().ok()??;
        names.0.into_iter().find_map(|name| match name {
            GeneralName::DnsName(name) => Some(name.to_string()),
            _ => None,
        })
    }
}

fn text(attribute: &AttributeTypeAndValue) -> Option<String> {
    let value = &attribute.value;
    let utf8 = || value.decode_as::<Utf8StringRef<'_>>().map(|text| text.as_str().to_owned());
    let printable =
        || value.decode_as::<PrintableStringRef<'_>>().map(|text| text.as_str().to_owned());
    let ia5 = || value.decode_as::<Ia5StringRef<'_>>().map(|text| text.as_str().to_owned());
    utf8().or_else(|_| printable()).or_else(|_| ia5()).ok()
}

/// Whom a certificate names: the common name of its subject, or its first DNS name if it has none; `None` if there is neither. The
/// name is as it stands there, and empty where it cannot be read: whether it can be a principal's is for [`crate::access`] to say.
pub fn principal(der: &[u8]) -> Option<Arc<str>> {
    match Certificate::parse(der) {
        Ok(certificate) => certificate.name().map(Into::into),
        Err(_) => Some("".into()),
    }
}
