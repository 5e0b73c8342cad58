//! A broker of protocol 1.0 in a few lines: one partition in memory, as much as the command line needs.

use std::collections::HashMap;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};

use hermitmq::protocol::{Ack, COMMIT_ACK, Parsed, Request, parse};
use hermitmq::record::{HEADER_LEN, Header};

/// What the broker holds.
#[derive(Default)]
struct State {
    /// Frames with their offsets.
    frames: Vec<(Header, Vec<u8>)>,
    commits: HashMap<String, u64>,
    /// Frames are refused for good from this number on.
    refuse_from: Option<usize>,
}

impl State {
    fn end(&self) -> u64 {
        self.frames.last().map_or(0, |(header, _)| header.next_offset())
    }
}

/// A running broker. It lives as long as the process.
#[derive(Clone)]
pub(crate) struct Broker {
    addr: SocketAddr,
    shared: Arc<(Mutex<State>, Condvar)>,
}

impl Broker {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let broker = Self { addr: listener.local_addr().unwrap(), shared: Arc::default() };
        let serving = broker.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let broker = serving.clone();
                std::thread::spawn(move || broker.serve(stream.unwrap()));
            }
        });
        broker
    }

    pub(crate) fn addr(&self) -> String {
        self.addr.to_string()
    }

    /// Answers every frame from the `frame`th on with a status that means never.
    pub(crate) fn refuse_from(&self, frame: usize) {
        self.shared.0.lock().unwrap().refuse_from = Some(frame);
    }

    pub(crate) fn frames(&self) -> usize {
        self.shared.0.lock().unwrap().frames.len()
    }

    pub(crate) fn committed(&self, group: &str) -> Option<u64> {
        self.shared.0.lock().unwrap().commits.get(group).copied()
    }

    /// Groups that have committed anything.
    pub(crate) fn groups(&self) -> usize {
        self.shared.0.lock().unwrap().commits.len()
    }

    fn serve(&self, mut stream: TcpStream) -> io::Result<()> {
        let mut bytes = Vec::new();
        loop {
            let mut byte = [0];
            stream.read_exact(&mut byte)?;
            bytes.push(byte[0]);
            match parse(&bytes) {
                Ok(Parsed::Incomplete) => {}
                Ok(Parsed::Complete(request, _)) => return self.answer(&request, stream),
                Err(_) => return Ok(()),
            }
        }
    }

    fn answer(&self, request: &Request, mut stream: TcpStream) -> io::Result<()> {
        match request {
            Request::Produce { .. } => loop {
                let ack = self.store(&mut stream)?;
                stream.write_all(&ack.to_bytes())?;
            },
            Request::Consume { group, .. } => self.send_from(group.as_str(), stream),
            Request::Commit { group, offset, .. } => {
                let mut state = self.shared.0.lock().unwrap();
                let offset = (*offset).min(state.end());
                state.commits.insert(group.as_str().to_owned(), offset);
                drop(state);
                stream.write_all(&COMMIT_ACK)
            }
        }
    }

    fn store(&self, stream: &mut TcpStream) -> io::Result<Ack> {
        let mut header = [0; HEADER_LEN];
        stream.read_exact(&mut header)?;
        let mut header = Header::read(&header).unwrap();
        let mut body = vec![0; usize::try_from(header.frame_len()).unwrap() - HEADER_LEN];
        stream.read_exact(&mut body)?;
        let mut state = self.shared.0.lock().unwrap();
        if state.refuse_from.is_some_and(|from| state.frames.len() >= from) {
            return Ok(Ack { code: 0x02, offset: 0 });
        }
        header.offset = state.end();
        state.frames.push((header, body));
        self.shared.1.notify_all();
        Ok(Ack::stored(header.offset))
    }

    fn send_from(&self, group: &str, mut stream: TcpStream) -> io::Result<()> {
        let mut state = self.shared.0.lock().unwrap();
        let start = state.commits.get(group).copied().unwrap_or(0);
        let mut next = state.frames.iter().take_while(|(h, _)| h.next_offset() <= start).count();
        loop {
            while let Some((header, body)) = state.frames.get(next) {
                stream.write_all(&header.to_bytes())?;
                stream.write_all(body)?;
                next += 1;
            }
            state = self.shared.1.wait(state).unwrap();
        }
    }
}
