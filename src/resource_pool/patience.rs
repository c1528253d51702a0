//! Who waits, and until when; and how a thread runs what tasks await.

use crate::clock::{Clock, Deadline};
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Who waits, and until when.
pub(crate) struct Patience {
    pub(super) is_thread: bool,
    pub(super) deadline: Deadline,
}

impl Patience {
    /// The time begins with the call: also that of tests that fail is the borrower's.
    #[inline]
    pub(super) fn of_a_thread(clock: &Clock, timeout: Option<Duration>) -> Self {
        let deadline = timeout.map_or(Deadline::Never, |timeout| clock.deadline(timeout));
        Patience { is_thread: true, deadline }
    }
    #[inline]
    pub(super) fn of_a_task() -> Self {
        Patience { is_thread: false, deadline: Deadline::Never }
    }
}

/// What a future comes to that is never pending.
#[inline]
pub(super) fn now<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => unreachable!("a synchronous factory is never pending"),
    }
}
