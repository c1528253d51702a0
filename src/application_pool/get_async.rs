//! The asynchronous half of `get`: the same critical sections, the same queue, a task in place of a
//! thread.
//!
//! # Cancel safety
//! Dropping a future at any await gives everything back: a get that waits leaves its queue; one that
//! has been served meanwhile passes the process on to the next in line.

use super::checkout::{Asker, Checkout};
use super::error::GetError;
use super::options::PoolOptions;
use super::restart_files::Look;
use super::session::{Ending, Lease, Session};
use super::spawner::Spawner;
use super::state::Outcome;
use super::{ApplicationPool, Inner, MAX_ATTEMPTS, connect};
use crate::collections::slab_list::Key;
use crate::sync::has_failed;
use crate::user_code::drop_contained;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

impl<S: Spawner> ApplicationPool<S> {
    /// [`get`](Self::get) as a future, for any runtime. It has no time-out of its own: drop it, or
    /// wrap it into one of the runtime's. `Process::connect` is called from within it.
    ///
    /// # Errors
    /// Those of [`get`](Self::get).
    ///
    /// # Cancel safety
    /// May be dropped at any await: nothing is lost, and nobody loses their turn.
    pub async fn get_async(&self, options: &PoolOptions) -> Result<Session<S>, GetError> {
        let look = self.inner().look(options);
        let mut attempt = 1;
        loop {
            let lease = self.checkout_async_by(options, look.as_ref(), attempt).await?;
            match connect(lease) {
                Ok(session) => return Ok(session),
                Err(error) if error.is_local() || attempt == MAX_ATTEMPTS => {
                    return Err(GetError::Connect(error));
                }
                Err(error) => {
                    drop_contained(error);
                    attempt += 1;
                }
            }
        }
    }

    /// [`checkout`](Self::checkout) as a future: for callers that connect asynchronously.
    ///
    /// # Errors
    /// Those of [`checkout`](Self::checkout).
    ///
    /// # Cancel safety
    /// As for [`get_async`](Self::get_async).
    pub async fn checkout_async(&self, options: &PoolOptions) -> Result<Lease<S>, GetError> {
        let look = self.inner().look(options);
        self.checkout_async_by(options, look.as_ref(), 1).await
    }

    async fn checkout_async_by(
        &self,
        options: &PoolOptions,
        look: Option<&Look>,
        attempt: usize,
    ) -> Result<Lease<S>, GetError> {
        let inner = self.inner();
        match inner.begin(options, look, attempt, Asker::Task) {
            Checkout::Serve(entry) => Ok(Lease::new(entry)),
            Checkout::Fail(error) => Err(error),
            Checkout::Wait { group, waiter } => {
                let begun = inner.clock.now();
                let turn = Turn { pool: inner.clone(), group, waiter: Some(waiter) };
                let lease = turn.await.into_lease()?;
                inner.tell_waited(options, begun);
                Ok(lease)
            }
        }
    }
}

/// A place in the queue.
struct Turn<S: Spawner> {
    pool: Arc<Inner<S>>,
    group: Key,
    /// Absent once the outcome has been taken.
    waiter: Option<Key>,
}

impl<S: Spawner> Future for Turn<S> {
    type Output = Outcome<S>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome<S>> {
        let waiter = self.waiter.expect("not polled after completion");
        // Cloned before the lock and dropped after it: both are foreign code. If the clone panics, who
        // polls is told: the waker is theirs, and nothing has happened yet.
        let mut waker = Some(cx.waker().clone());
        let (outcome, former) = self.pool.critical(|state, _| {
            let outcome = state.waiters.take(waiter);
            let former = match (&outcome, waker.take_if(|_| outcome.is_none())) {
                (None, Some(waker)) => state.waiters.set_waker(waiter, waker),
                _ => None,
            };
            (outcome, former)
        });
        drop_contained(former);
        drop_contained(waker);
        match outcome {
            Some(outcome) => {
                self.waiter = None;
                Poll::Ready(outcome)
            }
            None => Poll::Pending,
        }
    }
}

impl<S: Spawner> Drop for Turn<S> {
    fn drop(&mut self) {
        let Some(waiter) = self.waiter.take().filter(|_| !has_failed()) else { return };
        let group = self.group;
        let (outcome, waker) = self.pool.critical(|state, fx| state.leave_queue(group, waiter, fx));
        drop_contained(waker);
        match outcome {
            Some(Outcome::Serve(entry)) => {
                Lease::new(entry).end(Ending::Unused);
            }
            Some(Outcome::SpawnFailed(error)) => drop_contained(error),
            Some(Outcome::Closed) | None => {}
        }
    }
}
