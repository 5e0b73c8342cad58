//! Readers that wait at the end: fault 25.

use super::*;

fn partition() -> (Broker, Arc<Partition>) {
    let broker = open(&SimDisk::default());
    let partition = broker.partition(&topic("t"), 0).unwrap();
    (broker, partition)
}

#[test]
fn an_append_wakes_each_waiter_once() {
    let (_broker, partition) = partition();
    let ((bell, wake), (other, other_wake)) = (bell(), bell());
    append(&partition).unwrap();
    for waiter in 0..3 {
        partition.park(&wake, WaiterId(waiter));
    }
    partition.park(&other_wake, WaiterId(1));
    assert_eq!(partition.parked(), 4);
    assert!(bell.take().is_empty());
    append(&partition).unwrap();
    assert_eq!(bell.take(), [0u64, 1, 2]);
    assert_eq!(other.take(), [1u64]);
    assert_eq!(partition.parked(), 0);
    append(&partition).unwrap();
    assert!(bell.take().is_empty(), "woken and forgotten");
}

#[test]
fn a_waiter_that_left_is_not_woken() {
    let (_broker, partition) = partition();
    let ((bell, wake), (other, other_wake)) = (bell(), bell());
    partition.park(&wake, WaiterId(1));
    partition.park(&wake, WaiterId(2));
    partition.park(&other_wake, WaiterId(1));
    partition.unpark(&wake, WaiterId(1));
    partition.unpark(&wake, WaiterId(1));
    append(&partition).unwrap();
    assert_eq!(bell.take(), [2u64]);
    assert_eq!(other.take(), [1u64], "the same number on another reactor is another waiter");
}

#[test]
fn an_append_that_fails_wakes_nobody() {
    let disk = SimDisk::default();
    let broker = open(&disk);
    let partition = broker.partition(&topic("t"), 0).unwrap();
    let (bell, wake) = bell();
    partition.park(&wake, WaiterId(1));
    disk.faults(|faults| faults.space = Some(0));
    append(&partition).unwrap_err();
    assert!(bell.take().is_empty());
    assert_eq!(partition.parked(), 1);
}

#[test]
fn ten_thousand_waiters_that_left_leave_nothing() {
    let (_broker, partition) = partition();
    let (bell, wake) = bell();
    for waiter in 0..10_000 {
        partition.park(&wake, WaiterId(waiter));
        partition.unpark(&wake, WaiterId(waiter));
    }
    assert_eq!(partition.parked(), 0);
    append(&partition).unwrap();
    assert!(bell.take().is_empty());
    assert_eq!(Arc::strong_count(&bell), 2, "the waker is held by nobody else");
}

/// Reads to the end, again and again, parking there as a reactor does.
fn follow(partition: &Partition, records: u64, frame_len: u64) {
    let (bell, wake) = bell();
    let (mut cursor, _) = partition.resume(0).unwrap();
    let mut left = records * frame_len;
    let mut read = |left: &mut u64| match partition.fetch(&mut cursor, 1 << 20) {
        Fetch::Slice(slice) => {
            cursor.advance(slice.len());
            *left -= slice.len();
            true
        }
        Fetch::Tail => false,
        Fetch::Damaged | Fetch::Deleted => panic!("nothing is damaged or deleted"),
    };
    while left > 0 {
        if read(&mut left) {
            continue;
        }
        partition.park(&wake, WaiterId(7));
        if read(&mut left) {
            partition.unpark(&wake, WaiterId(7));
            // It may have been told at the same time; afterwards it is not.
            assert!(bell.take().len() <= 1);
        } else {
            assert!(bell.wait(), "a wake-up was lost with {left} bytes to come");
        }
    }
}

#[test]
fn no_wake_up_is_lost() {
    const RECORDS: u64 = 20_000;
    let (_broker, partition) = partition();
    let frame_len = 29 + b"payload".len() as u64;
    thread::scope(|scope| {
        let reader = scope.spawn(|| follow(&partition, RECORDS, frame_len));
        for number in 0..RECORDS {
            append(&partition).unwrap();
            // Now and then the reader gets to the end and parks.
            if number % 4 == 0 {
                thread::yield_now();
            }
        }
        reader.join().unwrap();
    });
    assert_eq!(partition.parked(), 0);
}
