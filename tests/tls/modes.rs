//! Which connections a mode lets in: never one without TLS where it is required.

use hermitmq::protocol::v1_1::Durability;

use super::support::tunnel::Tunnel;
use super::support::{RawClient, frame, v1_1, wait_for};
use super::{Setup, metric};

#[test]
fn each_mode_serves_those_that_it_says() {
    for (mode, plain, tls) in
        [("off", true, false), ("optional", true, true), ("required", false, true)]
    {
        let setup = Setup::new();
        let broker = setup.start(mode).with_admin().run();
        let tunnel = Tunnel::to(broker.addr(), &setup.ca, None);
        for (addr, serves) in [(broker.addr(), plain), (tunnel.addr(), tls)] {
            let mut client = RawClient::produce(addr, "t", 0);
            if serves {
                client.append(&frame(0, b"", mode.as_bytes()));
                let mut consumer = RawClient::consume(addr, "g", "t", 0);
                assert_eq!(consumer.read_frame().payload(), mode.as_bytes(), "{mode}");
            } else {
                client.try_send(&frame(0, b"", b"no"));
                client.assert_closed_without_a_byte();
            }
        }
        let warned = |text: &str| {
            broker.lines_at("WARN").iter().any(|line| line.get("detail").contains(text))
        };
        let said = match mode {
            "off" => "a client with TLS, where tls.mode is off",
            "required" => "a client without TLS, where tls.mode is required",
            _ => continue,
        };
        wait_for(said, || warned(said).then_some(()));
        if mode == "required" {
            let failures = "hermitmq_tls_handshake_failures_total{reason=\"plaintext\"}";
            assert!(metric(&broker, failures) >= 1.0);
            assert!(
                metric(&broker, "hermitmq_connections_closed_total{reason=\"tls_required\"}")
                    >= 1.0
            );
        }
    }
}

#[test]
fn where_tls_is_required_nothing_else_gets_a_byte() {
    let setup = Setup::new();
    let broker = setup.run("required");
    for first in (0..=255).filter(|first| *first != 0x16) {
        let mut client = RawClient::connect(broker.addr());
        client.try_send(&[first, 1, b't', 0, 0, 0, 0]);
        client.assert_closed_without_a_byte();
    }
    // Protocol 1.1 is told why in its own words elsewhere; here it might be anybody who listens.
    let mut client = RawClient::connect(broker.addr());
    client.try_send(&v1_1::producer("t", Durability::Topic));
    client.assert_closed_without_a_byte();
}
