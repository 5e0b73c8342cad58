//! Under which names the listener answers.
//!
//! A listener on a loopback address relies on nobody else reaching it. A web page in a browser on this machine could, under
//! a name of its own that resolves to the loopback address (DNS rebinding); its requests carry that name, and are refused.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{self, Request};
use axum::http::{HeaderMap, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::problem::{Kind, Problem};

/// The names that requests may carry: addresses, `localhost`, and the name that is configured; and any, where others can reach
/// the listener anyway. There it matters who asks, and whether it is a page: see [`authorize`](super::authorize).
#[derive(Debug, Clone)]
pub(super) struct Hosts {
    configured: Arc<str>,
    any: bool,
}

impl Hosts {
    /// Those for a listener that is configured as `listen` and has this address.
    pub(super) fn of(listen: &str, ip: IpAddr) -> Self {
        let name = listen.rsplit_once(':').map_or("", |(name, _)| name);
        Self { configured: name.into(), any: !ip.is_loopback() }
    }

    fn allow(&self, host: &str) -> bool {
        self.any || self.is_own(host)
    }

    /// Whether nobody else can have a name that leads here.
    fn is_own(&self, host: &str) -> bool {
        // What is behind the last colon is a port, but within the brackets of an IPv6 address.
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
            _ => host,
        };
        let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
        let lower = name.to_ascii_lowercase();
        bare.parse::<IpAddr>().is_ok()
            || lower == "localhost"
            || lower.ends_with(".localhost")
            || lower == self.configured.to_ascii_lowercase()
    }

    fn allow_all_of(&self, headers: &HeaderMap) -> bool {
        all_of(headers, |host| self.allow(host))
    }

    /// Whether a request is under a name that nobody else can have given this listener.
    pub(super) fn are_own(&self, headers: &HeaderMap) -> bool {
        all_of(headers, |host| self.is_own(host))
    }
}

fn all_of(headers: &HeaderMap, right: impl Fn(&str) -> bool) -> bool {
    let hosts = headers.get_all(header::HOST).iter();
    hosts.map(|host| host.to_str().unwrap_or("?")).all(right)
}

/// Refuses requests under a strange name.
pub(super) async fn guard(
    extract::State(hosts): extract::State<Hosts>,
    request: Request,
    next: Next,
) -> Response {
    if hosts.allow_all_of(request.headers()) {
        return next.run(request).await;
    }
    let detail = "the host header names neither an address nor localhost; the listener is for this machine alone";
    Problem::new(Kind::Misdirected, detail).of("host").into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_this_machine_pass() {
        let local = Hosts::of("broker.test:9093", IpAddr::from([127, 0, 0, 1]));
        for host in [
            "127.0.0.1:9093",
            "127.0.0.1",
            "[::1]:9093",
            "[::1]",
            "localhost:9093",
            "LocalHost",
            "a.localhost:1",
            "broker.test:9093",
            "10.0.0.1:80",
        ] {
            assert!(local.allow(host), "{host}");
        }
        for host in [
            "example.org",
            "example.org:9093",
            "localhost.example.org",
            "127.0.0.1.example.org:9093",
            "",
        ] {
            assert!(!local.allow(host), "{host}");
        }
        let public = Hosts::of("0.0.0.0:9093", IpAddr::from([0, 0, 0, 0]));
        assert!(public.allow("example.org") && !public.is_own("example.org"));
        assert!(public.is_own("10.0.0.1:9093"));
    }
}
