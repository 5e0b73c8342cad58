//! Connections that are open and say nothing while something else is measured.
//!
//! Idle producers have named a topic and send no frame; parked consumers stand at the end of a topic that nobody writes
//! to. What they cost the others is what is asked.

use std::net::TcpStream;
use std::time::Duration;

use rustix::net::RecvFlags;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::cli::failure::Failure;
use crate::model::TopicName;

use super::args::SilentArgs;
use super::target::Target;

/// Their topic. Nothing is ever stored in it.
const TOPIC: &str = "bench-silent";

/// Protocol 1.0 does not answer a handshake: after this time the broker has acted upon all of them, or upon their end.
const SETTLE: Duration = Duration::from_millis(300);

/// Silent connections; closed when dropped.
#[derive(Debug)]
pub(super) struct Silent(Vec<TcpStream>);

impl Silent {
    /// Opens them, spread over the partitions that the target uses.
    pub(super) fn open(target: &Target, args: SilentArgs) -> Result<Self, Failure> {
        if args.is_empty() {
            return Ok(Self(Vec::new()));
        }
        raise_descriptor_limit();
        let topic = TopicName::parse(TOPIC)
            .map_err(|error| Failure::runtime("cannot name a topic", &error))?;
        let mut streams = target.producers(&topic, args.idle)?;
        for number in 0..args.parked {
            streams.push(target.consumer(&topic, number)?);
        }
        std::thread::sleep(SETTLE);
        let silent = Self(streams);
        silent.check()?;
        Ok(silent)
    }

    /// Fails unless each of them is still open, and as silent as it should be.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let flags = RecvFlags::DONTWAIT | RecvFlags::PEEK;
        let is_silent = |stream: &&TcpStream| {
            matches!(
                rustix::net::recv(stream, &mut [0; 1], flags),
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR)
            )
        };
        let (all, open) = (self.0.len(), self.0.iter().filter(is_silent).count());
        if open == all {
            return Ok(());
        }
        Err(Failure::Runtime(format!(
            "of {all} silent connections only {open} stayed open and silent"
        )))
    }

    /// Closes them, and waits until that is over for the broker, too.
    pub(super) fn close(self) {
        if !self.0.is_empty() {
            drop(self.0);
            std::thread::sleep(SETTLE);
        }
    }
}

/// A shell allows 1,024 descriptors, as a rule, and more to those who ask.
fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    // If it is refused, a connection that finds no descriptor says so.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::io::Write as _;
    use std::net::TcpListener;

    #[test]
    fn a_connection_that_speaks_or_ends_is_noticed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let pair = || {
            let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            (near, listener.accept().unwrap().0)
        };
        let (quiet, _open) = pair();
        let (talker, mut far) = pair();
        let mut silent = Silent(vec![quiet, talker]);
        silent.check().unwrap();
        far.write_all(b"x").unwrap();
        // Until the byte is there.
        silent.0[1].peek(&mut [0]).unwrap();
        let failure = silent.check().unwrap_err();
        assert_eq!(failure.to_string(), "of 2 silent connections only 1 stayed open and silent");
        silent.0.pop();
        silent.check().unwrap();
        let (ended, far) = pair();
        silent.0.push(ended);
        drop(far);
        silent.0[1].peek(&mut [0]).unwrap();
        assert!(silent.check().is_err());
        silent.close();
    }
}
