//! Answers that their clients have got whole, while the application has not finished.
//!
//! A client that sees the end of its answer may send the next request over another connection, before the application says that
//! it has finished: it closes what it has opened, or the machine is busy. Then no process has room, and the pool would start
//! another one, although requests come one after the other. So such a request waits for the end a moment first.

use crate::exchange::counted::Counted;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::Notify;

/// The longest wait of a request for the end of an answer. A process takes about as long to start.
const PATIENCE: Duration = Duration::from_millis(200);

/// The answers of an application that are about to end.
#[derive(Debug, Default)]
pub(crate) struct Endings {
    number: AtomicUsize,
    /// The requests that wait for an end.
    waiting: AtomicUsize,
    ended: Notify,
}

/// An answer that is about to end. Dropping it ends it: its session is dropped before.
#[derive(Debug)]
pub(crate) struct Ending(Arc<Endings>);

impl Endings {
    /// Notes an answer, whose last bytes the caller passes on after this.
    pub(crate) fn begin(self: &Arc<Self>) -> Ending {
        self.number.fetch_add(1, Ordering::SeqCst);
        Ending(Arc::clone(self))
    }

    /// Returns whether an answer is about to end.
    pub(crate) fn is_any(&self) -> bool {
        self.number.load(Ordering::SeqCst) > 0
    }

    /// Waits until an answer has ended, for a moment at most. Does not wait if as many requests wait as answers are about to end.
    pub(crate) async fn wait(&self) {
        let mut ended = pin!(self.ended.notified());
        // From now on, no end is missed.
        ended.as_mut().enable();
        let waits = Counted::one_more(&self.waiting);
        if waits.before < self.number.load(Ordering::SeqCst) {
            tracing::debug!(
                "a request waits for the end of an answer, before another process starts"
            );
            let _ = tokio::time::timeout(PATIENCE, ended).await;
        }
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.number.fetch_sub(1, Ordering::SeqCst);
        // A request that saw this number before has counted itself before. Else it does not wait.
        if self.0.waiting.load(Ordering::SeqCst) > 0 {
            self.0.ended.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Poll;
    use tokio::time::Instant;

    #[tokio::test(start_paused = true)]
    async fn a_request_waits_for_the_end_and_not_for_the_time() {
        let endings = Arc::new(Endings::default());
        let ending = endings.begin();
        let begun = Instant::now();
        let mut wait = pin!(endings.wait());
        assert!(std::future::poll_fn(|cx| Poll::Ready(wait.as_mut().poll(cx))).await.is_pending());
        drop(ending);
        wait.await;
        assert_eq!(begun.elapsed(), Duration::ZERO);
        assert!(!endings.is_any());
        endings.wait().await;
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn an_end_that_does_not_come_holds_a_request_up_for_a_moment() {
        let endings = Arc::new(Endings::default());
        let _ending = endings.begin();
        let begun = Instant::now();
        endings.wait().await;
        assert_eq!(begun.elapsed(), PATIENCE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_second_request_for_one_end_does_not_wait() {
        let endings = Arc::new(Endings::default());
        let _ending = endings.begin();
        let begun = Instant::now();
        let mut first = pin!(endings.wait());
        assert!(std::future::poll_fn(|cx| Poll::Ready(first.as_mut().poll(cx))).await.is_pending());
        endings.wait().await;
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }
}
