//! The command line and the admin listener.

use std::net::SocketAddr;
use std::process::Output;

use super::support::certificates::{Authority, EXPIRED, write};
use super::support::{Broker, Start, hermitmq, run_to_end};
use super::{Setup, shown};

fn run(args: &[&str], env: &[(&str, String)], input: &str) -> Output {
    let mut command = hermitmq(args);
    command.envs(env.iter().map(|(name, value)| (name, value)));
    run_to_end(command, input.as_bytes().to_vec())
}

fn ok(args: &[&str], env: &[(&str, String)], input: &str) -> String {
    let output = run(args, env, input);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{args:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// The exit code and the one line.
fn fails(args: &[&str]) -> (Option<i32>, String) {
    let output = run(args, &[], "x\n");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success(), "{args:?}");
    assert_eq!(said.lines().count(), 1, "{said}");
    (output.status.code(), said)
}

fn addr(broker: &Broker) -> String {
    broker.addr().to_string()
}

#[test]
fn produce_and_consume_with_flags_and_with_the_environment() {
    let setup = Setup::new();
    let broker = setup.start("required").env("HERMITMQ_TLS__CLIENT_AUTH", "required").run();
    setup.ca.client("cli").write(setup.dir.path(), "cli");
    let [ca, cert, key] = ["ca.pem", "cli.pem", "cli.key"].map(|name| shown(&setup.path(name)));
    let addr = addr(&broker);
    let flags = ["--broker", &addr, "--tls-ca", &ca, "--tls-cert", &cert, "--tls-key", &key];
    ok(&[&["produce", "t"], &flags[..]].concat(), &[], "one\ntwo\n");
    let env = [
        ("HERMITMQ_BROKER", addr.clone()),
        ("HERMITMQ_TLS_CA", ca),
        ("HERMITMQ_TLS_CERT", cert),
        ("HERMITMQ_TLS_KEY", key),
    ];
    assert_eq!(ok(&["consume", "t", "--until-end"], &env, ""), "one\ntwo\n");
    let named = ok(
        &["consume", "t", "--until-end", "--group", "g", "--tls-server-name", "localhost"],
        &env,
        "",
    );
    assert_eq!(named, "one\ntwo\n");
}

#[test]
fn what_is_wrong_is_said_in_one_line() {
    let setup = Setup::new();
    let broker = setup.run("required");
    let plain = Start::on(&setup.path("plain")).run();
    let theirs = Setup::new();
    let guarded = theirs.start("required").env("HERMITMQ_TLS__CLIENT_AUTH", "required").run();
    let other = Authority::new("other");
    write(setup.dir.path(), "other.pem", &other.pem());
    other.client("stranger").write(setup.dir.path(), "stranger");
    let path = |name: &str| shown(&setup.path(name));
    let of_guarded = shown(&theirs.path("ca.pem"));
    let (ca, foreign, noise) = (path("ca.pem"), path("other.pem"), path("broker.key"));
    let (cert, key) = (path("stranger.pem"), path("stranger.key"));
    let (tls, off, guarded) = (addr(&broker), addr(&plain), addr(&guarded));
    for (args, code, what) in [
        (
            vec![&tls, "--tls-ca", &foreign],
            1,
            "not signed by a CA that is trusted; check `trust` (--tls-ca)",
        ),
        (vec![&tls, "--tls-ca", &ca, "--tls-server-name", "a.test"], 1, "is not for a.test"),
        (
            vec![&tls, "--tls-ca", &ca, "--tls-server-name", "a.test"],
            1,
            "in `server_name` (--tls-server-name)",
        ),
        (vec![&tls], 1, "does it ask for TLS"),
        (vec![&tls, "--tls-ca", &noise], 1, "holds no certificate"),
        (vec![&tls, "--tls-ca", "/nonexistent/ca.pem"], 1, "/nonexistent/ca.pem: cannot be read"),
        (vec![&off, "--tls-ca", &ca], 1, "does not speak TLS"),
        (vec![&guarded, "--tls-ca", &of_guarded], 1, "asks for a certificate"),
        (
            vec![&guarded, "--tls-ca", &of_guarded, "--tls-cert", &cert, "--tls-key", &key],
            1,
            "does not accept the certificate",
        ),
        (vec![&tls, "--tls"], 2, "--tls-ca FILE"),
        (vec![&tls, "--tls-ca", &ca, "--tls-cert", &cert], 2, "--tls-key FILE"),
    ] {
        for command in ["produce", "consume"] {
            let (got, line) = fails(&[&[command, "t", "--broker"], &args[..]].concat());
            assert!(line.contains(what), "{args:?}: {line}");
            assert_eq!(got, Some(code), "{line}");
        }
    }
}

#[test]
fn a_certificate_that_has_expired_meanwhile_is_not_accepted() {
    let setup = Setup::new();
    // The broker would not start with it; anybody else may.
    let identity = setup.ca.broker_that(EXPIRED);
    let expired = stale_server(&identity);
    let (ca, expired) = (shown(&setup.path("ca.pem")), expired.to_string());
    let (code, line) = fails(&["consume", "t", "--broker", &expired, "--tls-ca", &ca]);
    assert!(line.contains("has expired") && code == Some(1), "{line}");
}

/// A server of rustls that answers handshakes with this certificate and nothing else.
fn stale_server(identity: &super::Identity) -> SocketAddr {
    use rustls::pki_types::pem::PemObject as _;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    let certificate = CertificateDer::from_pem_slice(identity.certificate.as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).unwrap();
    let config = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let config = std::sync::Arc::new(config);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        while let Ok((mut socket, _)) = listener.accept() {
            let mut session = rustls::ServerConnection::new(config.clone()).unwrap();
            while session.is_handshaking() && session.complete_io(&mut socket).is_ok() {}
        }
    });
    addr
}

#[test]
fn the_admin_listener_speaks_tls_and_health_finds_it() {
    let setup = Setup::new();
    let start = || setup.start("off").with_admin().env("HERMITMQ_ADMIN__TLS", "true");
    let broker = start().run();
    let admin = broker.admin();
    let ca = shown(&setup.path("ca.pem"));
    let secured = format!("https://{admin}");
    let created = ["topic", "create", "orders", "--admin", &secured, "--tls-ca", &ca];
    ok(&created, &[], "");
    let by_env = [("HERMITMQ_ADMIN", admin.to_string()), ("HERMITMQ_TLS_CA", ca.clone())];
    assert!(ok(&["topic", "list"], &by_env, "").contains("orders"));
    assert_eq!(ok(&["health"], &by_env, ""), "ok\n");
    // As in a container: by the configuration that the broker has, and no CA.
    let own = [
        ("HERMITMQ_ADMIN__LISTEN", admin.to_string()),
        ("HERMITMQ_ADMIN__TLS", "true".to_owned()),
        ("HERMITMQ_TLS__CERT_FILE", shown(&setup.path("broker.pem"))),
        ("HERMITMQ_TLS__KEY_FILE", shown(&setup.path("broker.key"))),
    ];
    assert_eq!(ok(&["health"], &own, ""), "ok\n");
    assert_eq!(ok(&["health", "--live"], &own, ""), "ok\n");
    // The environment may name the CA that the other commands need.
    let named = [&own[..], &[("HERMITMQ_TLS_CA", ca.clone())]].concat();
    assert_eq!(ok(&["health"], &named, ""), "ok\n");
    // Right after a renewal, before the broker may have noticed it.
    setup.renew(&setup.ca.broker());
    assert_eq!(ok(&["health"], &own, ""), "ok\n");

    let (code, line) = fails(&["topic", "list", "--admin", &secured]);
    assert!(line.contains("needs the CA") && code == Some(2), "{line}");
    assert!(line.contains("--tls-ca FILE"), "{line}");
    let (_, line) = fails(&["topic", "list", "--admin", &format!("http://{admin}")]);
    assert!(line.contains("no answer from http://"), "{line}");
    let other = shown(&write(setup.dir.path(), "other.pem", &Authority::new("other").pem()));
    let (_, line) = fails(&["health", "--admin", &secured, "--tls-ca", &other]);
    assert!(line.contains("not signed by a CA that is trusted"), "{line}");
    assert!(super::support::http::try_request(admin, "GET", "/livez", &[], b"").is_err());
}

#[test]
fn the_admin_listener_asks_for_certificates_as_the_other_one_does() {
    let setup = Setup::new();
    let broker = setup
        .start("required")
        .with_admin()
        .env("HERMITMQ_ADMIN__TLS", "true")
        .env("HERMITMQ_TLS__CLIENT_AUTH", "required")
        .run();
    let (admin, ca) = (format!("https://{}", broker.admin()), shown(&setup.path("ca.pem")));
    let (_, line) = fails(&["health", "--admin", &admin, "--tls-ca", &ca]);
    assert!(line.contains("asks for a certificate"), "{line}");
    setup.ca.client("probe").write(setup.dir.path(), "probe");
    let [cert, key] = ["probe.pem", "probe.key"].map(|name| shown(&setup.path(name)));
    let args =
        ["health", "--admin", &admin, "--tls-ca", &ca, "--tls-cert", &cert, "--tls-key", &key];
    assert_eq!(ok(&args, &[], ""), "ok\n");
}
