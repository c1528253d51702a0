//! What the models share: a pool whose every foreign call re-enters it, and a set-up that is not
//! explored.

use crate::in_memory::{InMemorySpawner, Spawn};
use crate::sync::thread;
use crate::{ApplicationPool, Builder, ManualClock, PoolOptions, Session};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

pub(super) use crate::application_pool::{Ending, Found};
pub(super) use crate::sync::explore::explore;
pub(super) use crate::sync::thread::spawn;

pub(super) type Pool = ApplicationPool<InMemorySpawner>;
pub(super) const DRAIN: Duration = Duration::from_secs(60);
pub(super) const IDLE: Duration = Duration::from_secs(300);

pub(super) struct Rig {
    pub(super) pool: Pool,
    pub(super) spawner: InMemorySpawner,
    pub(super) clock: ManualClock,
}

impl Rig {
    pub(super) fn new(
        configure: impl FnOnce(Builder<InMemorySpawner>) -> Builder<InMemorySpawner>,
    ) -> Self {
        let clock = ManualClock::new();
        let spawner = InMemorySpawner::with_clock(clock.clock());
        let builder = ApplicationPool::builder(spawner.clone())
            .clock(clock.clock())
            .cleaner(false)
            .max_idle_time(IDLE)
            .drain_timeout(DRAIN);
        let pool = configure(builder).build().expect("a valid pool");
        Rig { pool, spawner, clock }
    }

    /// Lets every foreign call re-enter the pool. Each is one more step to be interleaved, so models
    /// of three actors do without.
    pub(super) fn reentrant(self) -> Self {
        let weak = self.pool.downgrade();
        self.spawner.on_call(move |_| {
            // Foreign code may call the pool: it would not come back if the lock were held.
            if !crate::sync::has_failed()
                && let Some(pool) = weak.upgrade()
            {
                pool.counts();
            }
        });
        self
    }

    /// A session with a process that was spawned before the race begins.
    pub(super) fn session(&self, app: &PoolOptions) -> Session<InMemorySpawner> {
        thread::inline(|| self.pool.get(app)).expect("a session")
    }
    /// An idle process, spawned before the race begins.
    pub(super) fn idle(&self, app: &PoolOptions) {
        thread::inline(|| drop(self.pool.get(app)));
    }
    pub(super) fn counts(&self) -> (usize, usize) {
        let counts = self.pool.counts();
        (counts.active, counts.count)
    }
}

pub(super) fn app(name: &str) -> PoolOptions {
    PoolOptions::new(format!("/{name}"))
}

pub(super) fn unlimited() -> Spawn {
    Spawn::ready().concurrency(0)
}

/// Polls once, with a waker that wakes nobody.
pub(super) fn poll_once<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Runs a future on this thread.
pub(super) fn block_on<F: Future>(future: F) -> F::Output {
    struct Parker(crate::sync::Mutex<bool>, crate::sync::Condvar);
    impl Wake for Parker {
        fn wake(self: Arc<Self>) {
            *self.0.lock() = true;
            self.1.notify_one();
        }
    }
    let parker = Arc::new(Parker(crate::sync::Mutex::new(false), crate::sync::Condvar::new()));
    let waker = Waker::from(parker.clone());
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        let mut woken = parker.0.lock();
        while !*woken {
            parker.1.wait(&mut woken);
        }
        *woken = false;
    }
}
