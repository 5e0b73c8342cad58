//! Small files that a setting or a flag names: read whole.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// The bytes of a regular file of at most `bytes_max`: a device or a pipe may give bytes without end, or none ever. One that is
/// larger is [`io::ErrorKind::FileTooLarge`].
pub fn read_named_file(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    // What was opened is looked at, not what has the name meanwhile.
    let file = open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("is not a regular file"));
    }
    let mut bytes = Vec::new();
    let read = file.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    if read as u64 > bytes_max {
        let message = format!("is larger than {bytes_max} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(bytes)
}

/// Without waiting for somebody who writes to a pipe.
#[cfg(feature = "server")]
fn open(path: &Path) -> io::Result<File> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
}

/// Here that takes a look before.
#[cfg(not(feature = "server"))]
fn open(path: &Path) -> io::Result<File> {
    if std::fs::metadata(path)?.is_file() {
        File::open(path)
    } else {
        Err(io::Error::other("is not a regular file"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_regular_file_of_at_most_so_many_bytes_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, b"four").unwrap();
        assert_eq!(read_named_file(&file, 4).unwrap(), b"four");
        let error = read_named_file(&file, 3).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(error.to_string(), "is larger than 3 bytes");
        let fifo = dir.path().join("fifo");
        let made = std::process::Command::new("mkfifo").arg(&fifo).status();
        assert!(made.unwrap().success());
        for other in [dir.path(), &fifo, Path::new("/dev/zero")] {
            let error = read_named_file(other, 4).unwrap_err();
            assert_eq!(error.to_string(), "is not a regular file", "{}", other.display());
        }
        assert_eq!(
            read_named_file(&dir.path().join("none"), 4).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
    }
}
