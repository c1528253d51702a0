//! The smallest executor: a future that the test polls by hand, and a count of its wake-ups.

use super::waiting::before_long;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

/// A future, and a waker that counts.
pub(crate) struct Task<T> {
    future: Pin<Box<dyn Future<Output = T> + Send>>,
    wakes: Arc<Wakes>,
}

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl<T> Task<T> {
    pub(crate) fn new(future: impl Future<Output = T> + Send + 'static) -> Task<T> {
        Task { future: Box::pin(future), wakes: Arc::default() }
    }
    /// Polls it once.
    pub(crate) fn poll(&mut self) -> Option<T> {
        let waker = Waker::from(self.wakes.clone());
        self.poll_with(&waker)
    }
    /// Polls it once, with another waker.
    pub(crate) fn poll_with(&mut self, waker: &Waker) -> Option<T> {
        match self.future.as_mut().poll(&mut Context::from_waker(waker)) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }
    /// Returns how often the waker was woken.
    pub(crate) fn wakes(&self) -> usize {
        self.wakes.0.load(Ordering::SeqCst)
    }
    /// Polls it at each wake-up, until it is done.
    #[track_caller]
    pub(crate) fn finish(mut self) -> T {
        let mut seen = 0;
        loop {
            if let Some(value) = self.poll() {
                return value;
            }
            before_long(|| self.wakes() > seen);
            seen = self.wakes();
        }
    }
}

/// Runs a future on this thread, which sleeps until it is woken.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}
