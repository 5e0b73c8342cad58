//! Protocol 1.0 over a socket, with nothing between the test and the bytes.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};

use hermitmq::protocol::{ACK_LEN, Ack, COMMIT_ACK};
use hermitmq::record::{Check, FrameBuilder, FrameLimits, HEADER_LEN, Header, check, wire};

use super::HANG;

pub const PRODUCE: u8 = 1;
pub const CONSUME: u8 = 2;
pub const COMMIT: u8 = 3;

/// A string of the protocol: a length byte and the bytes, whatever they are.
pub fn name(bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let bytes = bytes.as_ref();
    let mut out = vec![u8::try_from(bytes.len()).unwrap()];
    out.extend_from_slice(bytes);
    out
}

/// A handshake of any role with any names, legal or not, without a commit's offset.
pub fn handshake<N: AsRef<[u8]>>(role: u8, names: &[N], partition: u32) -> Vec<u8> {
    let mut out = vec![role];
    for each in names {
        out.extend_from_slice(&name(each));
    }
    out.extend_from_slice(&wire::u32_bytes(partition));
    out
}

/// A frame of one record as a sender writes it.
pub fn frame(timestamp: u64, key: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    FrameBuilder::new(timestamp).key(key).write(payload, &mut out).unwrap();
    out
}

/// A frame as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    pub header: Header,
    pub bytes: Vec<u8>,
}

impl Frame {
    pub fn key(&self) -> &[u8] {
        &self.bytes[HEADER_LEN..HEADER_LEN + self.header.key_size as usize]
    }

    pub fn payload(&self) -> &[u8] {
        &self.bytes[HEADER_LEN + self.header.key_size as usize..]
    }

    /// The bytes that were sent for it: all but the offset is the same.
    pub fn as_sent(&self) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        bytes[9..17].fill(0);
        bytes
    }
}

/// The frames of `bytes`, which must be frames and nothing else.
pub fn frames_of(mut bytes: &[u8]) -> Vec<Frame> {
    let mut frames = Vec::new();
    while !bytes.is_empty() {
        match check(bytes, &FrameLimits::STORED) {
            Ok(Check::Complete(header)) => {
                let (frame, rest) = bytes.split_at(usize::try_from(header.frame_len()).unwrap());
                frames.push(Frame { header, bytes: frame.to_vec() });
                bytes = rest;
            }
            other => panic!("after {} frames: {other:?}, {} bytes", frames.len(), bytes.len()),
        }
    }
    frames
}

/// Each frame stands where the one before it ends, the first at `first`. Returns the offset after them.
pub fn assert_offsets_follow(frames: &[Frame], first: u64) -> u64 {
    frames.iter().fold(first, |expected, frame| {
        assert_eq!(frame.header.offset, expected);
        frame.header.next_offset()
    })
}

/// A connection. Whatever takes longer than [`HANG`] fails the test.
#[derive(Debug)]
pub struct RawClient {
    stream: TcpStream,
}

impl RawClient {
    pub fn connect(addr: SocketAddr) -> Self {
        Self::try_connect(addr).unwrap()
    }

    fn try_connect(addr: SocketAddr) -> std::io::Result<Self> {
        Self::over(TcpStream::connect_timeout(&addr, HANG)?)
    }

    fn over(stream: TcpStream) -> std::io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(HANG))?;
        stream.set_write_timeout(Some(HANG))?;
        Ok(Self { stream })
    }

    /// Makes the receive buffer small, so that little is enough to fill what is between it and the broker.
    pub fn narrow(&self) {
        socket2::SockRef::from(&self.stream).set_recv_buffer_size(16 * 1024).unwrap();
    }

    /// Connects from this address of the machine.
    pub fn connect_from(from: IpAddr, addr: SocketAddr) -> Self {
        use socket2::{Domain, Socket, Type};
        let socket = Socket::new(Domain::for_address(addr), Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::new(from, 0).into()).unwrap();
        socket.connect_timeout(&addr.into(), HANG).unwrap();
        Self::over(socket.into()).unwrap()
    }

    /// Connects and sends, where the broker may have gone.
    pub fn try_begin(addr: SocketAddr, bytes: &[u8]) -> Option<Self> {
        let mut client = Self::try_connect(addr).ok()?;
        client.try_send(bytes).then_some(client)
    }

    pub fn produce(addr: SocketAddr, topic: &str, partition: u32) -> Self {
        let mut client = Self::connect(addr);
        client.send(&handshake(PRODUCE, &[topic], partition));
        client
    }

    pub fn consume(addr: SocketAddr, group: &str, topic: &str, partition: u32) -> Self {
        let mut client = Self::connect(addr);
        client.send(&handshake(CONSUME, &[group, topic], partition));
        client
    }

    /// The client's own address: the `peer` of the broker's log.
    pub fn local_addr(&self) -> SocketAddr {
        self.stream.local_addr().unwrap()
    }

    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// A second handle on the same connection, to send and receive in two threads.
    pub fn split(&self) -> Self {
        Self { stream: self.stream.try_clone().unwrap() }
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("send");
    }

    /// Sends, where the broker may have gone.
    pub fn try_send(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).is_ok()
    }

    pub fn read(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.stream.read_exact(&mut bytes).expect("receive");
        bytes
    }

    pub fn read_ack(&mut self) -> Ack {
        Ack::read(&self.read(ACK_LEN)).unwrap()
    }

    /// The next ack; `None` once the connection is closed or broken.
    pub fn try_read_ack(&mut self) -> Option<Ack> {
        let mut bytes = [0; ACK_LEN];
        match self.stream.read_exact(&mut bytes) {
            Ok(()) => Ack::read(&bytes),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                panic!("no ack and no end either")
            }
            Err(_) => None,
        }
    }

    /// Reads an ack that must say the frame is stored; returns its offset.
    pub fn stored(&mut self) -> u64 {
        let ack = self.read_ack();
        assert_eq!(ack.code, 0, "{ack:?}");
        ack.offset
    }

    /// Sends a frame and waits until it is stored.
    pub fn append(&mut self, frame: &[u8]) -> u64 {
        self.send(frame);
        self.stored()
    }

    pub fn read_frame(&mut self) -> Frame {
        let mut bytes = self.read(HEADER_LEN);
        let header = Header::read(&bytes).unwrap();
        assert_eq!(header.magic, 1, "a frame begins with the magic byte: {header:?}");
        let rest = usize::try_from(header.frame_len()).unwrap() - HEADER_LEN;
        bytes.extend(self.read(rest));
        Frame { header, bytes }
    }

    pub fn read_frames(&mut self, count: usize) -> Vec<Frame> {
        (0..count).map(|_| self.read_frame()).collect()
    }

    /// Says that nothing more will be sent; receiving goes on.
    pub fn finish_sending(&self) {
        self.stream.shutdown(Shutdown::Write).unwrap();
    }

    /// As [`RawClient::finish_sending`], where the broker may have gone.
    pub fn try_finish_sending(&self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Everything until the broker closes.
    pub fn read_to_end(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.stream.read_to_end(&mut bytes).expect("receive until the end");
        bytes
    }

    /// Waits for the broker to close, which it must do without having sent a byte. A reset counts: it is what
    /// closing looks like when the broker left bytes unread.
    pub fn assert_closed_without_a_byte(&mut self) {
        let mut byte = [0; 1];
        match self.stream.read(&mut byte) {
            Ok(0) => {}
            Ok(_) => panic!("a byte came before the close: {:#04x}", byte[0]),
            Err(e) if matches!(e.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) => {}
            Err(e) => panic!("not closed: {e}"),
        }
    }
}

/// Commits an offset and takes the answer.
pub fn commit(addr: SocketAddr, group: &str, topic: &str, partition: u32, offset: u64) {
    let mut client = RawClient::connect(addr);
    let mut bytes = handshake(COMMIT, &[group, topic], partition);
    bytes.extend_from_slice(&wire::u64_bytes(offset));
    client.send(&bytes);
    assert_eq!(client.read(1), COMMIT_ACK);
}

/// Everything a group has before it: a consumer that will send nothing more gets what there is, then the end.
pub fn drain(addr: SocketAddr, group: &str, topic: &str, partition: u32) -> Vec<Frame> {
    let mut client = RawClient::consume(addr, group, topic, partition);
    client.finish_sending();
    frames_of(&client.read_to_end())
}
