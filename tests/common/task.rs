//! A future that the test polls by hand, each time with a new waker, and a count of its wake-ups.

use super::waiting::SOON;
use super::woken::WakeUps;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// A future, and the wake-ups of its polls.
pub(crate) struct Task<T> {
    future: Pin<Box<dyn Future<Output = T> + Send>>,
    wake_ups: Arc<WakeUps>,
}

impl<T> Task<T> {
    pub(crate) fn new(future: impl Future<Output = T> + Send + 'static) -> Task<T> {
        Task { future: Box::pin(future), wake_ups: Arc::default() }
    }
    /// Polls it once, with a new waker.
    pub(crate) fn poll(&mut self) -> Option<T> {
        let waker = self.wake_ups.next_waker();
        self.poll_with(&waker)
    }
    /// Polls it once, with another waker.
    pub(crate) fn poll_with(&mut self, waker: &Waker) -> Option<T> {
        match self.future.as_mut().poll(&mut Context::from_waker(waker)) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }
    /// Returns how often it was woken by the waker of its last poll.
    pub(crate) fn wakes(&self) -> usize {
        self.wake_ups.wakes()
    }
    /// Polls it now and at each wake-up, until it is done.
    #[track_caller]
    pub(crate) fn finish(mut self) -> T {
        loop {
            if let Some(value) = self.poll() {
                return value;
            }
            self.wake_ups.wait(SOON);
        }
    }
}

/// Runs a future on this thread, which sleeps until it is woken by the waker of the last poll.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let (mut future, wake_ups) = (pin!(future), Arc::<WakeUps>::default());
    loop {
        let waker = wake_ups.next_waker();
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => wake_ups.wait(Duration::MAX),
        }
    }
}
