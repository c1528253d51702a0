//! A creation, run outside the lock in a place that a guard reserves. It may be dropped at any await.

use crate::kernel::user_code::{contain, drop_contained};
use crate::resource_pool::api::error::Failure;
use crate::resource_pool::api::factory::{Creation, Form};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The guard of the place of a creation.
pub(crate) trait InPlace<F: Form> {
    /// Notes why the creation failed, for borrowers that wait in vain.
    fn note_failure(&self, failure: &Failure<F::Error>);
}

/// A future that completes a creation, and returns the guard of its place with the result.
///
/// If it is dropped, the creation goes first: it occupies its place until then.
pub(crate) struct InCreation<F: Form, G> {
    creation: Option<Creation<F>>,
    guard: Option<G>,
}

impl<F: Form, G> InCreation<F, G> {
    pub(crate) fn new(creation: Creation<F>, guard: G) -> Self {
        InCreation { creation: Some(creation), guard: Some(guard) }
    }
}

impl<F: Form, G> Unpin for InCreation<F, G> {}

impl<F: Form, G: InPlace<F>> Future for InCreation<F, G> {
    type Output = (G, Result<F::Resource, Failure<F::Error>>);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let creation = self.creation.as_mut().expect("not polled after completion");
        let made = match contain(|| creation.as_mut().poll(cx)) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(made)) => made,
            Err(message) => Err(Failure::Panicked(message)),
        };
        let guard = self.guard.take().expect("not polled after completion");
        drop_contained(self.creation.take());
        if let Err(failure) = &made {
            guard.note_failure(failure);
        }
        Poll::Ready((guard, made))
    }
}

impl<F: Form, G> Drop for InCreation<F, G> {
    fn drop(&mut self) {
        drop_contained(self.creation.take());
    }
}
