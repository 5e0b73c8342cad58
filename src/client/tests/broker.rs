//! A broker that does what a test tells it, byte by byte if need be.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::protocol::{self, Ack, Parsed, Request};
use crate::record::{Check, FrameBuilder, FrameLimits, HEADER_LEN, Header, check};

pub(super) struct Broker {
    listener: TcpListener,
}

/// A connection whose handshake was read.
pub(super) struct Peer {
    stream: TcpStream,
    buf: Vec<u8>,
    pub(super) request: Request,
}

/// A frame as it came.
#[derive(Debug)]
pub(super) struct Received {
    pub(super) header: Header,
    pub(super) key: Vec<u8>,
    pub(super) payload: Vec<u8>,
}

impl Received {
    pub(super) fn text(&self) -> String {
        String::from_utf8(self.payload.clone()).unwrap()
    }
}

impl Broker {
    pub(super) async fn start() -> Self {
        Self { listener: TcpListener::bind("127.0.0.1:0").await.unwrap() }
    }

    pub(super) fn addr(&self) -> String {
        self.listener.local_addr().unwrap().to_string()
    }

    /// A connection as it is, perhaps given up by its client already.
    pub(super) async fn accept_raw(&self) -> TcpStream {
        self.listener.accept().await.unwrap().0
    }

    pub(super) async fn accept(&self) -> Peer {
        let mut stream = self.accept_raw().await;
        let mut buf = Vec::new();
        loop {
            if let Parsed::Complete(request, len) = protocol::parse(&buf).unwrap() {
                buf.drain(..len);
                return Peer { stream, buf, request };
            }
            assert!(stream.read_buf(&mut buf).await.unwrap() > 0, "closed during the handshake");
        }
    }
}

impl Peer {
    /// The next frame; `None` when the client has closed.
    pub(super) async fn frame(&mut self) -> Option<Received> {
        loop {
            if let Check::Complete(header) = check(&self.buf, &FrameLimits::STORED).unwrap() {
                let rest = self.buf.split_off(usize::try_from(header.frame_len()).unwrap());
                let frame = std::mem::replace(&mut self.buf, rest);
                let (key, payload) = frame[HEADER_LEN..].split_at(header.key_size as usize);
                return Some(Received { header, key: key.to_vec(), payload: payload.to_vec() });
            }
            match self.stream.read_buf(&mut self.buf).await {
                Ok(0) => return None,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// The texts of the next `n` frames.
    pub(super) async fn texts(&mut self, n: usize) -> Vec<String> {
        let mut texts = Vec::new();
        for _ in 0..n {
            texts.push(self.frame().await.expect("the client closed").text());
        }
        texts
    }

    /// Bytes as they come; 0 when the client has closed.
    pub(super) async fn read(&mut self, chunk: &mut [u8]) -> usize {
        if !self.buf.is_empty() {
            let n = self.buf.len().min(chunk.len());
            self.buf.drain(..n);
            return n;
        }
        self.stream.read(chunk).await.unwrap_or(0)
    }

    pub(super) async fn ack(&mut self, offset: u64) {
        self.send(&Ack::stored(offset).to_bytes()).await;
    }

    pub(super) async fn refuse(&mut self) {
        self.send(&Ack::NOT_STORED.to_bytes()).await;
    }

    pub(super) async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    /// Acks every frame until the client closes, offsets from `first` on; returns the texts.
    pub(super) async fn ack_all(&mut self, first: u64) -> Vec<String> {
        let mut offset = first;
        let mut texts = Vec::new();
        while let Some(frame) = self.frame().await {
            self.ack(offset).await;
            offset += u64::from(frame.header.records());
            texts.push(frame.text());
        }
        texts
    }

    /// Whether the client has closed its side, and sent nothing before.
    pub(super) async fn is_closed(&mut self) -> bool {
        self.buf.is_empty() && matches!(self.stream.read_buf(&mut self.buf).await, Ok(0) | Err(_))
    }
}

/// A stored frame of one record without a key.
pub(super) fn stored(offset: u64, payload: &str) -> Vec<u8> {
    batch(offset, payload, 1)
}

/// A stored frame of `count` records.
pub(super) fn batch(offset: u64, payload: &str, count: u32) -> Vec<u8> {
    let mut out = Vec::new();
    let frame = FrameBuilder::new(1000 + offset).offset(offset).record_count(count);
    frame.write(payload.as_bytes(), &mut out).unwrap();
    out
}
