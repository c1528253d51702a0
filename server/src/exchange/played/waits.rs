//! The waits of tests: each has a deadline by the real clock.

use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::oneshot;

/// How long a test waits, by the real clock, for what must happen.
const DEADLINE: Duration = Duration::from_secs(30);

/// Waits for `work`, which must end.
///
/// The runtime's clock is paused, and moves on while all tasks wait. So a thread watches the real one.
pub(crate) async fn within<T>(what: &str, work: impl Future<Output = T>) -> T {
    within_time(DEADLINE, what, work).await
}

/// Waits for a whole play, as [`within`] does for one of its waits.
pub(crate) async fn within_a_play<T>(work: impl Future<Output = T>) -> T {
    within_time(DEADLINE * 4, "the play ends", work).await
}

async fn within_time<T>(limit: Duration, what: &str, work: impl Future<Output = T>) -> T {
    let (expire, expired) = oneshot::channel();
    let (_done, done) = std::sync::mpsc::channel::<()>();
    std::thread::spawn(move || {
        if done.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
            let _ = expire.send(());
        }
    });
    tokio::select! {
        biased;
        done = work => done,
        _ = expired => panic!("in vain the test waits that {what}"),
    }
}

/// Reads until the text has come. Returns all that was read.
pub(crate) async fn read_until(stream: &mut (impl AsyncRead + Unpin), text: &[u8]) -> Vec<u8> {
    let what = format!("{:?} comes", String::from_utf8_lossy(text));
    let mut seen = Vec::new();
    while !seen.windows(text.len().max(1)).any(|part| part == text) {
        let mut buffer = [0; 4096];
        let count = within(&what, stream.read(&mut buffer)).await.unwrap_or(0);
        assert!(count > 0, "the stream ended: {}", String::from_utf8_lossy(&seen));
        seen.extend_from_slice(&buffer[..count]);
    }
    seen
}

/// Reads to the end of the stream.
pub(crate) async fn read_rest(stream: &mut (impl AsyncRead + Unpin)) -> Vec<u8> {
    let mut seen = Vec::new();
    // A reset ends it, too.
    let _ = within("a stream ends", stream.read_to_end(&mut seen)).await;
    seen
}

/// Waits until `is_so` holds. Returns false if it does not by the deadline.
pub(crate) async fn eventually(mut is_so: impl FnMut() -> bool) -> bool {
    let deadline = std::time::Instant::now() + DEADLINE;
    while !is_so() {
        if std::time::Instant::now() > deadline {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    true
}
