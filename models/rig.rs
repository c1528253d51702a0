//! A pool for the models, user code that re-enters it, and a set-up that is not explored.

use crate::application_pool::{Builder, Spawner};
use crate::in_memory::InMemorySpawner;
use crate::kernel::sync::{Condvar, Mutex, thread};
use crate::{ApplicationPool, ManualClock, PoolOptions, Session};
use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, SystemTime};

pub(super) use crate::application_pool::{Ending, Found};
pub(super) use crate::in_memory::{Call, Spawn};
pub(super) use crate::kernel::section::Guarded;
pub(super) use crate::kernel::sync::thread::spawn;
pub(super) use crate::models::tool::explore::{Model, explore, explore_small};

pub(super) type Pool = ApplicationPool<InMemorySpawner>;
pub(super) const DRAIN: Duration = Duration::from_secs(60);
pub(super) const IDLE: Duration = Duration::from_secs(300);

pub(super) struct Rig {
    pub(super) pool: Pool,
    pub(super) spawner: InMemorySpawner,
    pub(super) clock: ManualClock,
    /// Called by the spawner, by drops of its processes and connections, and by wakers.
    pub(super) reentry: Reentry,
    /// Called by the observer.
    observers: Reentry,
    /// Called by looks at the restart files.
    looks: Reentry,
}

/// A way for user code to re-enter the pool that calls it.
///
/// The user code gets it before there is a pool. Until it is enabled, a call does nothing, and is no step.
#[derive(Clone, Default)]
pub(super) struct Reentry(Arc<OnceLock<Box<dyn Fn() + Send + Sync>>>);

impl Reentry {
    /// Enables it: `enter` calls the pool and takes its lock.
    pub(super) fn enable(&self, enter: impl Fn() + Send + Sync + 'static) {
        // Under shuttle it is enabled from the beginning; a model may enable it once more.
        let _ = self.0.set(Box::new(enter));
    }
    /// Calls the pool. If the caller's thread held the lock, this would deadlock.
    pub(super) fn enter(&self) {
        // A model that fails must end, not hang. And shuttle, which reduces no schedules, cannot go through all of a
        // model that re-enters; loom goes through every interleaving of it.
        let shut =
            crate::kernel::sync::has_failed() || crate::models::tool::explore::goes_through_all();
        if let Some(enter) = self.0.get().filter(|_| !shut) {
            enter();
        }
    }
}

/// Lets the user code that has this re-enter the pool.
pub(super) fn enable_for<S: Spawner>(reentry: &Reentry, pool: &ApplicationPool<S>) {
    let weak = pool.downgrade();
    reentry.enable(move || {
        if let Some(pool) = weak.upgrade() {
            pool.counts();
        }
    });
}

impl Rig {
    pub(super) fn new(
        configure: impl FnOnce(Builder<InMemorySpawner>) -> Builder<InMemorySpawner>,
    ) -> Self {
        Rig::with_looks(Reentry::default(), configure)
    }
    /// A rig with a `restart.txt`. Each look at it may re-enter the pool.
    pub(super) fn with_file(
        file: &RestartFile,
        configure: impl FnOnce(Builder<InMemorySpawner>) -> Builder<InMemorySpawner>,
    ) -> Self {
        Rig::with_looks(file.reentry.clone(), |b| configure(b.restart_files(file.look_up())))
    }
    /// A rig for a look-up of the model's own, which re-enters by `looks`.
    pub(super) fn with_looks(
        looks: Reentry,
        configure: impl FnOnce(Builder<InMemorySpawner>) -> Builder<InMemorySpawner>,
    ) -> Self {
        let clock = ManualClock::new();
        let spawner = InMemorySpawner::with_clock(clock.clock());
        let (reentry, observers) = (Reentry::default(), Reentry::default());
        let observed = observers.clone();
        let builder = ApplicationPool::builder(spawner.clone())
            .observer(move |_| observed.enter())
            .clock(clock.clock())
            .cleaner(false)
            .max_idle_time(IDLE)
            .drain_timeout(DRAIN);
        let pool = configure(builder).build().expect("a valid pool");
        let rig = Rig { pool, spawner, clock, reentry, observers, looks };
        rig.on_call(|_| ());
        // Random schedules can afford what is too much for loom: under shuttle every rig re-enters.
        if cfg!(feature = "loom") { rig } else { rig.reentrant() }
    }

    /// Lets the calls of the spawner and its processes re-enter the pool, and the drops of what it created.
    ///
    /// The wakers of futures that `reentry` polls re-enter, too. Each call is a step more to interleave. A model that
    /// loom cannot afford with it does not call this, and says so.
    pub(super) fn reentrant(self) -> Self {
        self.enable(&self.reentry);
        self
    }
    /// Returns how many processes have been detached that had been attached.
    pub(super) fn attached_and_detached(&self) -> u64 {
        let totals = self.pool.snapshot().totals;
        totals.detached - totals.unwanted
    }
    /// Lets the observer re-enter the pool.
    ///
    /// Most sections report an event, so few models can afford it: random schedules become three times as long and
    /// miss the rare outcomes.
    pub(super) fn with_reentrant_observer(self) -> Self {
        self.enable(&self.observers);
        self
    }
    /// Lets looks at the restart files re-enter the pool.
    pub(super) fn with_reentrant_looks(self) -> Self {
        self.enable(&self.looks);
        self
    }
    fn enable(&self, reentry: &Reentry) {
        enable_for(reentry, &self.pool);
    }
    /// Runs `hook` in each call of the spawner, after the call has re-entered the pool.
    pub(super) fn on_call(&self, hook: impl Fn(Call) + Send + Sync + 'static) {
        let reentry = self.reentry.clone();
        self.spawner.on_call(move |call| {
            reentry.enter();
            hook(call);
        });
    }

    /// Returns a counter of the calls of this kind.
    pub(super) fn counter_of(&self, wanted: Call) -> Counter {
        let counter = Counter::new();
        let theirs = counter.clone();
        self.on_call(move |call| {
            if call == wanted {
                theirs.up();
            }
        });
        counter
    }

    /// Returns a session with a process that is spawned before the race begins.
    pub(super) fn session(&self, app: &PoolOptions) -> Session<InMemorySpawner> {
        thread::inline(|| self.pool.get(app)).expect("a session")
    }
    /// Spawns an idle process before the race begins.
    pub(super) fn idle(&self, app: &PoolOptions) {
        thread::inline(|| drop(self.pool.get(app)));
    }
    /// Returns the number of restarts of the group.
    pub(super) fn generation(&self, app: &PoolOptions) -> u64 {
        let groups = self.pool.snapshot().groups;
        let group = groups.into_iter().find(|group| group.name == app.app_group_name());
        group.expect("the group exists").generation
    }
    /// Closes the pool and waits until it is empty. Returns the numbers of all processes that were shut down, and
    /// asserts that each was shut down once.
    pub(super) fn end(self) -> Vec<u32> {
        self.pool.close();
        assert!(self.pool.wait_closed(DRAIN), "a closed pool becomes empty");
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

/// A `restart.txt`, the same one in every directory.
#[derive(Clone)]
pub(super) struct RestartFile {
    touched: Arc<AtomicU64>,
    pub(super) reentry: Reentry,
}

impl RestartFile {
    pub(super) fn new() -> Self {
        RestartFile { touched: Arc::new(AtomicU64::new(1)), reentry: Reentry::default() }
    }
    pub(super) fn touch(&self) {
        self.touched.fetch_add(1, Ordering::SeqCst);
    }
    fn look_up(&self) -> impl Fn(&Path) -> io::Result<SystemTime> + Send + Sync + 'static {
        let RestartFile { touched, reentry } = self.clone();
        move |file| match file.ends_with("restart.txt") {
            true => {
                reentry.enter();
                let seconds = Duration::from_secs(touched.load(Ordering::SeqCst));
                Ok(SystemTime::UNIX_EPOCH + seconds)
            }
            false => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

/// Counts events, and lets a model wait for them. A model cannot join the pool's own threads.
#[derive(Clone)]
pub(super) struct Counter(Arc<(Mutex<usize>, Condvar)>);

impl Counter {
    pub(super) fn new() -> Self {
        Counter(Arc::new((Mutex::new(0), Condvar::new())))
    }
    pub(super) fn up(&self) {
        *self.0.0.lock() += 1;
        self.0.1.notify_all();
    }
    pub(super) fn count(&self) -> usize {
        *self.0.0.lock()
    }
    /// Waits until the count is at least `n`.
    pub(super) fn wait(&self, n: usize) {
        let mut rung = self.0.0.lock();
        while *rung < n {
            self.0.1.wait(&mut rung);
        }
    }
}

/// Returns the options of an application. Its group grows beside a process with room, so that more actors meet.
pub(super) fn app(name: &str) -> PoolOptions {
    PoolOptions::new(format!("/{name}")).with_eager_growth(true)
}

pub(super) fn unlimited() -> Spawn {
    Spawn::ready().concurrency(None)
}

/// Polls once, with a waker that does nothing.
pub(super) fn poll_once<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Runs a future to its end on this thread.
pub(super) fn block_on<F: Future>(future: F) -> F::Output {
    Reentry::default().block_on(future)
}

/// Parks a thread that runs a future.
struct Parker(Mutex<bool>, Condvar);

/// A waker that re-enters the pool when it wakes, and when its last clone is dropped.
struct Enters {
    reentry: Reentry,
    parker: Option<Arc<Parker>>,
}

impl Wake for Enters {
    fn wake(self: Arc<Self>) {
        self.reentry.enter();
        if let Some(parker) = &self.parker {
            *parker.0.lock() = true;
            parker.1.notify_one();
        }
    }
}

impl Drop for Enters {
    fn drop(&mut self) {
        self.reentry.enter();
    }
}

impl Reentry {
    /// Polls once, with a waker that re-enters and wakes no thread.
    pub(super) fn poll_once<F: Future>(&self, future: Pin<&mut F>) -> Poll<F::Output> {
        let waker = Waker::from(Arc::new(Enters { reentry: self.clone(), parker: None }));
        future.poll(&mut Context::from_waker(&waker))
    }
    /// Runs a future to its end on this thread, with wakers that re-enter.
    ///
    /// Each poll has a waker of its own, so that the pool drops the last clone.
    pub(super) fn block_on<F: Future>(&self, future: F) -> F::Output {
        let parker = Arc::new(Parker(Mutex::new(false), Condvar::new()));
        let mut future = pin!(future);
        loop {
            let waker = Waker::from(Arc::new(Enters {
                reentry: self.clone(),
                parker: Some(parker.clone()),
            }));
            if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                return output;
            }
            drop(waker);
            let mut woken = parker.0.lock();
            while !*woken {
                parker.1.wait(&mut woken);
            }
            *woken = false;
        }
    }
}
