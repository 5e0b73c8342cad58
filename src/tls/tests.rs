//! Loading, and what cannot be loaded.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use super::certificates::{
    Authority, EXPIRED, EXPIRES_SOON, FINE, Identity, NOT_YET, SHORT, write,
};
use super::load::Validity;
use super::*;
use crate::metrics::Metrics;

struct Files {
    dir: tempfile::TempDir,
    options: Options,
}

impl Files {
    fn new(identity: &Identity) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (certificate, key) = identity.write(dir.path(), "broker");
        let options = Options {
            mode: Mode::Required,
            cert_file: Some(certificate),
            key_file: Some(key),
            ..Options::default()
        };
        Self { dir, options }
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        write(self.dir.path(), name, text)
    }

    fn load(&self) -> Result<Arc<Tls>, LoadError> {
        Tls::load(&self.options, &Arc::default())
    }

    /// What is said about the files, in one line, with the key and the path.
    fn error(&self) -> String {
        let error = self.load().unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with(&format!("{}: ", error.key)), "{text}");
        assert!(text.contains("; it must hold") || text.contains("; renew it"), "{text}");
        assert!(!text.contains('\n'), "{text}");
        if let Some(path) = error.path {
            assert!(text.contains(&path.display().to_string()), "{text}");
        }
        text
    }
}

fn der(identity: &Identity) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(identity.certificate.as_bytes()).unwrap()
}

#[test]
fn good_files_are_loaded_and_their_expiry_is_told() {
    let files = Files::new(&Authority::new("ca").broker());
    let metrics = Arc::<Metrics>::default();
    let tls = Tls::load(&files.options, &metrics).unwrap();
    assert_eq!(tls.mode(), Mode::Required);
    assert_eq!(tls.expiry(), Expiry::Fine);
    assert!(metrics.tls_certificate_expiry_s.get() > 0);
    let soon = Files::new(&Authority::new("ca").broker_that(EXPIRES_SOON)).load().unwrap();
    let said = soon.expiry().to_string();
    assert!(matches!(soon.expiry(), Expiry::Soon { .. }), "{said}");
    assert!(
        said.starts_with("expires in 4") && said.ends_with(" h; renew tls.cert_file"),
        "{said}"
    );
    let short = Files::new(&Authority::new("ca").broker_that(SHORT)).load().unwrap();
    assert_eq!(short.expiry(), Expiry::Fine, "most of its time is left");
    let validity = Validity { renewal: Duration::from_secs(3), end: Duration::from_secs(4) };
    assert_eq!(Expiry::of(validity, validity.end), Expiry::Expired);
}

#[test]
fn each_bad_file_is_named_with_the_reason() {
    let ca = Authority::new("ca");
    let good = ca.broker();
    let mut files = Files::new(&good);
    let (cert, key) = (files.options.cert_file.clone(), files.options.key_file.clone());

    files.options.cert_file = None;
    assert!(files.error().contains("tls.cert_file: is not set"));
    files.options.cert_file = Some(files.dir.path().join("nothing.pem"));
    assert!(files.error().contains("cannot be read"));
    files.options.cert_file = Some(files.dir.path().to_owned());
    assert!(files.error().contains("cannot be read: is a directory"));
    files.options.cert_file = Some(files.write("noise.pem", "certainly no PEM"));
    assert!(files.error().contains("holds no certificate"));
    let cut = "-----BEGIN CERTIFICATE-----\nMIIB!!\n-----END CERTIFICATE-----\n";
    files.options.cert_file = Some(files.write("cut.pem", cut));
    assert!(files.error().contains("is not PEM"));
    let empty = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
    files.options.cert_file = Some(files.write("empty.pem", empty));
    assert!(files.error().contains("holds what is no certificate"));
    for (holds, what) in [(EXPIRED, "has expired"), (NOT_YET, "is not valid yet")] {
        let other = Files::new(&ca.broker_that(holds));
        assert!(other.error().contains(what), "{what}");
    }
    files.options.cert_file = cert;

    files.options.key_file = None;
    assert!(files.error().contains("tls.key_file: is not set"));
    files.options.key_file = Some(files.write("no.key", &good.certificate));
    assert!(files.error().contains("holds no private key"));
    files.options.key_file = Some(files.write("other.key", &ca.broker().key));
    assert!(files.error().contains("is not the key of the certificate in"));
    files.options.key_file = key;

    files.options.client_auth = ClientAuth::Required;
    assert!(files.error().contains("tls.client_ca_file: is not set"));
    files.options.client_ca_file = Some(files.write("ca.pem", ""));
    assert!(files.error().contains("holds no certificate"));
    files.options.client_ca_file = Some(files.write("ca.pem", &ca.pem()));
    files.load().unwrap();
}

#[test]
fn no_error_says_what_is_in_a_key() {
    let good = Authority::new("ca").broker();
    let mut files = Files::new(&good);
    let secret = good.key.lines().nth(1).unwrap().to_owned();
    for text in [
        good.key.replace("-----END PRIVATE KEY-----", "-----END-----"),
        good.key.replace("PRIVATE KEY", "SOMETHING"),
        good.key.replace(&secret, &format!("{secret}!")),
        secret.clone(),
    ] {
        files.options.key_file = Some(files.write("hurt.key", &text));
        let error = files.load().unwrap_err();
        assert!(!format!("{error} {error:?}").contains(&secret[..16]), "{error:?}");
    }
    let tls = Files::new(&good).load().unwrap();
    assert!(!format!("{tls:?}").contains(&secret[..16]));
}

#[test]
fn changed_files_are_taken_over_and_bad_ones_change_nothing() {
    let ca = Authority::new("ca");
    let files = Files::new(&ca.broker());
    let tls = files.load().unwrap();
    let first = tls.config();
    assert!(!tls.reload_if_changed().unwrap());
    // The certificate before its key: so for a moment nothing fits.
    let renewed = ca.broker();
    files.write("broker.pem", &renewed.certificate);
    assert!(tls.reload_if_changed().unwrap_err().to_string().contains("is not the key"));
    assert!(!tls.reload_if_changed().unwrap(), "said once");
    assert!(tls.changed().is_some(), "and tried again");
    assert!(Arc::ptr_eq(&first, &tls.config()));
    files.write("broker.key", &renewed.key);
    assert!(tls.reload_if_changed().unwrap());
    let second = tls.config();
    assert!(!Arc::ptr_eq(&first, &second));
    // Through a link that names another file, as Kubernetes does it.
    let next = ca.broker();
    let dir = files.dir.path();
    let (certificate, key) = next.write(dir, "next");
    for (of, link) in [(&certificate, "broker.pem"), (&key, "broker.key")] {
        let new = dir.join("link");
        std::os::unix::fs::symlink(of, &new).unwrap();
        std::fs::rename(&new, dir.join(link)).unwrap();
    }
    assert!(tls.reload_if_changed().unwrap());
    assert!(!Arc::ptr_eq(&second, &tls.config()));
    std::fs::remove_file(&key).unwrap();
    assert!(tls.reload_if_changed().is_err());
}

#[test]
fn whoever_may_read_a_file_by_now_is_noticed() {
    let files = Files::new(&Authority::new("ca").broker());
    let tls = files.load().unwrap();
    let key = files.options.key_file.as_deref().unwrap();
    let changed = || {
        let meta = std::fs::metadata(key).unwrap();
        (meta.ctime(), meta.ctime_nsec())
    };
    let before = changed();
    // The clock of a file system is a coarse one.
    for mode in [0o600, 0o640].into_iter().cycle() {
        std::fs::set_permissions(key, std::fs::Permissions::from_mode(mode)).unwrap();
        if changed() != before {
            break;
        }
    }
    assert!(tls.reload_if_changed().unwrap());
    assert!(!tls.reload_if_changed().unwrap());
}

#[test]
fn each_state_of_the_files_that_cannot_be_used_is_told_once() {
    let ca = Authority::new("ca");
    let files = Files::new(&ca.broker());
    let tls = files.load().unwrap();
    ca.broker_that(NOT_YET).write(files.dir.path(), "broker");
    assert!(tls.reload_if_changed().unwrap_err().to_string().contains("not valid yet, for "));
    assert!(!tls.reload_if_changed().unwrap());
    // The same again, in other files: another try of whoever renews them.
    ca.broker_that(NOT_YET).write(files.dir.path(), "next");
    for name in ["broker.pem", "broker.key"] {
        let dir = files.dir.path();
        std::fs::rename(dir.join(name.replace("broker", "next")), dir.join(name)).unwrap();
    }
    assert!(tls.reload_if_changed().is_err());
    assert!(!tls.reload_if_changed().unwrap());
}

#[test]
fn files_that_are_named_anew_while_others_are_read_stay() {
    let ca = Authority::new("ca");
    let files = Files::new(&ca.broker());
    let tls = files.load().unwrap();
    let (certificate, key) = ca.broker().write(files.dir.path(), "other");
    let named =
        Options { cert_file: Some(certificate), key_file: Some(key), ..files.options.clone() };
    ca.broker().write(files.dir.path(), "broker");
    let (before, _) = tls.changed().unwrap();
    let late = tls.renew(&before).unwrap();
    tls.install(tls.renew(&named).unwrap());
    let installed = tls.config();
    assert!(!tls.install_over(&before, late));
    assert!(Arc::ptr_eq(&installed, &tls.config()));
    assert!(!tls.reload_if_changed().unwrap());
    ca.broker().write(files.dir.path(), "other");
    assert!(tls.reload_if_changed().unwrap(), "it is these that are looked at");
}

#[test]
fn a_certificate_names_its_common_name_or_its_first_dns_name() {
    let ca = Authority::new("ca");
    let name = |common: &str, others: &[&str]| principal(&der(&ca.sign(common, others, FINE)));
    assert_eq!(name("billing", &["other.test"]).as_deref(), Some("billing"));
    assert_eq!(name("größe", &[]).as_deref(), Some("größe"));
    assert_eq!(name("", &["127.0.0.1", "a.test", "b.test"]).as_deref(), Some("a.test"));
    assert_eq!(name("", &[]), None);
    let judged_elsewhere = ["line\nbreak", "*", " x", &"x".repeat(256)];
    for common in judged_elsewhere {
        assert_eq!(name(common, &["a.test"]).as_deref(), Some(common));
    }
    assert_eq!(principal(b"nonsense").as_deref(), Some(""), "it is no certificate without a name");
}
