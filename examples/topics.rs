//! Creates a topic that keeps the newest record of each key, and shows how far groups are behind.
//!
//! ```sh
//! cargo run --example topics -- prices
//! ```
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program for a terminal")]

use std::error::Error;

use hermitmq::client::admin::{AdminClient, Durability, TopicSettings};
use hermitmq::model::TopicName;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let topic = std::env::args().nth(1).ok_or("usage: topics TOPIC")?;
    let topic = TopicName::parse(&topic)?;
    let address = std::env::var("HERMITMQ_ADMIN").unwrap_or("127.0.0.1:9093".to_owned());
    let admin = AdminClient::new(&address)?;

    let mut settings = TopicSettings {
        partitions: Some(3),
        durability: Some(Durability::Always),
        ..TopicSettings::default()
    };
    settings.other.insert("cleanup".to_owned(), "compact".into());
    admin.create_topic(&topic, &settings).await?;

    for topic in admin.topics().await?.into_iter().filter(|topic| !topic.reserved) {
        println!("{}: {} partitions, {} bytes", topic.name, topic.partitions, topic.bytes);
    }
    for group in admin.groups().await? {
        println!("{}: {} records behind", group.name, group.lag);
    }
    Ok(())
}
