//! Admission: the bound on requests in progress, and the one queue before it and the pool.
//!
//! The pool bounds the requests of processes that take a limited number: further ones wait in its queue. For processes
//! that take any number, `--max-requests-in-progress` is the bound, and a request beyond it waits here. It may wait once
//! more, in the pool, while no process is there. An operator sees one queue: `status` shows the sum, and
//! `--max-request-queue-size` and `--max-request-queue-time` hold for both waits together.

use cabrank::PoolOptions;
use cabrank::application_pool::GetError;
use cabrank_spawner::{Pool, Session};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

/// A request's place among those in progress. Dropping it gives the place back.
///
/// It does not borrow, because a session may outlive the task of its request.
#[derive(Debug)]
pub(crate) struct Place(Arc<Semaphore>);

impl Place {
    fn new(of: &Arc<Semaphore>, permit: SemaphorePermit<'_>) -> Place {
        permit.forget(); // the drop adds it again
        Place(Arc::clone(of))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.add_permits(1);
    }
}

/// The requests in progress, and those that wait.
#[derive(Debug)]
pub(crate) struct Admission {
    /// Whether the processes take any number of requests. Set by the first session: loaders say it.
    is_needed: AtomicBool,
    free: Arc<Semaphore>,
    /// The requests that wait, here or in the pool.
    waiting: AtomicUsize,
    /// Those of them that the pool does not know of.
    outside: AtomicUsize,
    max_waiting: usize,
    max_wait: Option<Duration>,
}

impl Admission {
    /// `max_waiting` and `max_wait` are the limits of the queue.
    pub(crate) fn new(max: usize, max_waiting: Option<usize>, max_wait: Option<Duration>) -> Self {
        Admission {
            is_needed: AtomicBool::new(false),
            free: Arc::new(Semaphore::new(max.min(Semaphore::MAX_PERMITS))),
            waiting: AtomicUsize::new(0),
            outside: AtomicUsize::new(0),
            max_waiting: max_waiting.unwrap_or(usize::MAX),
            max_wait,
        }
    }

    /// Notes how many requests a process takes at once; 0: any number.
    pub(crate) fn learn(&self, concurrency: usize) {
        let is_needed = concurrency == 0;
        // A store by each request would make the cores wait for each other.
        if self.is_needed.load(Ordering::Relaxed) != is_needed {
            self.is_needed.store(is_needed, Ordering::Relaxed);
        }
    }

    /// Returns the number of requests that wait before they may ask the pool.
    pub(crate) fn waiting_outside(&self) -> usize {
        self.outside.load(Ordering::Relaxed)
    }

    /// Gets a session from the pool as soon as the bound allows it, first come, first served.
    ///
    /// `held` has the request's place among those in progress, which outlasts a session that failed.
    ///
    /// # Errors
    /// The error of the pool. If both wait, then the limits of the queue hold for the sum.
    pub(crate) async fn session(
        &self,
        pool: &Pool,
        options: &PoolOptions,
        held: &mut Option<Place>,
    ) -> Result<Session, GetError> {
        let is_needed = self.is_needed.load(Ordering::Relaxed);
        if is_needed && held.is_none() {
            let free = self.free.try_acquire().ok();
            *held = free.map(|permit| Place::new(&self.free, permit));
        }
        if !is_needed || held.is_some() {
            let mut get = pin!(pool.get_async(options));
            let first = poll_fn(|cx| Poll::Ready(get.as_mut().poll(cx))).await;
            return match first {
                Poll::Ready(got) => got,
                // The pool's own limits are enough.
                Poll::Pending if !is_needed => get.await,
                Poll::Pending => Wait::begin(self)?.bounded(get).await?,
            };
        }
        // Boxed, because few requests wait, and each would take the memory.
        Box::pin(self.wait(pool, options, held)).await
    }

    async fn wait(
        &self,
        pool: &Pool,
        options: &PoolOptions,
        held: &mut Option<Place>,
    ) -> Result<Session, GetError> {
        let wait = Wait::begin(self)?;
        let outside = Counted::one_more(&self.outside);
        let free = wait.bounded(self.free.acquire()).await?;
        drop(outside);
        *held = Some(Place::new(&self.free, free.map_err(|_| GetError::Closed)?));
        wait.bounded(pool.get_async(options)).await?
    }
}

/// A request that waits. Dropping it frees its place, so that a client that leaves gives it up.
struct Wait<'a> {
    until: Option<Instant>,
    _place: Counted<'a>,
}

impl<'a> Wait<'a> {
    fn begin(of: &'a Admission) -> Result<Self, GetError> {
        let place = Counted::one_more(&of.waiting);
        if place.before >= of.max_waiting {
            return Err(GetError::QueueFull { max_queue: of.max_waiting });
        }
        Ok(Wait { until: of.max_wait.map(|max| Instant::now() + max), _place: place })
    }

    /// Waits for `work`, within the time that the queue allows.
    async fn bounded<T>(&self, work: impl Future<Output = T>) -> Result<T, GetError> {
        match self.until {
            Some(until) => {
                tokio::time::timeout_at(until, work).await.map_err(|_| GetError::QueuedTooLong)
            }
            None => Ok(work.await),
        }
    }
}

/// One of a number of things. Dropping it ends the count.
struct Counted<'a> {
    number: &'a AtomicUsize,
    /// The number before this one.
    before: usize,
}

impl<'a> Counted<'a> {
    fn one_more(number: &'a AtomicUsize) -> Self {
        Counted { number, before: number.fetch_add(1, Ordering::Relaxed) }
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.number.fetch_sub(1, Ordering::Relaxed);
    }
}
