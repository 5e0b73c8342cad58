//! What the broker deletes, whatever the clock says.

use parking_lot::Mutex;

use super::*;
use crate::model::limits::MIB;
use crate::storage::Clock;

const HOUR: u64 = 3600 * 1_000_000_000;
const YEAR: u64 = 365 * 24 * HOUR;

/// A broker on a disk that outlives it, with a clock.
struct World {
    disk: SimDisk,
    clock: Arc<ManualClock>,
    hours: u32,
    max_total_mb: u32,
    declared: Vec<TopicOptions>,
    broker: Broker,
}

impl World {
    fn new(hours: u32, max_total_mb: u32, declared: Vec<TopicOptions>) -> Self {
        let (disk, clock) = (SimDisk::default(), Arc::new(ManualClock::new(56 * YEAR)));
        let broker = Self::open(&disk, &clock, hours, max_total_mb, &declared);
        Self { disk, clock, hours, max_total_mb, declared, broker }
    }

    fn open(
        disk: &SimDisk,
        clock: &Arc<ManualClock>,
        hours: u32,
        max_total_mb: u32,
        declared: &[TopicOptions],
    ) -> Broker {
        let mut parts = parts(Arc::new(disk.clone()));
        parts.clock = Arc::clone(clock) as Arc<dyn Clock>;
        parts.storage.retention_hours = hours;
        parts.storage.max_total_mb = max_total_mb;
        parts.declared = declared.to_vec();
        Broker::open(parts).unwrap()
    }

    fn restart(&mut self) {
        self.disk = self.disk.kill();
        self.broker =
            Self::open(&self.disk, &self.clock, self.hours, self.max_total_mb, &self.declared);
    }

    fn fill(&self, name: &str, segments: u32) {
        let partition = self.broker.partition(&topic(name), 0).unwrap();
        for _ in 0..segments {
            let payload = vec![1; usize::try_from(MIB).unwrap() - 100];
            append_frame(&partition, b"", &payload).unwrap();
        }
        partition.flush_now().unwrap();
    }

    fn start(&self, name: &str) -> u64 {
        self.broker.existing(&topic(name), 0).unwrap().unwrap().start_offset()
    }

    /// Passes at every half hour.
    fn pass(&self, hours: u64) {
        for _ in 0..2 * hours {
            self.clock.pass(HOUR / 2);
            self.broker.retain(&|| false);
        }
    }
}

fn kept(name: &str, hours: u32, mb: Option<u32>) -> TopicOptions {
    let (retention_hours, retention_mb) = (Some(hours), mb);
    TopicOptions { retention_hours, retention_mb, ..TopicOptions::named(topic(name)) }
}

#[test]
fn each_topic_has_its_own_limits_and_commits_have_none() {
    let declared = vec![kept("short", 1, None), kept("ever", 0, None), kept("small", 0, Some(2))];
    let world = World::new(10, 0, declared);
    for name in ["short", "ever", "small", "plain"] {
        world.fill(name, 5);
    }
    let plain = world.broker.existing(&topic("plain"), 0).unwrap().unwrap();
    world.broker.commit(key("g", "plain", 0), &plain, 1).unwrap();
    world.broker.retain(&|| false);
    let starts = |world: &World| ["short", "ever", "small", "plain"].map(|name| world.start(name));
    assert_eq!(starts(&world), [0, 0, 2, 0]);
    world.pass(1);
    assert_eq!(starts(&world), [5, 0, 2, 0]);
    world.pass(9);
    assert_eq!(starts(&world), [5, 0, 2, 5]);
    world.pass(1000);
    assert_eq!(world.start("ever"), 0);
    assert_eq!(offsets_log(&world.broker).start_offset(), 0);
    // A group that stands where nothing is any more.
    let (_, moved) = plain.resume(1).unwrap();
    assert_eq!(moved, Some(Moved { from: 1, to: 5 }));
    assert_eq!(world.broker.metrics().readers_moved.get(), 1);
    plain.resume(0).unwrap();
    assert_eq!(world.broker.metrics().readers_moved.get(), 1, "who never committed wants no more");
}

#[test]
fn no_jump_of_the_clock_deletes_anything() {
    let mut world = World::new(100, 0, Vec::new());
    world.fill("t", 3);
    for wall in [66 * YEAR, 0, 56 * YEAR - 24 * HOUR, u64::MAX, 56 * YEAR] {
        for restart in [false, true] {
            world.clock.set(wall);
            if restart {
                world.restart();
            }
            world.broker.retain(&|| false);
            world.fill("t", 1);
            world.broker.retain(&|| false);
            assert_eq!(world.start("t"), 0, "{wall}");
        }
    }
}

#[test]
fn a_wrong_clock_keeps_nothing_for_ever() {
    for wall in [66 * YEAR, 56 * YEAR - 24 * HOUR, 0] {
        let mut world = World::new(100, 0, Vec::new());
        world.fill("t", 3);
        world.clock.set(wall);
        world.restart();
        world.pass(79);
        assert_eq!(world.start("t"), 0, "{wall}: it counts a quarter faster at most");
        world.restart();
        world.pass(21);
        assert_eq!(world.start("t"), 3, "{wall}: it counts at least as fast as time passes");
    }
}

#[test]
fn the_time_that_the_broker_is_down_counts_little_by_little() {
    let mut world = World::new(100, 0, Vec::new());
    world.fill("t", 3);
    world.clock.set(56 * YEAR + 200 * HOUR);
    world.restart();
    world.broker.retain(&|| false);
    assert_eq!(world.start("t"), 0);
    world.pass(80);
    assert_eq!(world.start("t"), 3);
}

#[test]
fn all_partitions_together_take_no_more_than_they_may() {
    let world = World::new(1000, 6, vec![kept("b", 0, None)]);
    for (name, segments) in [("a", 2), ("b", 3), ("a", 2)] {
        world.fill(name, segments);
        world.clock.pass(HOUR);
    }
    world.broker.retain(&|| false);
    // Seven segments of not quite one MiB: the oldest goes.
    assert_eq!((world.start("a"), world.start("b")), (1, 0));
    world.fill("c", 3);
    world.broker.retain(&|| false);
    assert_eq!((world.start("a"), world.start("b"), world.start("c")), (2, 2, 0));
    let deleted = world.broker.metrics().segments_deleted.get();
    assert_eq!(deleted, 4);
}

/// A broker that is told to stop does not end thousands of partitions first.
#[test]
fn a_pass_ends_when_it_is_told_to() {
    let world = World::new(1000, 3, vec![kept("a", 0, Some(1)), kept("b", 0, Some(1))]);
    world.fill("a", 3);
    world.fill("b", 3);
    world.fill("c", 3);
    let partitions = world.broker.partitions().len();
    // Before the first, before what goes because all together are too much, and never.
    for (passes, starts) in [(0, [0, 0, 0]), (partitions, [1, 1, 0]), (usize::MAX, [2, 2, 2])] {
        let left = std::cell::Cell::new(passes);
        world.broker.retain(&|| left.replace(left.get().saturating_sub(1)) == 0);
        assert_eq!(["a", "b", "c"].map(|name| world.start(name)), starts);
    }
}

#[test]
fn what_is_too_much_is_deleted_without_holding_the_files_of_others() {
    let world = World::new(1000, 2, Vec::new());
    world.fill("t", 3);
    let plain = world.broker.partition(&topic("plain"), 0).unwrap();
    let held = Arc::downgrade(&plain);
    drop(plain);
    let left = std::cell::Cell::new(world.broker.partitions().len());
    // Asked before the first one that goes because all together are too much.
    let stop = || {
        if left.replace(left.get().wrapping_sub(1)) == 0 {
            world.broker.delete_topic(&topic("plain")).unwrap();
            wait_for("the files", || held.strong_count() == 0);
        }
        false
    };
    assert_eq!(world.broker.retain(&stop).segments, 1);
    assert!(world.broker.existing(&topic("plain"), 0).is_none());
}

/// Names of the spans that begin.
#[derive(Clone, Default)]
struct Begun(Arc<Mutex<Vec<&'static str>>>);

impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Begun {
    fn on_new_span(
        &self,
        span: &tracing::span::Attributes<'_>,
        _id: &tracing::span::Id,
        _context: tracing_subscriber::layer::Context<'_, S>,
    ) {
        self.0.lock().push(span.metadata().name());
    }
}

#[test]
fn a_pass_is_a_span() {
    use tracing_subscriber::layer::SubscriberExt as _;
    let begun = Begun::default();
    let subscriber = tracing_subscriber::registry().with(begun.clone());
    let world = World::new(1, 0, Vec::new());
    tracing::subscriber::with_default(subscriber, || world.broker.retain(&|| false));
    assert!(begun.0.lock().contains(&"retention"), "{:?}", begun.0.lock());
}
