//! The process killed, and the power cut, at every change of the disk that a compaction makes.

use super::super::inspect::dump_on;
use super::*;
use crate::storage::backup::{BackupOptions, backup_partition};

/// Several segments with superseded frames, on a disk that has all of it.
fn prepared(segment_bytes: u64, frames: u8, keys: u8) -> World {
    let world = World::new(segment_bytes);
    for number in 0..frames {
        let key: &[u8] = if number % 9 == 0 { b"" } else { &[number % keys] };
        world.append(key, &vec![number; 20 + usize::from(number % 3) * 10]);
        if number % 11 == 10 {
            world.seal();
        }
    }
    world.append(&[1], b"");
    world.seal();
    world
}

/// Compacts until the disk takes no more changes. Returns the disk, and whether it came to the end.
fn broken_off(world: &World, changes: usize) -> (SimDisk, bool) {
    let mut copy = World::on(world.disk.kill(), Arc::clone(&world.clock), world.options);
    copy.rules = world.rules;
    copy.disk.faults(|faults| faults.changes_left = Some(changes));
    let ended = copy.log.compact(&copy.rules, &mut |_| true).is_ok();
    // The log is what it was or what it becomes for those who read on, too.
    assert_whole(&copy.bytes(), &world.bytes());
    copy.disk.faults(|faults| faults.changes_left = None);
    (copy.disk.clone(), ended)
}

/// A copy of the log, by itself.
fn backed_up(disk: &SimDisk) -> SimDisk {
    let shared: Arc<dyn Disk> = Arc::new(disk.kill());
    let (to, options) = (Path::new("/backup"), BackupOptions { live: false, link: false });
    backup_partition(&shared, Path::new(DIR), to, options, &mut |_| {}).unwrap();
    let copy = SimDisk::default();
    for entry in shared.list(to).unwrap() {
        let bytes = super::super::super::read_file(&*shared, &to.join(&entry.name)).unwrap();
        copy.put(&Path::new(DIR).join(&entry.name), &bytes.unwrap());
    }
    copy
}

/// Without a start in between, what looks at the files sees the same log as a start.
fn check_tools(disk: &SimDisk, world: &World) {
    let (dumped, _) = dump_on(&disk.kill(), false, 0..Offset::MAX);
    let opened = |disk| World::on(disk, Arc::clone(&world.clock), world.options).bytes();
    let found = opened(disk.kill());
    assert!(dumped.into_values().flatten().eq(found.iter().copied()));
    assert!(opened(backed_up(disk)) == found);
}

fn check_all(world: &World, crashes: u64, is_one_of: Option<[&[u8]; 2]>) -> usize {
    let (old, end) = (world.bytes(), world.log.end_offset());
    for changes in 0.. {
        let (disk, ended) = broken_off(world, changes);
        check_tools(&disk, world);
        let crashes = (0..crashes).map(|seed| {
            let seed = changes as u64 * 100 + seed;
            disk.crash(&mut Seeded::new(seed))
        });
        for disk in [disk.kill()].into_iter().chain(crashes) {
            // Before a start has put it right, too.
            let derived = [Kind::IndexWrong, Kind::IndexMissing, Kind::ChecksumsDamaged];
            assert_verifies(&disk, false, &derived);
            let mut after = World::on(disk, Arc::clone(&world.clock), world.options);
            after.rules = world.rules;
            let found = after.bytes();
            assert_whole(&found, &old);
            if let Some(states) = is_one_of {
                assert!(states.contains(&&*found), "neither the old state nor the new, {changes}");
            }
            assert_eq!(after.log.end_offset(), end);
            assert_eq!(after.metrics.offset_gaps.get(), 0);
            let temporary = |file: &&PathBuf| {
                let name = file.to_string_lossy();
                name.ends_with(".tmp") || name.ends_with(".swap")
            };
            assert_eq!(after.disk.files().iter().find(temporary), None, "nothing is left over");
            after.compact();
            assert!(after.bytes() == newest_of(&old), "the next pass does the rest");
            after.check();
            // What recovery did holds.
            let again = World::on(after.disk.kill(), Arc::clone(&world.clock), world.options);
            assert_eq!(again.metrics.indexes_rebuilt.get(), 0);
            assert!(again.bytes() == newest_of(&old));
        }
        if ended {
            return changes;
        }
    }
    unreachable!("it ends at some time")
}

#[test]
fn segments_that_become_one_do_so_at_one_moment() {
    let world = prepared(1 << 20, 40, 4);
    let (old, new) = (world.bytes(), newest_of(&world.bytes()));
    let sealed = bases(&world.disk).len() - 1;
    assert!(sealed > 3, "{sealed} segments");
    let changes = check_all(&world, 10, Some([&old, &new]));
    assert!(changes > 20, "{changes}");
}

#[test]
fn each_group_of_segments_is_as_it_was_or_compacted() {
    let world = prepared(300, 60, 13);
    assert!(newest_of(&world.bytes()).len() > 600, "more than one group");
    check_all(&world, 3, None);
}

#[test]
fn a_disk_that_refuses_a_change_once_is_tried_again() {
    let world = prepared(700, 40, 4);
    let old = world.bytes();
    for changes in 0.. {
        let mut copy = World::on(world.disk.kill(), Arc::clone(&world.clock), world.options);
        copy.rules = world.rules;
        copy.disk.faults(|faults| faults.changes_left = Some(changes));
        let ended = copy.log.compact(&copy.rules, &mut |_| true).is_ok();
        copy.disk.faults(|faults| faults.changes_left = None);
        // In the same process, with whatever was left half done.
        copy.log.scrub(&mut |_| true).unwrap();
        assert_eq!(copy.metrics.segments_damaged.get(), 0, "{changes}");
        assert_whole(&copy.bytes(), &old);
        copy.compact();
        assert!(copy.bytes() == newest_of(&old));
        // An index that could not be put in place is made anew by the next start.
        assert_verifies(&copy.disk, true, &[Kind::IndexWrong, Kind::IndexMissing]);
        let mut end = copy.append(b"x", b"y");
        copy.reopen(copy.disk.kill());
        end.splice(0..0, newest_of(&old));
        assert!(copy.bytes() == end, "{changes}");
        if ended {
            return;
        }
    }
}
