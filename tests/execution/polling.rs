//! Polling by hand.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// Polls a future once, with a waker that has no effect.
pub(crate) fn poll<F: Future>(future: F) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// Returns a future that is pending once, and wakes its task.
pub(crate) fn yield_once() -> impl Future<Output = ()> {
    let mut polled = false;
    std::future::poll_fn(move |cx| {
        cx.waker().wake_by_ref();
        match std::mem::replace(&mut polled, true) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    })
}
