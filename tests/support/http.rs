//! HTTP/1.1 in a few lines, as much as the admin listener needs.

use std::fmt::Debug;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::str::FromStr;

use super::HANG;

/// An answer.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Answer {
    pub fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(header, _)| header == name);
        found.map_or("", |(_, value)| value)
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Asks on a connection of its own; an error if nobody listens or the connection breaks.
pub fn try_request(
    addr: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> std::io::Result<Answer> {
    let first = format!("{method} {path} HTTP/1.1");
    let mut lines = vec![first, format!("host: {addr}"), "connection: close".to_owned()];
    lines.extend(headers.iter().map(|(name, value)| format!("{name}: {value}")));
    if !body.is_empty() {
        lines.push(format!("content-length: {}", body.len()));
    }
    let head = lines.join("\r\n");
    exchange(addr, &[format!("{head}\r\n\r\n").as_bytes(), body].concat())
}

/// Sends bytes, whatever they are, and reads an answer.
pub fn exchange(addr: SocketAddr, bytes: &[u8]) -> std::io::Result<Answer> {
    let mut stream = TcpStream::connect(addr)?;
    stream.set_read_timeout(Some(HANG))?;
    // What is too large may be refused before all of it is sent.
    let _ = stream.write_all(bytes);
    read_answer(BufReader::new(stream))
}

fn read_answer(mut stream: impl BufRead) -> std::io::Result<Answer> {
    let mut line = String::new();
    stream.read_line(&mut line)?;
    let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.ok_or_else(|| std::io::Error::other(format!("no status: {line:?}")))?;
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let mut body = Vec::new();
    match length {
        Some((_, length)) => {
            body.resize(length.parse().unwrap(), 0);
            stream.read_exact(&mut body)?;
        }
        None => drop(stream.read_to_end(&mut body)?),
    }
    Ok(Answer { status, headers, body: String::from_utf8(body).unwrap() })
}

/// Asks without a body.
pub fn get(addr: SocketAddr, path: &str) -> Answer {
    try_request(addr, "GET", path, &[], b"").unwrap()
}

/// Sends JSON; no body for `null`.
pub fn send(addr: SocketAddr, method: &str, path: &str, body: &serde_json::Value) -> Answer {
    let headers = [("content-type", "application/json")];
    let body = if body.is_null() { String::new() } else { body.to_string() };
    try_request(addr, method, path, &headers, body.as_bytes()).unwrap()
}

/// A sample of `/metrics`, by its name and labels as they stand there.
pub fn metric(admin: SocketAddr, sample: &str) -> i64 {
    metric_of(&get(admin, "/metrics").body, sample)
}

/// As [`metric`], in the text of `/metrics`, however that was asked for.
pub fn metric_of<T: FromStr<Err: Debug>>(text: &str, sample: &str) -> T {
    let found = text.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
    found.unwrap_or_else(|| panic!("no sample {sample}:\n{text}")).parse().unwrap()
}

/// Connections that were closed for a reason.
pub fn closed(admin: SocketAddr, reason: &str) -> i64 {
    metric(admin, &format!("hermitmq_connections_closed_total{{reason=\"{reason}\"}}"))
}
