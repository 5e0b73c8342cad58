//! The admin listener without a broker, and what is wrong with requests.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use super::problem::Kind;
use super::{About, Admin, BindError, Listener, Options, State};
use crate::access::Access;

fn options(listen: &str, insecure: bool) -> Options {
    Options { listen: listen.to_owned(), insecure, ..Options::default() }
}

#[test]
fn an_address_that_others_reach_needs_a_word() {
    for listen in ["0.0.0.0:0", "[::]:0"] {
        let refused = Listener::bind(&options(listen, false), false).unwrap_err();
        assert!(matches!(refused, BindError::NotLoopback { .. }), "{refused}");
        assert!(refused.to_string().contains("admin.insecure"), "{refused}");
    }
    assert!(Listener::bind(&options("0.0.0.0:0", true), false).unwrap().is_some());
    assert!(Listener::bind(&options("0.0.0.0:0", false), true).unwrap().is_some());
    assert!(Listener::bind(&options("localhost:0", false), false).unwrap().is_some());
    assert!(Listener::bind(&options("", false), false).unwrap().is_none());
    let holder = Listener::bind(&options("127.0.0.1:0", false), false).unwrap().unwrap();
    let taken = Listener::bind(&options(&holder.addr().to_string(), false), false).unwrap_err();
    assert!(taken.to_string().contains("admin.listen"), "{taken}");
}

#[test]
fn addresses_are_checked_when_they_are_read() {
    let read =
        |listen: &str| serde_json::from_value::<Options>(serde_json::json!({ "listen": listen }));
    for good in ["", "127.0.0.1:9093", "[::1]:0", "localhost:80"] {
        assert_eq!(read(good).unwrap().listen, good);
    }
    for bad in ["9093", ":9093", "localhost", "localhost:http", "127.0.0.1:70000"] {
        assert!(read(bad).unwrap_err().to_string().contains("must be an address"), "{bad}");
    }
}

pub(super) fn about() -> About {
    About {
        data_dir: "/nowhere".into(),
        settings: Vec::new(),
        log_level: None,
        metrics_max_series: 100,
        metrics_open: false,
        access: Arc::new(Access::open(Arc::default())),
        metrics: Arc::default(),
        progress: Arc::default(),
        tls: None,
    }
}

fn ask(addr: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(addr).unwrap();
    let head = "HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n";
    let (line, rest) = request.split_once('\n').unwrap_or((request, "\r\n"));
    stream.write_all(format!("{line} {head}{rest}").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn while_the_log_is_recovered_the_process_lives_and_is_not_ready() {
    let listener = Listener::bind(&options("127.0.0.1:0", false), false).unwrap().unwrap();
    let admin = Admin::start(listener, State::new(about()), None).unwrap();
    let get = |path: &str| ask(admin.addr(), &format!("GET {path}"));
    assert!(get("/livez").starts_with("HTTP/1.1 200 "));
    for path in ["/readyz", "/startupz"] {
        let answer = get(path);
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
        assert!(
            answer.contains(r#"{"name":"recovery","ok":false,"required":true,"reason":"#),
            "{answer}"
        );
    }
    assert!(get("/metrics").contains("\nhermitmq_ready 0\n"));
    let topic = get("/api/v1/topics/t/partitions/0/messages");
    assert!(topic.starts_with("HTTP/1.1 503 ") && topic.contains("problem:starting"), "{topic}");
    assert!(get("/api/v1/cluster").contains(r#""state":"starting""#));
    let level = get("/api/v1/log-level");
    assert!(level.starts_with("HTTP/1.1 409 "), "{level}");
    admin.stop();
}

#[test]
fn kinds_of_problems_are_told_apart() {
    let mut codes: Vec<_> = Kind::ALL.iter().map(|kind| kind.code()).collect();
    codes.sort_unstable();
    codes.dedup();
    assert_eq!(codes.len(), Kind::ALL.len());
    let documented = include_str!("../../docs/ADMIN.md");
    for kind in Kind::ALL {
        let rows = documented.lines().filter(|line| line.contains(&format!("`{}`", kind.code())));
        let status = format!("| {} |", kind.status().as_u16());
        assert!(rows.into_iter().any(|row| row.contains(&status)), "{kind:?} is not documented");
    }
}
