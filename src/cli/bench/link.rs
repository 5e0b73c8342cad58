//! Connections that are measured must not hang, and say how they broke.

use std::io::ErrorKind;
use std::net::TcpStream;
use std::time::Duration;

use crate::cli::failure::Failure;

/// What does not come within this time does not come.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// Makes reads from the connection end after [`PATIENCE`].
pub(super) fn be_patient(stream: &TcpStream) -> Result<(), Failure> {
    let limited = stream.set_read_timeout(Some(PATIENCE));
    limited.map_err(|error| Failure::runtime("cannot set up a connection", &error))
}

/// A connection that broke or fell silent, and what it had done until then, such as "17 frames".
pub(super) fn broken(error: &std::io::Error, done: &str) -> Failure {
    let text = match error.kind() {
        ErrorKind::UnexpectedEof => "the peer closed the connection".to_owned(),
        // What a read that timed out says depends on the system.
        ErrorKind::WouldBlock | ErrorKind::TimedOut => {
            format!("nothing came for {} seconds", PATIENCE.as_secs())
        }
        _ => format!("the connection broke: {error}"),
    };
    Failure::Runtime(format!("{text}, after {done}"))
}
