//! `hermitmq demo`: a broker with something to do, and a look at it. It needs nothing and leaves nothing.

use std::io::{self, IsTerminal as _};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::args::DemoArgs;
use super::failure::{Failure, causes};
use super::runtime::{self, Interrupt};
use super::scratch::Scratch;
use super::serve;
use super::top::{self, View, Watch};
use crate::client::admin::AdminClient;
use crate::client::{GroupConsumer, GroupConsumerOptions, ProducerOptions, Record, TopicProducer};
use crate::model::{GroupName, TopicName};

/// Where the records are.
const TOPIC: &str = "demo";

/// Records that are stored per second.
const PER_SECOND: u32 = 200;

/// What each group takes for a record: one keeps up, the other does not.
const GROUPS: [(&str, Duration); 2] =
    [("quick", Duration::ZERO), ("slow", Duration::from_millis(12))];

/// Between two commits: the lag that is shown is of what is committed.
const COMMIT: Duration = Duration::from_millis(200);

/// Between two looks.
const INTERVAL: Duration = Duration::from_secs(1);

/// A day of it takes no more than this, in MiB: the directory may be in memory.
const KEPT: [&str; 4] = [
    "storage.max_segment_mb=4",
    "storage.max_total_mb=32",
    "storage.cleanup_interval_min=1",
    "topics.default_partitions=4",
];

pub(super) fn run(args: &DemoArgs) -> Result<(), Failure> {
    let interrupt = Interrupt::listen()?;
    // Dropped last: the broker writes to it until it has stopped.
    let scratch = Scratch::new(args.dir.as_deref())?;
    let set = KEPT.map(ToOwned::to_owned).to_vec();
    let server = serve::in_process(scratch.path().join("data"), set, "127.0.0.1:0")?;
    let addr = server.addr().to_string();
    let admin = server.admin_addr().map(|admin| admin.to_string()).unwrap_or_default();
    let (ends, end) = watch::channel(false);
    let load = spawn(&addr, &end)?;
    let hint = format!("hermitmq consume {TOPIC} --broker {addr}");
    let shown = runtime::block_on(async {
        let client = AdminClient::new(&admin).map_err(|error| Failure::Runtime(causes(&error)))?;
        let until =
            args.seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds.into()));
        let watch = Watch::start(client, INTERVAL);
        let view = View::new(&addr, Some(hint));
        if io::stdout().is_terminal() {
            top::live(watch, view, interrupt, until).await
        } else {
            top::lines(watch, view, interrupt, until).await
        }
    });
    // Nobody is left to hear it if they have ended already.
    let _ = ends.send(true);
    let worked = load.join().unwrap_or_else(|_| Err(Failure::Runtime("the load broke".to_owned())));
    let stopped = server.stop().map_err(|error| Failure::Runtime(causes(&error)));
    shown.and(worked).and(stopped)
}

/// The producer and the groups, on a thread of their own: they are not what is shown.
fn spawn(
    addr: &str,
    end: &watch::Receiver<bool>,
) -> Result<JoinHandle<Result<(), Failure>>, Failure> {
    let (addr, end) = (addr.to_owned(), end.clone());
    let work = move || {
        runtime::block_on(async {
            let mut ends = end.clone();
            let [(quick, none), (slow, pause)] = GROUPS;
            tokio::select! {
                failed = produce(&addr) => failed,
                failed = consume(&addr, quick, none) => failed,
                failed = consume(&addr, slow, pause) => failed,
                // Its end is an end, too.
                _ = ends.wait_for(|ended| *ended) => Ok(()),
            }
        })
    };
    std::thread::Builder::new()
        .name("load".to_owned())
        .spawn(work)
        .map_err(|error| Failure::runtime("cannot start the load", &error))
}

async fn produce(addr: &str) -> Result<(), Failure> {
    let producer = TopicProducer::connect(addr, topic()?, ProducerOptions::default())
        .await
        .map_err(|error| Failure::connect(&error))?;
    let mut due = tokio::time::interval(Duration::from_secs(1) / PER_SECOND);
    for number in 0_u64.. {
        due.tick().await;
        let key = format!("customer-{}", number % 50);
        let payload =
            format!("{{\"order\":{number},\"item\":\"a cup\",\"amount\":{}}}", number % 7 + 1);
        let record = Record::new(payload).with_key(key);
        let delivered = producer.send_with(record, |_| ()).await;
        delivered.map_err(|error| Failure::runtime("cannot produce", &error))?;
    }
    Ok(())
}

/// Reads for as long as it is polled.
async fn consume(addr: &str, group: &str, pause: Duration) -> Result<(), Failure> {
    let group = GroupName::parse(group).map_err(|error| Failure::runtime("the group", &error))?;
    let options =
        GroupConsumerOptions { auto_commit: Some(COMMIT), ..GroupConsumerOptions::default() };
    let mut consumer = GroupConsumer::connect(addr, group, topic()?, options)
        .await
        .map_err(|error| Failure::connect(&error))?;
    loop {
        consumer.recv().await.map_err(|error| Failure::runtime("cannot consume", &error))?;
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
    }
}

fn topic() -> Result<TopicName, Failure> {
    TopicName::parse(TOPIC).map_err(|error| Failure::runtime("the topic", &error))
}
