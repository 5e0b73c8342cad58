//! Latency from the time at which a record is due to be sent until its consumer has it, at a fixed rate.
//!
//! A frame carries its due time as its timestamp, in nanoseconds since the run began, on a clock that both threads
//! share. One that leaves late, because the sender was held up, counts from when it was due: no coordinated omission.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::RecvFlags;

use crate::cli::failure::Failure;
use crate::client::raw::{self, ACK_LEN, Acks, HEADER_LEN, Header};

use super::link;
use super::pace::{self, Pace};
use super::stats::{Latencies, Percentiles, nanos};

/// Frames between two looks for acks, which cost a system call and wake nobody.
const ACKS_EVERY: u64 = 16;

/// From the decision to start to the first due time.
const LEAD: Duration = Duration::from_millis(5);

/// What is sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    pub(super) record_size: u32,
    /// Records a second.
    pub(super) rate: u32,
    pub(super) records: u64,
    /// Whether there is an ack for each record.
    pub(super) acks: bool,
}

impl Load {
    /// Records of so many seconds; at least one.
    pub(super) fn records_in(rate: u32, seconds: f64) -> u64 {
        // In whole milliseconds, of which there are at most 86,400,000.
        let millis = Duration::from_secs_f64(seconds).as_millis();
        u64::try_from(millis * u128::from(rate) / 1000).unwrap_or(u64::MAX).max(1)
    }
}

/// What came of it.
#[derive(Debug)]
pub(super) struct Delivered {
    /// From due to received.
    pub(super) latency: Percentiles,
    /// From due to sent: how much of the latency is the sender's own.
    pub(super) lateness: Percentiles,
    pub(super) elapsed: Duration,
}

/// Sends a record and waits for it, so that the path is known to be open; then the load.
pub(super) fn run(out: &TcpStream, into: &TcpStream, load: &Load) -> Result<Delivered, Failure> {
    for stream in [out, into] {
        link::be_patient(stream)?;
    }
    first(out, into, load).map_err(|error| broken(&error, 0))?;
    let start = Instant::now() + LEAD;
    thread::scope(|scope| {
        let sender = scope.spawn(|| send(out, load, start));
        let received = receive(into, load, start);
        let sent = sender
            .join()
            .unwrap_or_else(|_| Err(Failure::Runtime("the sender ended unexpectedly".to_owned())));
        // Why nothing was sent says more than that nothing came.
        let lateness = sent?;
        let latency = received?;
        let elapsed = start.elapsed();
        Ok(Delivered { latency: latency.percentiles(), lateness: lateness.percentiles(), elapsed })
    })
}

fn frame(load: &Load, timestamp: u64) -> io::Result<Vec<u8>> {
    let payload = vec![b'x'; load.record_size as usize];
    raw::frames(&payload, 1, timestamp, 1).map_err(io::Error::other)
}

fn first(mut out: &TcpStream, mut into: &TcpStream, load: &Load) -> io::Result<()> {
    let mut frame = frame(load, 0)?;
    out.write_all(&frame)?;
    if load.acks {
        out.read_exact(&mut [0; ACK_LEN])?;
    }
    into.read_exact(&mut frame)
}

fn send(mut stream: &TcpStream, load: &Load, start: Instant) -> Result<Latencies, Failure> {
    pace::be_punctual();
    let pace = Pace::new(start, load.rate);
    let mut lateness = Latencies::new()?;
    let mut acks = Acks::default();
    for number in 0..load.records {
        let due = pace.after(number);
        let frame = frame(load, nanos(due)).map_err(|error| broken(&error, number))?;
        pace.wait_for(number);
        lateness.add(start.elapsed().saturating_sub(due));
        stream.write_all(&frame).map_err(|error| broken(&error, number))?;
        if load.acks && number % ACKS_EVERY == 0 {
            take_acks(stream, &mut acks)?;
        }
    }
    Ok(lateness)
}

/// Reads the acks that are there, without waiting.
fn take_acks(stream: &TcpStream, acks: &mut Acks) -> Result<(), Failure> {
    let mut buf = [0; 8 * 1024];
    match rustix::net::recv(stream, &mut buf, RecvFlags::DONTWAIT) {
        Ok((_, read)) => acks.add(&buf[..read]),
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
        Err(error) => return Err(broken(&error.into(), acks.stored)),
    }
    if acks.refused > 0 {
        return Err(Failure::Runtime("the broker refused a record".to_owned()));
    }
    Ok(())
}

fn receive(mut stream: &TcpStream, load: &Load, start: Instant) -> Result<Latencies, Failure> {
    let frame_len = HEADER_LEN + load.record_size as usize;
    let mut latencies = Latencies::new()?;
    let mut buf = vec![0; frame_len.max(64 * 1024)];
    let (mut filled, mut count) = (0, 0);
    while count < load.records {
        match stream.read(&mut buf[filled..]) {
            Ok(0) => return Err(broken(&io::ErrorKind::UnexpectedEof.into(), count)),
            Ok(read) => filled += read,
            Err(error) => return Err(broken(&error, count)),
        }
        let now = start.elapsed();
        let whole = filled - filled % frame_len;
        for header in buf[..whole].chunks_exact(frame_len).filter_map(Header::read) {
            latencies.add(now.saturating_sub(Duration::from_nanos(header.timestamp)));
            count += 1;
        }
        buf.copy_within(whole..filled, 0);
        filled -= whole;
    }
    Ok(latencies)
}

fn broken(error: &io::Error, records: u64) -> Failure {
    link::broken(error, &format!("{records} records"))
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::net::TcpListener;

    #[test]
    fn records_of_a_time() {
        assert_eq!(Load::records_in(5000, 2.0), 10_000);
        assert_eq!(Load::records_in(1, 0.001), 1);
    }

    /// A relay that stops for a while delays what is due meanwhile, and all of that is seen.
    #[test]
    fn a_stop_counts_for_every_record_that_was_due() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let pair = || {
            let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            (near, listener.accept().unwrap().0)
        };
        let ((out, mut relay_in), (into, mut relay_out)) = (pair(), pair());
        let load = Load { record_size: 10, rate: 1000, records: 160, acks: false };
        let stop = Duration::from_millis(100);
        thread::spawn(move || {
            let mut frame = [0; HEADER_LEN + 10];
            for number in 0.. {
                if relay_in.read_exact(&mut frame).is_err() {
                    break;
                }
                if number == 20 {
                    thread::sleep(stop);
                }
                if relay_out.write_all(&frame).is_err() {
                    break;
                }
            }
        });
        let delivered = run(&out, &into, &load).unwrap();
        assert_eq!(delivered.latency.count, 160);
        assert!(delivered.latency.max_us >= 99_000.0, "{delivered:?}");
        // A hundred records were due during the stop: most of the run has seen some of it.
        assert!(delivered.latency.p999_us >= 90_000.0, "{delivered:?}");
        assert!(delivered.latency.p50_us >= 5_000.0, "{delivered:?}");
    }
}
