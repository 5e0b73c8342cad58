//! The spans of the SDK. Alone in its program: whoever listens to spans listens to all threads of one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use hermitmq::client::{Committer, ConnectOptions, Producer, ProducerOptions, Record};
use hermitmq::model::{GroupName, TopicName};
use support::{Broker, scratch_in_memory};

#[test]
fn what_takes_a_while_has_a_span() {
    use tracing_subscriber::layer::SubscriberExt as _;

    /// The names of the spans that are made.
    #[derive(Clone, Default)]
    struct Names(std::sync::Arc<std::sync::Mutex<Vec<String>>>);

    impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Names {
        fn on_new_span(
            &self,
            attributes: &tracing::span::Attributes<'_>,
            _: &tracing::span::Id,
            _: tracing_subscriber::layer::Context<'_, S>,
        ) {
            let name = attributes.metadata().name();
            let parent = if attributes.is_contextual() { "" } else { " of its own" };
            self.0.lock().unwrap().push(format!("{name}{parent}"));
        }
    }

    let (_dir, data) = scratch_in_memory();
    let broker = Broker::start(&data);
    let topic = TopicName::parse("t").unwrap();
    let addr = broker.addr().to_string();
    let names = Names::default();
    let subscriber = tracing_subscriber::registry().with(names.clone());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tracing::subscriber::with_default(subscriber, || {
        runtime.block_on(async {
            let options = ProducerOptions::default();
            let producer = Producer::connect(&addr, topic.clone(), 0, options).await.unwrap();
            for text in ["a", "b"] {
                producer.send(Record::new(text)).await.unwrap().await.unwrap();
            }
            producer.close().await;
            let group = GroupName::parse("g").unwrap();
            let mut committer = Committer::new(&addr, group, topic, 0, ConnectOptions::default());
            committer.commit(1).await.unwrap();
        });
    });
    assert_eq!(*names.0.lock().unwrap(), ["connect", "producer of its own", "commit", "connect"]);
}
