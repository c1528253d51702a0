//! The bound on requests in progress, for processes that take any number of requests at once.
//!
//! The pool bounds the requests of processes that take a limited number: further ones wait in its queue. For the
//! other processes this bound is the same kind of limit, and a request beyond it waits in the same way: as long as
//! `--max-request-queue-time` allows, beside as many others as `--max-request-queue-size` allows.

use crate::config::Settings;
use cabrank::application_pool::GetError;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};

/// A request in progress. Dropping it ends the count.
pub(crate) type InProgress<'a> = SemaphorePermit<'a>;

/// The requests in progress, and those that wait.
#[derive(Debug)]
pub(crate) struct Progress {
    /// Whether the processes take any number of requests. Set by the first session: loaders say it.
    is_needed: AtomicBool,
    free: Semaphore,
    waiting: AtomicUsize,
    max_waiting: usize,
    max_wait: Duration,
}

impl Progress {
    pub(crate) fn new(max: usize, settings: &Settings) -> Self {
        Progress {
            is_needed: AtomicBool::new(false),
            free: Semaphore::new(max.min(Semaphore::MAX_PERMITS)),
            waiting: AtomicUsize::new(0),
            max_waiting: settings.max_request_queue_size.unwrap_or(usize::MAX),
            max_wait: settings.max_request_queue_time.unwrap_or(Duration::MAX),
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

    /// Counts a request if the bound allows it now. `Some(None)`: the pool's own bound is enough.
    pub(crate) fn try_begin(&self) -> Option<Option<InProgress<'_>>> {
        match self.is_needed.load(Ordering::Relaxed) {
            true => self.free.try_acquire().ok().map(Some),
            false => Some(None),
        }
    }

    /// Counts a request as soon as the bound allows it, first come, first served.
    ///
    /// # Errors
    /// The queue is full, or the request has waited too long.
    pub(crate) async fn begin(&self) -> Result<InProgress<'_>, GetError> {
        let place = Place::take(self)?;
        let turn = tokio::time::timeout(self.max_wait, self.free.acquire()).await;
        drop(place);
        let turn = turn.map_err(|_| GetError::QueuedTooLong)?;
        turn.map_err(|_| GetError::Closed)
    }
}

/// A place in the queue. Dropping it frees the place, so that a client that leaves gives it up.
struct Place<'a>(&'a AtomicUsize);

impl<'a> Place<'a> {
    fn take(of: &'a Progress) -> Result<Self, GetError> {
        let place = Place(&of.waiting);
        match of.waiting.fetch_add(1, Ordering::Relaxed) < of.max_waiting {
            true => Ok(place),
            false => Err(GetError::QueueFull { max_queue: of.max_waiting }),
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
