//! One broker for each data directory: faults 10 and 11.

use std::fs;

use super::super::{DataDirError, DirLock};

#[test]
fn the_second_one_is_told_who_holds_it() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("a/b");
    let lock = DirLock::acquire(&data).unwrap();
    let refused = DirLock::acquire(&data).unwrap_err();
    let pid = std::process::id().to_string();
    assert!(matches!(&refused, DataDirError::Held { holder, .. } if *holder == pid));
    assert!(refused.to_string().contains(&format!("process {pid}")));
    drop(lock);
    DirLock::acquire(&data).unwrap();
}

#[test]
fn a_tool_learns_who_holds_it_without_touching_it() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(DirLock::holder(dir.path()).unwrap(), None);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    let lock = DirLock::acquire(dir.path()).unwrap();
    let pid = std::process::id().to_string();
    assert_eq!(DirLock::holder(dir.path()).unwrap(), Some(pid));
    drop(lock);
    assert_eq!(DirLock::holder(dir.path()).unwrap(), None);
    DirLock::acquire(dir.path()).unwrap();
}

#[test]
fn a_holder_that_wrote_no_number_is_unknown() {
    let dir = tempfile::tempdir().unwrap();
    let _lock = DirLock::acquire(dir.path()).unwrap();
    for scribble in ["", "no number", "1 2", &"9".repeat(100)] {
        fs::write(dir.path().join(".lock"), scribble).unwrap();
        let refused = DirLock::acquire(dir.path()).unwrap_err();
        assert!(matches!(refused, DataDirError::Held { holder, .. } if holder == "unknown"));
    }
}

#[test]
fn a_file_is_no_data_directory() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "mine").unwrap();
    for path in [file.clone(), file.join("below")] {
        let refused = DirLock::acquire(&path).unwrap_err();
        assert!(matches!(refused, DataDirError::Unusable { .. }));
        let text = refused.to_string();
        assert!(text.contains(path.to_str().unwrap()), "{text}");
        assert!(text.contains("must be a directory") && !text.contains("chown"), "{text}");
    }
    assert_eq!(fs::read(&file).unwrap(), b"mine");
}
