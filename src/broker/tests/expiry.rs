//! How long committed offsets are kept: fault 23, too.

use super::*;
use crate::storage::Clock;

const HOUR: u64 = 3600 * 1_000_000_000;
const DAY: u64 = 24 * HOUR;
const YEAR: u64 = 365 * DAY;

struct World {
    disk: SimDisk,
    clock: Arc<ManualClock>,
    hours: u32,
    broker: Broker,
}

impl World {
    fn new(hours: u32) -> Self {
        let (disk, clock) = (SimDisk::default(), Arc::new(ManualClock::new(56 * YEAR)));
        let broker = Self::open(&disk, &clock, hours);
        broker.partition(&topic("t"), 0).unwrap();
        Self { disk, clock, hours, broker }
    }

    fn open(disk: &SimDisk, clock: &Arc<ManualClock>, hours: u32) -> Broker {
        let mut parts = parts(Arc::new(disk.clone()));
        parts.clock = Arc::clone(clock) as Arc<dyn Clock>;
        parts.offsets.retention_hours = hours;
        Broker::open(parts).unwrap()
    }

    fn restart(&mut self) {
        self.disk = self.disk.kill();
        self.broker = Self::open(&self.disk, &self.clock, self.hours);
    }

    fn commit(&self, group: &str) {
        let partition = self.broker.partition(&topic("t"), 0).unwrap();
        self.broker.commit(key(group, "t", 0), &partition, 0).unwrap();
    }

    fn knows(&self, group: &str) -> bool {
        self.broker.committed(&key(group, "t", 0)).is_some()
    }

    fn pass(&self, hours: u64) {
        for _ in 0..hours {
            self.clock.pass(HOUR);
            self.broker.retain(&|| false);
        }
    }
}

#[test]
fn groups_that_nobody_hears_of_are_forgotten_for_good() {
    let mut world = World::new(48);
    for group in ["silent", "commits", "reads", "left"] {
        world.commit(group);
    }
    let member = world.broker.join(key("reads", "t", 0));
    let left = world.broker.join(key("left", "t", 0));
    world.pass(40);
    world.commit("commits");
    drop(left);
    world.pass(7);
    assert!(world.knows("silent"));
    world.pass(1);
    assert!(!world.knows("silent") && world.knows("commits") && world.knows("left"));
    world.pass(39);
    assert!(world.knows("commits") && world.knows("left"));
    world.pass(1);
    assert!(!world.knows("commits") && !world.knows("left"));
    world.pass(1000);
    assert!(world.knows("reads"));
    assert_eq!(world.broker.metrics().offsets_expired.get(), 3);
    drop(member);
    world.restart();
    assert_eq!(world.broker.committed_count(), 1, "what is forgotten stays so");
    assert_eq!(world.broker.metrics().offsets_malformed.get(), 0);
}

/// One of its partitions keeps all of a group.
#[test]
fn a_group_is_forgotten_as_a_whole() {
    let world = World::new(10);
    let partition = world.broker.partition(&topic("u"), 0).unwrap();
    world.commit("g");
    world.pass(6);
    world.broker.commit(key("g", "u", 0), &partition, 0).unwrap();
    world.pass(6);
    assert!(world.knows("g"));
    let member = world.broker.join(key("g", "u", 0));
    world.pass(100);
    assert!(world.knows("g"));
    drop(member);
    world.pass(9);
    assert!(world.knows("g"));
    world.pass(1);
    assert_eq!(world.broker.committed_count(), 0);
}

#[test]
fn zero_is_for_ever() {
    let world = World::new(0);
    world.commit("g");
    world.pass(24 * 400);
    assert!(world.knows("g"));
}

#[test]
fn no_jump_of_the_clock_forgets_anything_and_no_wrong_one_keeps_it_for_ever() {
    let mut world = World::new(100);
    for wall in [66 * YEAR, 56 * YEAR - 30 * DAY, 0, u64::MAX] {
        world.commit("before");
        world.clock.set(wall);
        world.broker.retain(&|| false);
        world.commit("after");
        world.restart();
        world.broker.retain(&|| false);
        world.pass(2);
        assert!(world.knows("before") && world.knows("after"), "{wall}");
    }
    world.clock.set(56 * YEAR);
    world.restart();
    world.pass(101);
    assert_eq!(world.broker.committed_count(), 0);
}

/// As after weeks without a broker, or in a data directory of the original.
#[test]
fn consumers_have_an_hour_to_come_back_after_a_start() {
    let mut world = World::new(48);
    world.commit("comes");
    world.commit("stays-away");
    world.clock.set(57 * YEAR);
    world.disk.remove(&Path::new(DATA).join(".clock"));
    world.restart();
    world.broker.retain(&|| false);
    world.clock.pass(HOUR - 1);
    world.broker.retain(&|| false);
    assert!(world.knows("comes") && world.knows("stays-away"));
    let _member = world.broker.join(key("comes", "t", 0));
    world.pass(1);
    assert!(world.knows("comes") && !world.knows("stays-away"));
}

#[test]
fn a_full_disk_forgets_nothing() {
    let world = World::new(10);
    world.commit("g");
    world.disk.faults(|faults| faults.space = Some(0));
    world.pass(20);
    assert!(world.knows("g"), "not what the next start would know again");
    world.disk.faults(|faults| faults.space = None);
    world.pass(1);
    assert!(!world.knows("g"));
}
