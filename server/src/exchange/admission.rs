//! Admission: the bound on requests in progress, and the one queue before it and the pool.
//!
//! The pool bounds the requests of processes that take a limited number: further ones wait in its queue. For processes
//! that take any number, `--max-requests-in-progress` is the bound, and a request beyond it waits here. It may wait once
//! more, in the pool, while no process is there. An operator sees one queue: `status` shows the sum, and
//! `--max-request-queue-size` and `--max-request-queue-time` hold for both waits together.

use crate::exchange::counted::Counted;
use crate::exchange::endings::{Ending, Endings};
use cabrank::PoolOptions;
use cabrank::application_pool::GetError;
use cabrank_spawner::{Pool, Session};
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

/// The concurrency of processes before the first session.
const UNKNOWN: usize = usize::MAX;

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
    /// The number of requests that a process takes at once; 0: any number. Set by the first session: loaders say it.
    concurrency: AtomicUsize,
    /// The answers that are about to end.
    endings: Arc<Endings>,
    /// The largest number of processes.
    max_processes: usize,
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
    pub(crate) fn new(
        max: usize,
        max_waiting: Option<usize>,
        max_wait: Option<Duration>,
        max_processes: usize,
    ) -> Self {
        Admission {
            concurrency: AtomicUsize::new(UNKNOWN),
            endings: Arc::default(),
            max_processes,
            free: Arc::new(Semaphore::new(max.min(Semaphore::MAX_PERMITS))),
            waiting: AtomicUsize::new(0),
            outside: AtomicUsize::new(0),
            max_waiting: max_waiting.unwrap_or(usize::MAX),
            max_wait,
        }
    }

    /// Notes how many requests a process takes at once; 0: any number.
    pub(crate) fn learn(&self, concurrency: usize) {
        // A store by each request would make the cores wait for each other.
        if self.concurrency.load(Ordering::Relaxed) != concurrency {
            self.concurrency.store(concurrency, Ordering::Relaxed);
        }
    }

    /// Notes an answer that its client is about to have whole. Not for processes that take several requests: they have room for
    /// the next one.
    pub(crate) fn begin_ending(&self) -> Option<Ending> {
        (self.concurrency.load(Ordering::Relaxed) == 1).then(|| self.endings.begin())
    }

    /// Waits for the end of an answer, if the pool would start another process for a request that comes after it.
    async fn wait_for_an_ending(&self, pool: &Pool) {
        let counts = pool.counts();
        let would_start = counts.count > 0
            && counts.active == counts.count
            && counts.count < self.max_processes
            && counts.waiting == 0
            && counts.spawning == 0;
        if would_start {
            self.endings.wait().await;
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
        let is_needed = self.concurrency.load(Ordering::Relaxed) == 0;
        if self.endings.is_any() {
            // Boxed, because few requests wait, and each would take the memory.
            Box::pin(self.wait_for_an_ending(pool)).await;
        }
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
