//! `catalog.json` as it may lie there: refused with a text for people, or taken for good.

use hermitmq::broker::check_catalog;
use hermitmq::model::TopicName;
use hermitmq::model::limits::PARTITIONS_PER_TOPIC_MAX;
use serde_json::Value;

pub fn run(data: &[u8]) {
    match check_catalog(data) {
        Ok(written) => {
            assert_eq!(
                check_catalog(&written).as_ref(),
                Ok(&written),
                "it is read as it is written"
            );
            let catalog: Value = serde_json::from_slice(&written).unwrap();
            let topics = catalog["topics"].as_array().unwrap();
            let names = topics.iter().map(|topic| topic["name"].as_str().unwrap());
            assert!(names.clone().is_sorted_by(|a, b| a < b), "each topic once");
            for name in names {
                assert!(!TopicName::parse(name).unwrap().is_reserved(), "{name}");
            }
            for topic in topics {
                let partitions = topic["partitions"].as_u64().unwrap();
                assert!((1..=u64::from(PARTITIONS_PER_TOPIC_MAX)).contains(&partitions));
            }
        }
        Err(why) => assert!(!why.is_empty()),
    }
}
