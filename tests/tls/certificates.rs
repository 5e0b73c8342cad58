//! Certificates: whose are accepted, how they are exchanged, and with which ones a broker does not start.

use std::io::{Read as _, Write as _};

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use super::support::certificates::{
    Authority, EXPIRED, EXPIRES_SOON, FINE, Identity, NOT_YET, write,
};
use super::support::http::get;
use super::support::tunnel::{Tunnel, config, connection};
use super::support::{
    AGAIN, Broker, KEPT, PRODUCE, RawClient, Start, frame, handshake, hermitmq, run_to_end,
    wait_for,
};
use super::{Setup, metric, shown};

/// Whether records can be stored through the tunnel.
fn serves(tunnel: &Tunnel) -> bool {
    let mut client = RawClient::produce(tunnel.addr(), "t", 0);
    client.try_send(&frame(0, b"", b"x")) && client.try_read_ack().is_some()
}

#[test]
fn clients_are_known_by_their_certificates() {
    let other = Authority::new("other");
    for (auth, without, good, bad) in [
        ("off", true, true, true),
        ("optional", true, true, false),
        ("required", false, true, false),
    ] {
        let setup = Setup::new();
        let broker =
            setup.start("required").with_admin().env("HERMITMQ_TLS__CLIENT_AUTH", auth).run();
        let through =
            |identity: Option<&Identity>| serves(&Tunnel::to(broker.addr(), &setup.ca, identity));
        assert_eq!(through(None), without, "{auth}");
        assert_eq!(through(Some(&setup.ca.client("billing"))), good, "{auth}");
        for stranger in [other.client("billing"), setup.ca.sign("billing", &[], EXPIRED)] {
            assert_eq!(through(Some(&stranger)), bad, "{auth}");
        }
        let failures = "hermitmq_tls_handshake_failures_total{reason=\"certificate\"}";
        let expected = f64::from(u8::from(!without) + 2 * u8::from(!bad));
        wait_for("the failures", || (metric(&broker, failures) >= expected).then_some(()));

        let identity = setup.ca.sign("", &["billing.test", "b.test"], FINE);
        let tunnel = Tunnel::to(broker.addr(), &setup.ca, Some(&identity));
        let mut client = RawClient::produce(tunnel.addr(), "named", 0);
        client.append(&frame(0, b"", b"x"));
        let listed = get(broker.admin(), "/api/v1/connections").json();
        let found =
            listed["connections"].as_array().unwrap().iter().find(|c| c["topic"] == "named");
        let expected = if auth == "off" { serde_json::Value::Null } else { "billing.test".into() };
        let found = found.unwrap();
        assert_eq!((&found["certificate"], &found["tls"]), (&expected, &true.into()), "{auth}");
    }
}

/// The certificate that a new connection is shown.
fn shown_to(broker: &Broker, ca: &Authority) -> CertificateDer<'static> {
    let mut stream = connection(broker.addr(), config(ca, None, rustls::ALL_VERSIONS));
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock).unwrap();
    }
    stream.conn.peer_certificates().unwrap()[0].clone().into_owned()
}

fn der(identity: &Identity) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(identity.certificate.as_bytes()).unwrap()
}

fn said(broker: &Broker, message: &str) -> usize {
    broker.said(message).len()
}

const STAYS: &str = "the certificate stays as it was";

#[test]
fn changed_files_are_taken_over_and_old_connections_live_on() {
    let setup = Setup::new();
    let broker = setup.run("required");
    let tunnel = Tunnel::to(broker.addr(), &setup.ca, None);
    let mut old = RawClient::produce(tunnel.addr(), "t", 0);
    old.append(&frame(0, b"", b"before"));
    let first = shown_to(&broker, &setup.ca);
    let renewed = setup.ca.broker();
    setup.renew(&renewed);
    wait_for("the new certificate", || {
        (shown_to(&broker, &setup.ca) == der(&renewed)).then_some(())
    });
    assert_ne!(first, der(&renewed));
    old.append(&frame(0, b"", b"after"));

    // What cannot be used changes nothing, and is said once for each state of the files.
    let before = said(&broker, STAYS);
    setup.renew(&setup.ca.broker_that(EXPIRED));
    wait_for(STAYS, || (said(&broker, STAYS) > before).then_some(()));
    assert_eq!(shown_to(&broker, &setup.ca), der(&renewed));
    std::fs::remove_file(setup.path("broker.key")).unwrap();
    wait_for(STAYS, || (said(&broker, STAYS) > before + 1).then_some(()));
    assert_eq!(shown_to(&broker, &setup.ca), der(&renewed));
    old.append(&frame(0, b"", b"still"));
    let last = setup.ca.broker();
    setup.renew(&last);
    wait_for("the last certificate", || (shown_to(&broker, &setup.ca) == der(&last)).then_some(()));
}

#[test]
fn a_signal_takes_over_other_files_and_another_ca_and_bad_ones_change_nothing() {
    let setup = Setup::new();
    let file = |cert: &str, auth: &str, ca: &str| {
        format!(
            "[tls]\nmode = 'required'\ncert_file = '{}'\nkey_file = '{}'\nclient_ca_file = '{}'\nclient_auth = '{auth}'\n",
            shown(&setup.path(&format!("{cert}.pem"))),
            shown(&setup.path(&format!("{cert}.key"))),
            shown(&setup.path(ca)),
        )
    };
    let written = write(setup.dir.path(), "hermitmq.toml", &file("broker", "off", "ca.pem"));
    let broker = Start::on(&setup.data).arg("--config").arg(&written).run();
    let reload = |text: &str, outcome: &str| {
        std::fs::write(&written, text).unwrap();
        broker.reload(outcome);
    };
    let first = shown_to(&broker, &setup.ca);
    let second = setup.ca.broker();
    second.write(setup.dir.path(), "second");
    reload(&file("second", "off", "ca.pem"), AGAIN);
    assert_eq!(shown_to(&broker, &setup.ca), der(&second));
    assert_ne!(first, der(&second));
    // A file that is not there, a key of something else.
    reload(&file("third", "off", "ca.pem"), KEPT);
    second.write(setup.dir.path(), "mixed");
    write(setup.dir.path(), "mixed.key", &setup.ca.broker().key);
    reload(&file("mixed", "off", "ca.pem"), KEPT);
    assert_eq!(shown_to(&broker, &setup.ca), der(&second));
    let error = broker.lines_at("ERROR").last().unwrap().get("error");
    assert!(error.starts_with("tls.key_file: ") && error.contains("mixed.key"), "{error}");
    // Clients of another CA, from now on.
    let other = Authority::new("other");
    write(setup.dir.path(), "other.pem", &other.pem());
    let theirs = Tunnel::to(broker.addr(), &setup.ca, Some(&other.client("a")));
    let ours = Tunnel::to(broker.addr(), &setup.ca, Some(&setup.ca.client("a")));
    reload(&file("second", "required", "ca.pem"), AGAIN);
    assert_eq!((serves(&ours), serves(&theirs)), (true, false));
    reload(&file("second", "required", "other.pem"), AGAIN);
    assert_eq!((serves(&ours), serves(&theirs)), (false, true));
}

/// The one line with which a start fails.
fn refused(start: &Start) -> String {
    let output = run_to_end(start.command(), Vec::new());
    assert!(!output.status.success());
    let text = String::from_utf8(output.stderr).unwrap();
    let lines: Vec<_> = text.lines().filter(|line| !line.starts_with('{')).collect();
    assert_eq!(lines.len(), 1, "{text}");
    assert!(lines[0].starts_with("hermitmq: "), "{text}");
    lines[0].to_owned()
}

#[test]
fn with_bad_files_the_broker_does_not_start_and_says_which() {
    let setup = Setup::new();
    let dir = setup.dir.path();
    setup.ca.broker_that(EXPIRED).write(dir, "expired");
    let key = std::fs::read_to_string(setup.path("broker.key")).unwrap();
    let secret = key.lines().nth(1).unwrap()[..16].to_owned();
    setup.ca.broker_that(NOT_YET).write(dir, "early");
    write(dir, "noise.pem", "nothing of use");
    let set = |key: &str, name: &str| {
        setup.start("required").env(&format!("HERMITMQ_TLS__{key}"), shown(&setup.path(name)))
    };
    for (start, key, path, what) in [
        (set("CERT_FILE", "no.pem"), "tls.cert_file", "no.pem", "cannot be read"),
        (set("CERT_FILE", "noise.pem"), "tls.cert_file", "noise.pem", "holds no certificate"),
        (set("CERT_FILE", "expired.pem"), "tls.cert_file", "expired.pem", "has expired"),
        (set("CERT_FILE", "early.pem"), "tls.cert_file", "early.pem", "not valid yet"),
        (set("CERT_FILE", "ca.pem"), "tls.key_file", "broker.key", "is not the key of"),
        (set("KEY_FILE", "no.key"), "tls.key_file", "no.key", "cannot be read"),
        (set("KEY_FILE", "early.key"), "tls.key_file", "early.key", "is not the key of"),
        (set("KEY_FILE", "broker.pem"), "tls.key_file", "broker.pem", "holds no private key"),
        (
            set("CLIENT_CA_FILE", "no.pem").env("HERMITMQ_TLS__CLIENT_AUTH", "required"),
            "tls.client_ca_file",
            "no.pem",
            "cannot be read",
        ),
    ] {
        let line = refused(&start);
        assert!(!line.contains(&secret), "{line}");
        for part in [key, path, what, "; "] {
            assert!(line.contains(part), "{part:?} is not in: {line}");
        }
    }
    let bare = |name: &str, value: &str| Start::on(&setup.data).env(name, value);
    for (start, key) in [
        (bare("HERMITMQ_TLS__MODE", "required"), "tls.mode"),
        (bare("HERMITMQ_TLS__MODE", "optional"), "tls.mode"),
        (bare("HERMITMQ_TLS__MODE", "always"), "tls.mode"),
        (bare("HERMITMQ_ADMIN__TLS", "true"), "admin.tls"),
        (bare("HERMITMQ_TLS__CLIENT_AUTH", "required"), "tls.client_auth"),
    ] {
        let output = run_to_end(start.command(), Vec::new());
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains(&format!("{key} (set by ")), "{text}");
    }
    assert!(!setup.data.exists() || std::fs::read_dir(&setup.data).unwrap().count() <= 1);
}

/// What `hermitmq config check` says of these settings: its exit code, and all its lines.
fn checked(setup: &Setup, settings: &[(&str, &str)]) -> (i32, String) {
    let setting = |(key, value): &(&str, &str)| format!("{key} = '{value}'\n");
    let text: String = settings.iter().map(setting).collect();
    let file = write(setup.dir.path(), "check.toml", &text);
    let output = run_to_end(hermitmq(&["config", "check", &shown(&file)]), Vec::new());
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8(said).unwrap().replace(&shown(&file), "FILE");
    (output.status.code().unwrap(), said)
}

#[test]
fn the_check_of_a_configuration_says_of_files_what_a_start_would() {
    let setup = Setup::new();
    let dir = setup.dir.path();
    let of = |mode: &str, certificate: &str, more: &[(&str, &str)]| {
        let (cert, key) = (setup.path(&format!("{certificate}.pem")), setup.path("broker.key"));
        let (cert, key) = (shown(&cert), shown(&key));
        let files = [("tls.mode", mode), ("tls.cert_file", &cert), ("tls.key_file", &key)];
        checked(&setup, &[&files[..], more].concat())
    };
    assert_eq!(of("required", "broker", &[]), (0, "FILE: ok\n".to_owned()));
    assert_eq!(of("off", "none", &[]), (0, "FILE: ok\n".to_owned()), "nothing needs it");

    let missing =
        setup.start("required").env("HERMITMQ_TLS__CERT_FILE", shown(&dir.join("none.pem")));
    assert_eq!(of("required", "none", &[]), (2, format!("{}\n", refused(&missing))));
    let (code, said) = of("required", "none", &[("access.tokens_file", "/nonexistent/tokens")]);
    assert_eq!((code, said.lines().count()), (2, 2), "{said}");
    assert!(said.starts_with("hermitmq: access.tokens_file: cannot read /nonexistent"), "{said}");

    let ca = shown(&setup.path("none-ca.pem"));
    let (code, said) =
        of("required", "broker", &[("tls.client_auth", "required"), ("tls.client_ca_file", &ca)]);
    assert_eq!((code, said.lines().count()), (2, 1), "{said}");
    assert!(said.contains(&format!("tls.client_ca_file: {ca}: cannot be read")), "{said}");

    setup.renew(&setup.ca.broker_that(EXPIRED));
    let (code, said) = of("required", "broker", &[]);
    assert_eq!((code, said.lines().count()), (2, 1), "{said}");
    assert!(said.contains("broker.pem: the certificate has expired, "), "{said}");
    setup.renew(&setup.ca.broker_that(EXPIRES_SOON));
    let (code, said) = of("required", "broker", &[]);
    assert_eq!(code, 0, "{said}");
    let warning = "hermitmq: warning: the broker's certificate expires in 4";
    assert!(said.lines().any(|line| line.starts_with(warning)), "{said}");
}

#[test]
fn a_certificate_that_ends_soon_is_warned_of() {
    let setup = Setup::new();
    setup.renew(&setup.ca.broker_that(EXPIRES_SOON));
    let broker = setup.start("required").with_admin().run();
    let warned = || {
        let lines = broker.lines_at("WARN");
        lines.iter().any(|line| line.get("message").contains("certificate expires in "))
    };
    wait_for("the warning", || warned().then_some(()));
    let ready = get(broker.admin(), "/readyz");
    assert_eq!(ready.status, 200, "{ready:?}");
    assert!(
        ready.body.contains("\"certificate\"") && ready.body.contains("it expires in "),
        "{ready:?}"
    );
    let name = "hermitmq_tls_certificate_expiry_timestamp_seconds";
    let (soon, renewed) = (metric(&broker, name), setup.ca.broker());
    setup.renew(&renewed);
    wait_for("the new expiry", || (metric(&broker, name) > soon).then_some(()));
    assert!(!get(broker.admin(), "/readyz").body.contains("it expires in "));
}

#[test]
fn half_a_connection_gets_what_there_is_and_a_clean_end() {
    let setup = Setup::new();
    let broker = setup.run("required");
    let mut stream = connection(broker.addr(), config(&setup.ca, None, rustls::ALL_VERSIONS));
    let bytes = [handshake(PRODUCE, &["t"], 0), frame(0, b"", b"x")].concat();
    stream.write_all(&bytes).unwrap();
    stream.conn.send_close_notify();
    stream.flush().unwrap();
    let mut answer = Vec::new();
    // An end without the message that it is meant would be an error here.
    stream.read_to_end(&mut answer).unwrap();
    assert_eq!(answer, [0; 9]);
}
