//! Commits, by a consumer and without one.

use std::time::Duration;

use super::broker::{Broker, stored};
use super::{group, guard, topic, v1_0, v1_0_consumer};
use crate::client::{CommitError, Committer, ConnectError, Consumer, ConsumerOptions};
use crate::protocol::Request;

fn request(offset: u64) -> Request {
    Request::Commit { group: group(), topic: topic(), partition: 0, offset }
}

#[tokio::test]
async fn a_consumer_commits_the_next_offset() {
    guard(async {
        let broker = Broker::start().await;
        let options = v1_0_consumer();
        let mut consumer =
            Consumer::connect(broker.addr(), group(), topic(), 0, options).await.unwrap();
        let mut peer = broker.accept().await;
        peer.send(&stored(41, "x")).await;
        let message = consumer.recv().await.unwrap();
        let answer = async |expected: u64| {
            let mut peer = broker.accept().await;
            assert_eq!(peer.request, request(expected));
            peer.send(&[1]).await;
        };
        let (result, ()) = tokio::join!(consumer.commit(&message), answer(42));
        result.unwrap();
        let (result, ()) = tokio::join!(consumer.commit_offset(7), answer(7));
        result.unwrap();
        let addr = broker.addr();
        let mut committer = Committer::new(addr, group(), topic(), 0, v1_0());
        let (result, ()) = tokio::join!(committer.commit(8), answer(8));
        result.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_commit_that_is_not_confirmed_says_why() {
    guard(async {
        let broker = Broker::start().await;
        let connect = async |commit_timeout| {
            let options = ConsumerOptions { commit_timeout, ..v1_0_consumer() };
            let addr = broker.addr();
            let consumer = Consumer::connect(addr, group(), topic(), 0, options).await.unwrap();
            drop(broker.accept().await);
            consumer
        };
        let mut consumer = connect(Duration::from_mins(1)).await;

        let close = async { drop(broker.accept().await) };
        let (result, ()) = tokio::join!(consumer.commit_offset(1), close);
        assert!(matches!(result, Err(CommitError::Refused)), "{result:?}");

        let answer = async { broker.accept().await.send(&[9]).await };
        let (result, ()) = tokio::join!(consumer.commit_offset(1), answer);
        assert!(matches!(result, Err(CommitError::UnexpectedAnswer(9))), "{result:?}");

        let mut impatient = connect(Duration::from_millis(20)).await;
        let (result, _silent) = tokio::join!(impatient.commit_offset(1), broker.accept_raw());
        assert!(matches!(result, Err(CommitError::Timeout { .. })), "{result:?}");

        drop(broker);
        let result = consumer.commit_offset(1).await;
        let gone = matches!(result, Err(CommitError::Connect(ConnectError::Io { .. })));
        assert!(gone, "{result:?}");
    })
    .await;
}
