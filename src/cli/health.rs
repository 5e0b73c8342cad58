//! `hermitmq health`: asks a broker how it is, for containers that have no shell.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use crate::client::admin::{AdminClient, AdminError, Health};
use crate::client::{TlsOptions, TlsProblem};
use crate::config::{Config, Sources};

use super::admin;
use super::args::{HealthArgs, admin_from_env};
use super::failure::Failure;
use super::runtime;
use super::show;

/// Time for an answer: who asks again and again must not wait for long.
const TIMEOUT: Duration = Duration::from_secs(5);

/// A broker needs no longer to take a renewed certificate over.
const RENEWAL_TIME: Duration = Duration::from_secs(3);

pub(super) fn run(args: &HealthArgs) -> Result<(), Failure> {
    let (address, tls) = address(args)?;
    let admin = admin::client_at(&address, tls)?.with_timeout(TIMEOUT);
    runtime::block_on(async {
        let health = ask(&admin, args.live).await.map_err(|error| Failure::admin(&error))?;
        if health.ok {
            return say(&health);
        }
        let what = if args.live { "not live" } else { "not ready" };
        Err(Failure::Runtime(format!("{what}: {}", reasons(&health))))
    })
}

/// A broker whose certificate has just been renewed shows the one before it for a moment.
async fn ask(admin: &AdminClient, live: bool) -> Result<Health, AdminError> {
    let begun = Instant::now();
    loop {
        let asked = if live { admin.live().await } else { admin.ready().await };
        let renewed = matches!(
            &asked,
            Err(AdminError::Tls {
                problem: TlsProblem::UnknownAuthority | TlsProblem::Expired,
                ..
            })
        );
        if !renewed || begun.elapsed() > RENEWAL_TIME {
            return asked;
        }
        tokio::time::sleep(RENEWAL_TIME / 10).await;
    }
}

/// The flag, else the environment, else what the configuration of a broker here would be; and how to connect there with TLS, if
/// that is wanted.
fn address(args: &HealthArgs) -> Result<(String, Option<TlsOptions>), Failure> {
    if let Some(address) = args.admin.clone().or_else(admin_from_env) {
        return Ok((address, args.tls.options()?));
    }
    let sources = Sources::of_process(args.config.clone(), BTreeMap::new());
    let loaded = Config::load(&sources).map_err(|error| Failure::Usage(error.to_string()))?;
    let Config { admin, tls, .. } = loaded.config;
    let listen = admin.listen;
    if listen.is_empty() {
        let message = "the configuration has no admin listener (admin.listen is empty)";
        return Err(Failure::Usage(message.to_owned()));
    }
    let cert_file = tls.cert_file.filter(|_| admin.tls);
    let tls = cert_file.map(|file| args.tls.options_for(file)).transpose()?;
    Ok((reachable(listen), tls.flatten()))
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
    let worth = reasons(health);
    let line = if worth.is_empty() { "ok\n".to_owned() } else { format!("ok, but {worth}\n") };
    show::print(line.as_bytes())
}

/// What is not well, for people.
pub(super) fn reasons(health: &Health) -> String {
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
