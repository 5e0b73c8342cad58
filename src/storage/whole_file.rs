//! Small files that are read whole and replaced whole.

use std::io;
use std::path::Path;

use super::disk::{Disk, Open};

/// The bytes of a file; `None` if it is not there.
pub fn read_file(disk: &dyn Disk, path: &Path) -> io::Result<Option<Vec<u8>>> {
    let file = match disk.open(path, Open::Existing) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let len = usize::try_from(file.len()?).map_err(io::Error::other)?;
    let mut bytes = vec![0; len];
    let read = file.read_full_at(&mut bytes, 0)?;
    bytes.truncate(read);
    Ok(Some(bytes))
}

/// Puts `bytes` in the place of what is there, durably: the old file or the new one is there, whatever happens.
pub fn replace_file(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".tmp");
    let temporary = Path::new(&temporary);
    let file = disk.open(temporary, Open::Truncate)?;
    file.write_all_at(bytes, 0)?;
    file.sync_data()?;
    disk.rename(temporary, path)?;
    path.parent().map_or(Ok(()), |dir| disk.sync_dir(dir))
}
