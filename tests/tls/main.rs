//! TLS from outside: a real broker, certificates made for the test, and clients of rustls.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

#[path = "../support/mod.rs"]
mod support;

mod certificates;
mod hostile;
mod modes;
mod together;
mod tools;
mod traffic;

use std::path::{Path, PathBuf};

use support::certificates::{Authority, Identity, write};
use support::http::{get, metric_of};
use support::{Broker, Start, scratch};

/// A broker's files, and who has signed them.
struct Setup {
    ca: Authority,
    dir: tempfile::TempDir,
    data: PathBuf,
}

impl Setup {
    fn new() -> Self {
        let ca = Authority::new("ca");
        let (dir, data) = scratch();
        ca.broker().write(dir.path(), "broker");
        write(dir.path(), "ca.pem", &ca.pem());
        Self { ca, dir, data }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Replaces the broker's certificate and its key.
    fn renew(&self, identity: &Identity) {
        identity.write(self.dir.path(), "broker");
    }

    /// A start in this mode, with the broker's files.
    fn start(&self, mode: &str) -> Start {
        Start::on(&self.data)
            .env("HERMITMQ_TLS__MODE", mode)
            .env("HERMITMQ_TLS__CERT_FILE", shown(&self.path("broker.pem")))
            .env("HERMITMQ_TLS__KEY_FILE", shown(&self.path("broker.key")))
            .env("HERMITMQ_TLS__CLIENT_CA_FILE", shown(&self.path("ca.pem")))
    }

    fn run(&self, mode: &str) -> Broker {
        self.start(mode).run()
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// How often connections were closed for a reason, or handshakes failed for one.
fn metric(broker: &Broker, name: &str) -> f64 {
    metric_of(&get(broker.admin(), "/metrics").body, name)
}
