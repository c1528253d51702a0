//! What the models share: a pool, foreign calls that re-enter it where that can be afforded, and a set-up
//! that is not explored.

use crate::in_memory::InMemorySpawner;
use crate::sync::{Condvar, Mutex, thread};
use crate::{ApplicationPool, Builder, ManualClock, PoolOptions, Session};
use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, SystemTime};

pub(super) use crate::application_pool::{Ending, Found};
pub(super) use crate::in_memory::{Call, Spawn};
pub(super) use crate::sync::explore::{explore, explore_small};
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
        let rig = Rig { pool, spawner, clock };
        // What is too much for loom is nothing to random schedules: there all re-enter, but for models that
        // have a hook of their own.
        if cfg!(feature = "loom") { rig } else { rig.reentrant() }
    }

    /// Lets every foreign call re-enter the pool. Each is more steps to be interleaved: models for which
    /// that is too much for loom do without there, and say so.
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

    /// Rings for every call of this kind; foreign calls then do nothing else.
    pub(super) fn bell(&self, wanted: Call) -> Bell {
        let bell = Bell::new();
        let theirs = bell.clone();
        self.spawner.on_call(move |call| {
            if call == wanted {
                theirs.ring();
            }
        });
        bell
    }

    /// A session with a process that was spawned before the race begins.
    pub(super) fn session(&self, app: &PoolOptions) -> Session<InMemorySpawner> {
        thread::inline(|| self.pool.get(app)).expect("a session")
    }
    /// An idle process, spawned before the race begins.
    pub(super) fn idle(&self, app: &PoolOptions) {
        thread::inline(|| drop(self.pool.get(app)));
    }
    /// How many restarts the group has seen.
    pub(super) fn generation(&self, app: &PoolOptions) -> u64 {
        let groups = self.pool.snapshot().groups;
        let group = groups.into_iter().find(|group| group.name == app.app_group_name());
        group.expect("it was asked for").generation
    }
    /// Closes the pool and waits until nothing is left; the numbers of the processes that were shut
    /// down, each once.
    pub(super) fn end(self) -> Vec<u32> {
        self.pool.close();
        assert!(self.pool.wait_closed(DRAIN), "nothing is left of a closed pool");
        let mut gone: Vec<u32> = self.spawner.shut_down().iter().map(|(pid, _)| *pid).collect();
        gone.sort_unstable();
        assert!(gone.is_sorted_by(|a, b| a < b), "shut down twice: {gone:?}");
        gone
    }
    pub(super) fn counts(&self) -> (usize, usize) {
        let counts = self.pool.counts();
        (counts.active, counts.count)
    }
}

/// A `restart.txt`, the same for whatever directory is looked into.
#[derive(Clone)]
pub(super) struct RestartFile(Arc<AtomicU64>);

impl RestartFile {
    pub(super) fn new() -> Self {
        RestartFile(Arc::new(AtomicU64::new(1)))
    }
    pub(super) fn touch(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
    pub(super) fn look_up(
        &self,
    ) -> impl Fn(&Path) -> io::Result<SystemTime> + Send + Sync + 'static {
        let touched = self.0.clone();
        move |file| match file.ends_with("restart.txt") {
            true => {
                let seconds = Duration::from_secs(touched.load(Ordering::SeqCst));
                Ok(SystemTime::UNIX_EPOCH + seconds)
            }
            false => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

/// Counts something, and lets a model wait for it: what comes about on the pool's own threads has
/// nobody who could be joined.
#[derive(Clone)]
pub(super) struct Bell(Arc<(Mutex<usize>, Condvar)>);

impl Bell {
    pub(super) fn new() -> Self {
        Bell(Arc::new((Mutex::new(0), Condvar::new())))
    }
    pub(super) fn ring(&self) {
        *self.0.0.lock() += 1;
        self.0.1.notify_all();
    }
    /// How often it has rung.
    pub(super) fn rung(&self) -> usize {
        *self.0.0.lock()
    }
    /// Waits until it has rung `n` times in all.
    pub(super) fn wait(&self, n: usize) {
        let mut rung = self.0.0.lock();
        while *rung < n {
            self.0.1.wait(&mut rung);
        }
    }
}

pub(super) fn app(name: &str) -> PoolOptions {
    PoolOptions::new(format!("/{name}"))
}

pub(super) fn unlimited() -> Spawn {
    Spawn::ready().concurrency(0)
}

/// Polls once, with a waker that wakes nobody.
pub(super) fn poll_once<F: Future + ?Sized>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Runs a future on this thread.
pub(super) fn block_on<F: Future>(future: F) -> F::Output {
    struct Parker(Mutex<bool>, Condvar);
    impl Wake for Parker {
        fn wake(self: Arc<Self>) {
            *self.0.lock() = true;
            self.1.notify_one();
        }
    }
    let parker = Arc::new(Parker(Mutex::new(false), Condvar::new()));
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
