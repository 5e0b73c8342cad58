//! Topics and commits against a model, with crashes.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::storage::sim_disk::Seeded;

#[derive(Debug, Clone, Copy)]
enum Step {
    Create {
        topic: u8,
        partitions: u32,
        retention: Option<u32>,
    },
    OnDemand {
        topic: u8,
    },
    Alter {
        topic: u8,
        more: u32,
        retention: Option<u32>,
    },
    Delete {
        topic: u8,
    },
    Append {
        topic: u8,
        partition: u32,
    },
    Commit {
        topic: u8,
        partition: u32,
    },
    Forget,
    /// Everything is flushed, then the power goes.
    FlushAndCrash(u64),
    Kill,
}

fn step() -> impl Strategy<Value = Step> {
    let retention = prop::option::of(1..50u32);
    prop_oneof![
        2 => (0..3u8, 1..4u32, retention.clone()).prop_map(|(topic, partitions, retention)| {
            Step::Create { topic, partitions, retention }
        }),
        1 => (0..3u8).prop_map(|topic| Step::OnDemand { topic }),
        2 => (0..3u8, 0..2u32, retention).prop_map(|(topic, more, retention)| {
            Step::Alter { topic, more, retention }
        }),
        2 => (0..3u8).prop_map(|topic| Step::Delete { topic }),
        6 => (0..3u8, 0..3u32).prop_map(|(topic, partition)| Step::Append { topic, partition }),
        4 => (0..3u8, 0..3u32).prop_map(|(topic, partition)| Step::Commit { topic, partition }),
        1 => Just(Step::Forget),
        1 => any::<u64>().prop_map(Step::FlushAndCrash),
        1 => Just(Step::Kill),
    ]
}

/// A topic as it must be: the records of its partitions, and where the group stands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Model {
    retention: Option<u32>,
    partitions: Vec<(u64, Option<u64>)>,
}

struct World {
    disk: SimDisk,
    broker: Broker,
    topics: BTreeMap<u8, Model>,
}

fn name(number: u8) -> TopicName {
    topic(&format!("topic-{number}"))
}

impl World {
    fn restart(&mut self, disk: SimDisk) {
        self.broker = open(&disk);
        self.disk = disk;
    }

    fn options(number: u8, partitions: u32, retention: Option<u32>) -> TopicOptions {
        let partitions = Some(partitions);
        TopicOptions { partitions, retention_mb: retention, ..TopicOptions::named(name(number)) }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Create { topic, partitions, retention } => {
                let made = self.broker.create_topic(Self::options(topic, partitions, retention));
                let new = Model { retention, partitions: vec![(0, None); partitions as usize] };
                match made {
                    Ok(_) => assert_eq!(self.topics.insert(topic, new), None),
                    Err(TopicError::Exists(_)) => assert!(self.topics.contains_key(&topic)),
                    Err(error) => panic!("{error}"),
                }
            }
            Step::OnDemand { topic } => {
                self.broker.partition(&name(topic), 0).unwrap();
                let new = || Model { retention: None, partitions: vec![(0, None)] };
                self.topics.entry(topic).or_insert_with(new);
            }
            Step::Alter { topic, more, retention } => self.alter(topic, more, retention),
            Step::Delete { topic } => {
                let deleted = self.broker.delete_topic(&name(topic));
                assert_eq!(deleted.is_ok(), self.topics.remove(&topic).is_some());
            }
            Step::Append { topic, partition } => {
                if let Some((end, _)) = self.find(topic, partition) {
                    *end += 1;
                    append(&self.broker.partition(&name(topic), partition).unwrap()).unwrap();
                }
            }
            Step::Commit { topic, partition } => {
                if let Some((end, committed)) = self.find(topic, partition) {
                    let end = *end;
                    *committed = Some(end);
                    let found = self.broker.partition(&name(topic), partition).unwrap();
                    let key = key("g", name(topic).as_str(), partition);
                    assert_eq!(self.broker.commit(key, &found, end).unwrap(), end);
                }
            }
            Step::Forget => {
                let mut had = false;
                for (_, committed) in
                    self.topics.values_mut().flat_map(|topic| topic.partitions.iter_mut())
                {
                    had |= committed.take().is_some();
                }
                let forgotten = self.broker.delete_group(&GroupName::parse("g").unwrap());
                assert_eq!(forgotten.is_ok(), had);
            }
            Step::FlushAndCrash(seed) => {
                for partition in self.broker.partitions() {
                    partition.flush_now().unwrap();
                }
                self.restart(self.disk.crash(&mut Seeded::new(seed)));
            }
            Step::Kill => self.restart(self.disk.kill()),
        }
    }

    fn find(&mut self, topic: u8, partition: u32) -> Option<&mut (u64, Option<u64>)> {
        self.topics.get_mut(&topic)?.partitions.get_mut(partition as usize)
    }

    fn alter(&mut self, topic: u8, more: u32, retention: Option<u32>) {
        let there = self.topics.get(&topic).map_or(0, |topic| topic.partitions.len());
        let wanted = u32::try_from(there).unwrap() + more;
        let change = TopicChange {
            partitions: Some(wanted.max(1)),
            retention_mb: retention.map_or(Change::Default, Change::Set),
            ..TopicChange::default()
        };
        let altered = self.broker.alter_topic(&name(topic), change);
        match self.topics.get_mut(&topic) {
            None => assert!(matches!(altered, Err(TopicError::Unknown(_)))),
            Some(model) => {
                assert_eq!(altered.unwrap().partitions.len(), there + more as usize);
                model.retention = retention;
                model.partitions.resize(wanted as usize, (0, None));
            }
        }
    }

    fn check(&self) {
        let reserved = 1;
        assert_eq!(self.broker.topics().len(), self.topics.len() + reserved);
        for (number, model) in &self.topics {
            let found = self.broker.describe_topic(&name(*number)).unwrap();
            let partitions = found.partitions.iter().map(|partition| {
                let key = key("g", name(*number).as_str(), partition.partition);
                (partition.end_offset, self.broker.committed(&key))
            });
            let retention = found.settings.retention_mb;
            assert_eq!(Model { retention, partitions: partitions.collect() }, *model);
        }
        let committed = self.topics.values().flat_map(|topic| &topic.partitions);
        let committed = committed.filter(|(_, committed)| committed.is_some()).count();
        assert_eq!(self.broker.committed_count(), committed, "and nothing else");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn topics_and_commits_are_as_the_model_says(steps in prop::collection::vec(step(), 1..40)) {
        let disk = SimDisk::default();
        let mut world = World { broker: open(&disk), disk, topics: BTreeMap::new() };
        for step in steps {
            world.step(step);
            world.check();
        }
    }
}
