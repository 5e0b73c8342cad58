//! `hermitmq health`: asks a broker how it is, for containers that have no shell.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use crate::client::admin::{AdminClient, Health};
use crate::config::{Config, Sources};

use super::args::{HealthArgs, admin_from_env};
use super::failure::{Failure, causes};
use super::runtime;

/// Time for an answer: who asks again and again must not wait for long.
const TIMEOUT: Duration = Duration::from_secs(5);

pub(super) fn run(args: &HealthArgs) -> Result<(), Failure> {
    let address = address(args)?;
    let admin = AdminClient::new(&address).map_err(|error| Failure::Usage(causes(&error)))?;
    let admin = admin.with_timeout(TIMEOUT);
    runtime::block_on(async {
        let asked = if args.live { admin.live().await } else { admin.ready().await };
        let health = asked.map_err(|error| Failure::Runtime(causes(&error)))?;
        if health.ok {
            return say(&health);
        }
        let what = if args.live { "not live" } else { "not ready" };
        Err(Failure::Runtime(format!("{what}: {}", reasons(&health))))
    })
}

/// The flag, else the environment, else what the configuration of a broker here would be.
fn address(args: &HealthArgs) -> Result<String, Failure> {
    if let Some(address) = args.admin.clone().or_else(admin_from_env) {
        return Ok(address);
    }
    let sources = Sources::of_process(args.config.clone(), BTreeMap::new());
    let loaded = Config::load(&sources).map_err(|error| Failure::Usage(error.to_string()))?;
    let listen = loaded.config.admin.listen;
    if listen.is_empty() {
        let message = "the configuration has no admin listener (admin.listen is empty)";
        return Err(Failure::Usage(message.to_owned()));
    }
    Ok(reachable(listen))
}

/// An address to connect to, where the one to listen on means all of them.
fn reachable(listen: String) -> String {
    let Ok(mut addr) = listen.parse::<SocketAddr>() else { return listen };
    match addr.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => addr.set_ip([127, 0, 0, 1].into()),
        IpAddr::V6(ip) if ip.is_unspecified() => addr.set_ip(std::net::Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    addr.to_string()
}

fn say(health: &Health) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    let worth = reasons(health);
    let line = if worth.is_empty() { "ok".to_owned() } else { format!("ok, but {worth}") };
    writeln!(stdout, "{line}").map_err(|error| Failure::output(&error))
}

fn reasons(health: &Health) -> String {
    let reasons: Vec<_> = health
        .failed()
        .map(|check| format!("{}: {}", check.name, check.reason.as_deref().unwrap_or("not ok")))
        .collect();
    reasons.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_addresses_are_reached_at_the_loopback_one() {
        for (listen, address) in [
            ("0.0.0.0:9093", "127.0.0.1:9093"),
            ("[::]:1", "[::1]:1"),
            ("10.0.0.1:1", "10.0.0.1:1"),
            ("localhost:1", "localhost:1"),
        ] {
            assert_eq!(reachable(listen.to_owned()), address);
        }
    }
}
