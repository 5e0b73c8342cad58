//! Small files that a setting or a flag names: read whole.

use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::path::Path;

/// The bytes of a regular file of at most `bytes_max`: a device or a pipe may give bytes without end, or none ever. One that is
/// larger is [`io::ErrorKind::FileTooLarge`].
pub fn read_named_file(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    // What was opened is looked at, not what has the name meanwhile.
    let file = open(path)?;
    check(&file.metadata()?)?;
    let mut bytes = Vec::new();
    let read = file.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    if read as u64 > bytes_max {
        let message = format!("is larger than {bytes_max} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(bytes)
}

/// Containers get a directory where a file that is to be mounted is not there.
fn check(metadata: &Metadata) -> io::Result<()> {
    match metadata {
        it if it.is_file() => Ok(()),
        it if it.is_dir() => Err(io::Error::other("is a directory")),
        _ => Err(io::Error::other("is not a regular file")),
    }
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
    check(&std::fs::metadata(path)?)?;
    File::open(path)
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
        let no_file = "is not a regular file";
        for (other, what) in
            [(dir.path(), "is a directory"), (&fifo, no_file), (Path::new("/dev/zero"), no_file)]
        {
            assert_eq!(read_named_file(other, 4).unwrap_err().to_string(), what);
        }
        assert_eq!(
            read_named_file(&dir.path().join("none"), 4).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
    }
}
