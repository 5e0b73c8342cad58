//! Stands between a browser and a broker, and answers in its place where a test wants it: who may do what is not the dashboard's
//! to know, what it shows then is.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Status, code and title of the broker's own problems.
const UNAUTHENTICATED: (u16, &str, &str) = (401, "unauthenticated", "The request needs a token");
const UNAUTHORIZED: (u16, &str, &str) = (403, "unauthorized", "The request is not allowed");
const MISDIRECTED: (u16, &str, &str) = (421, "misdirected", "The request is not for this listener");

/// What becomes of a request to `/api/v1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rule {
    /// Only who has this token is let through.
    Token(&'static str),
    /// As `Token`, and nothing but looking is allowed.
    ReadOnly(&'static str),
    /// As `Token`, and the others are known by their network, at a name that anybody may have chosen.
    Strange(&'static str),
    /// All are known, and may do nothing.
    Nothing,
    /// There is no answer.
    Silence,
}

/// A gate, open until the process ends.
pub(super) struct Gate {
    pub(super) addr: SocketAddr,
    rule: Arc<Mutex<Rule>>,
    watched: Arc<AtomicUsize>,
}

impl Gate {
    pub(super) fn before(broker: SocketAddr, rule: Rule) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let rule = Arc::new(Mutex::new(rule));
        let shared = Arc::clone(&rule);
        let watched = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&watched);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let rule = *shared.lock().unwrap();
                let watched = Arc::clone(&counter);
                // A browser may leave at any time.
                std::thread::spawn(move || serve(stream.unwrap(), broker, rule, &watched).is_ok());
            }
        });
        Self { addr, rule, watched }
    }

    /// How often the stream of events was asked for.
    pub(super) fn watched(&self) -> usize {
        self.watched.load(Ordering::SeqCst)
    }

    pub(super) fn set(&self, rule: Rule) {
        *self.rule.lock().unwrap() = rule;
    }
}

fn serve(
    mut browser: TcpStream,
    broker: SocketAddr,
    rule: Rule,
    watched: &AtomicUsize,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(browser.try_clone()?);
    let (mut head, mut length) = (Vec::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let lower = line.to_ascii_lowercase();
        if let Some(value) = lower.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line == "\r\n" {
            break;
        }
        // One request a connection.
        if !lower.starts_with("connection:") {
            head.push(line);
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    if head[0].contains(" /api/v1/events") {
        watched.fetch_add(1, Ordering::SeqCst);
    }
    if head[0].contains(" /api/v1") {
        let knows = |token: &str| {
            head.iter().any(|line| {
                line.trim_end().eq_ignore_ascii_case(&format!("authorization: Bearer {token}"))
            })
        };
        let refusal = match rule {
            Rule::Token(token) | Rule::ReadOnly(token) if !knows(token) => Some(UNAUTHENTICATED),
            Rule::Strange(token) if !knows(token) => Some(MISDIRECTED),
            Rule::ReadOnly(_) if !head[0].starts_with("GET ") => Some(UNAUTHORIZED),
            Rule::Nothing => Some(UNAUTHORIZED),
            Rule::Silence => {
                // Until the browser gives up.
                return reader.read_to_end(&mut body).map(drop);
            }
            Rule::Token(_) | Rule::ReadOnly(_) | Rule::Strange(_) => None,
        };
        if let Some((status, code, title)) = refusal {
            let body = format!(
                r#"{{"type":"urn:hermitmq:problem:{code}","title":"{title}","status":{status},"detail":"this token may not do that"}}"#
            );
            let length = body.len();
            return write!(
                browser,
                "HTTP/1.1 {status} {code}\r\ncontent-type: application/problem+json\r\ncontent-length: {length}\r\n\
                 connection: close\r\n\r\n{body}"
            );
        }
    }
    let mut upstream = TcpStream::connect(broker)?;
    write!(upstream, "{}connection: close\r\n\r\n", head.concat())?;
    upstream.write_all(&body)?;
    std::io::copy(&mut upstream, &mut browser).map(drop)
}
