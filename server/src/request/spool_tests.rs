//! The queue of bytes in memory and file.

use super::*;
use tempfile::TempDir;

fn spool(directory: &TempDir, memory: usize, file: u64) -> Spool {
    let directory = Directory::Fixed(directory.path().into());
    Spool::new(SpoolLimits { memory, file, directory })
}

/// A stream of bytes in which each place shows.
fn pattern(from: u64, length: usize) -> Vec<u8> {
    (from..from + length as u64).map(|i| (i % 251) as u8 ^ (i / 251) as u8).collect()
}

#[tokio::test]
async fn bytes_within_memory_never_touch_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let mut spool = spool(&dir, 100, 1000);
    assert!(spool.is_empty() && !spool.has_work());
    for round in 0..50 {
        assert_eq!(spool.push(&pattern(round, 100)), 100);
        assert_eq!(spool.front(), pattern(round, 100));
        spool.consume(60);
        assert_eq!(spool.front(), &pattern(round, 100)[60..]);
        spool.consume(40);
        assert!(spool.is_empty() && !spool.has_work());
    }
    assert!(spool.file.is_none());
}

#[tokio::test]
async fn without_a_file_the_memory_is_the_limit() {
    let dir = tempfile::tempdir().unwrap();
    let mut spool = spool(&dir, 100, 0);
    assert_eq!((spool.push(&[1; 150]), spool.room(), spool.has_work()), (100, 0, false));
    spool.consume(50);
    assert_eq!((spool.room(), spool.push(&[2; 80])), (50, 50));
    assert_eq!(spool.front(), [[1; 50], [2; 50]].concat());
}

/// Pushes and consumes in pieces of changing sizes, and compares each byte.
async fn exchange(mut spool: Spool, total: u64, lead: u64) {
    let (mut pushed, mut consumed, mut size) = (0, 0, 1);
    while consumed < total {
        size = size * 7 % 30_011 + 1;
        let wanted = usize::try_from(total - pushed).unwrap().min(size);
        pushed += spool.push(&pattern(pushed, wanted)) as u64;
        if pushed - consumed >= lead || pushed == total || spool.room() == 0 {
            let count = spool.front().len().min(size / 2 + 1);
            assert!(spool.front()[..count] == pattern(consumed, count), "at {consumed}");
            spool.consume(count);
            consumed += count as u64;
        }
        assert_eq!(spool.len(), pushed - consumed);
        if spool.has_work() && (spool.room() == 0 || spool.front().is_empty()) {
            spool.progress().await.unwrap();
        }
    }
    assert!(spool.is_empty());
}

#[tokio::test]
async fn bytes_come_out_in_their_order() {
    let dir = tempfile::tempdir().unwrap();
    for (memory, file, lead) in [
        (10_000, 1 << 30, u64::MAX),
        (10_000, 100_000, u64::MAX), // full again and again
        (10_000, 33_333, 30_000),    // the ring wraps within steps
        (0, 50_000, 20_000),
        (100_000, 5000, 1000), // the file is smaller than a step
        (10_000, 1 << 30, 5000),
    ] {
        exchange(spool(&dir, memory, file), 3_000_000, lead).await;
    }
}

#[tokio::test]
async fn the_limits_hold() {
    let dir = tempfile::tempdir().unwrap();
    let mut spool = spool(&dir, 10_000, 100_000);
    loop {
        let taken = spool.push(&[7; 3000]);
        if taken < 3000 && !spool.has_work() {
            break;
        }
        if spool.has_work() {
            spool.progress().await.unwrap();
        }
    }
    assert_eq!((spool.len(), spool.room()), (110_000, 0));
    assert!(spool.front.capacity() + spool.back.capacity() <= 40_000);
}

#[tokio::test]
async fn a_dropped_wait_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut spool = spool(&dir, 5000, 1 << 20);
    assert_eq!(spool.push(&pattern(0, 10_000)), 10_000);
    let mut cx = Context::from_waker(std::task::Waker::noop());
    let _ = spool.poll_progress(&mut cx);
    assert_eq!(spool.push(&pattern(10_000, 5000)), 5000, "a step holds no room");
    spool.consume(5000);
    assert_eq!(spool.len(), 10_000);
    while spool.front().is_empty() {
        spool.progress().await.unwrap();
    }
    assert_eq!(spool.front(), pattern(5000, 5000));
    spool.consume(5000);
    while spool.front().is_empty() {
        spool.progress().await.unwrap();
    }
    assert_eq!(spool.front(), pattern(10_000, 5000));
}

#[tokio::test]
async fn a_full_disk_is_an_error_and_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut spool = spool(&dir, 5000, 1 << 20);
    // This device fails each write as a full disk does.
    let full = std::fs::OpenOptions::new().read(true).write(true).open("/dev/full").unwrap();
    spool.file = Some(Arc::new(full));
    assert_eq!(spool.push(&pattern(0, 10_000)), 10_000);
    let error = spool.progress().await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    assert_eq!((spool.len(), spool.room(), spool.has_work()), (10_000, 0, false));
    assert_eq!(spool.front(), pattern(0, 5000));
    spool.consume(5000);
    assert_eq!(spool.front(), pattern(5000, 5000));
    spool.consume(5000);
    assert_eq!((spool.is_empty(), spool.room()), (true, 5000));
}

#[tokio::test]
async fn a_directory_that_cannot_be_made_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let mut spool = spool(&dir, 5000, 1 << 20);
    spool.limits.directory = Directory::Fixed(dir.path().join("gone").into());
    spool.push(&[1; 10_000]);
    assert_eq!(spool.progress().await.unwrap_err().kind(), io::ErrorKind::NotFound);
}
