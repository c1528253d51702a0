//! A future that is in a scope whenever it runs: when it is polled, and when it is dropped.
//!
//! The future holds the body's values, and their drop is the body's code. It may begin executions, in the same scope
//! as the rest of the body. Outside the scope it would be a newcomer, and wait for an unload that waits for the
//! body's own execution: a deadlock.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

struct Scoped<'a, F, E: Fn() -> G, G> {
    /// Absent once it is dropped.
    future: Pin<&'a mut Option<F>>,
    enter: E,
}

/// Polls `future` to its end inside the scope that `enter` enters. If the returned future is dropped earlier, it
/// drops `future` inside the scope, too.
pub(crate) async fn scoped<F: Future, G>(enter: impl Fn() -> G, future: F) -> F::Output {
    let mut scoped = Scoped { future: pin!(Some(future)), enter };
    poll_fn(|cx| scoped.poll(cx)).await
}

impl<F: Future, E: Fn() -> G, G> Scoped<'_, F, E, G> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<F::Output> {
        let _here = (self.enter)();
        self.future.as_mut().as_pin_mut().expect("it is dropped at the end").poll(cx)
    }
}

impl<F, E: Fn() -> G, G> Drop for Scoped<'_, F, E, G> {
    fn drop(&mut self) {
        let _here = (self.enter)();
        self.future.set(None);
    }
}
