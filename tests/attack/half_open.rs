//! Peers that are gone without a word: a network namespace whose link is cut.

use std::process::{Command, Stdio};

use super::support::http::metric;
use super::support::{RawClient, Running, Start, frame, privileged, scratch, wait_for};

/// A network namespace, and a link to it.
struct Network {
    name: String,
    inside: String,
    here: String,
    there: String,
}

fn ip(args: &[&str]) {
    let output = Command::new("ip").args(args).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {}: {said}", args.join(" "));
}

impl Network {
    fn new() -> Self {
        let id = std::process::id();
        let (outside, inside) = (format!("hmqa{id}"), format!("hmqb{id}"));
        // Of a test network: nobody is there, and a machine runs few of these tests at once.
        let net = format!("198.18.{}", id % 250);
        let network = Self {
            name: format!("hermitmq-test-{id}"),
            here: format!("{net}.1"),
            there: format!("{net}.2"),
            inside,
        };
        let Self { name, inside, here, there } = &network;
        ip(&["netns", "add", name]);
        ip(&["link", "add", &outside, "type", "veth", "peer", "name", inside, "netns", name]);
        ip(&["addr", "add", &format!("{here}/24"), "dev", &outside]);
        ip(&["link", "set", &outside, "up"]);
        ip(&["-n", name, "addr", "add", &format!("{there}/24"), "dev", inside]);
        ip(&["-n", name, "link", "set", inside, "up"]);
        network
    }

    /// From now on nothing comes through, and nobody is told.
    fn cut(&self) {
        ip(&["-n", &self.name, "link", "set", &self.inside, "down"]);
    }

    /// A producer and a consumer in there, which keep their connections.
    fn clients(&self, port: u16) -> Running {
        let to = format!("/dev/tcp/{}/{port}", self.here);
        let script = format!(
            "exec 3<>{to} && printf '\\x01\\x01t\\0\\0\\0\\0' >&3 && \
             exec 4<>{to} && printf '\\x02\\x01g\\x01t\\0\\0\\0\\0' >&4 && exec sleep 1000"
        );
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name, "bash", "-c", &script]);
        Running::spawn(command.stdin(Stdio::null()))
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // The link goes with it.
        let _ = Command::new("ip").args(["netns", "delete", &self.name]).status();
    }
}

#[test]
fn a_peer_that_is_gone_without_a_word_is_let_go() {
    if !privileged(&["ip", "bash"]) {
        return;
    }
    let network = Network::new();
    let (_dir, data) = scratch();
    let mut start = Start::on(&data).with_admin().arg("--host").arg(&network.here);
    for setting in ["security.keepalive_sec=1", "security.user_timeout_sec=2"] {
        start = start.arg("--set").arg(setting);
    }
    let broker = start.run();
    let (addr, admin) = (broker.addr(), broker.admin());
    let role =
        |role: &str| metric(admin, &format!("hermitmq_connections_by_role{{role=\"{role}\"}}"));
    let mut here = RawClient::produce(addr, "t", 0);
    here.append(&frame(1, b"", b"x"));
    let clients = network.clients(addr.port());
    wait_for("both to be there", || (role("producer") == 2 && role("consumer") == 1).then_some(()));
    network.cut();
    // On its way to the consumer, and never confirmed. To the producer nothing is on its way.
    here.append(&frame(2, b"", b"y"));
    wait_for("both to be let go", || {
        // The one who is here is not silent for long.
        here.append(&frame(3, b"", b"z"));
        (role("producer") == 1 && role("consumer") == 0).then_some(())
    });
    drop(clients);
    assert_eq!(metric(admin, "hermitmq_connections"), 1);
}
