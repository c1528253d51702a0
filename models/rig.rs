//! What the models share: a pool, foreign calls that re-enter it where that can be afforded, and a set-up
//! that is not explored.

use crate::application_pool::Builder;
use crate::in_memory::InMemorySpawner;
use crate::sync::{Condvar, Mutex, thread};
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
pub(super) use crate::section::Guarded;
pub(super) use crate::sync::explore::{explore, explore_small};
pub(super) use crate::sync::thread::spawn;

pub(super) type Pool = ApplicationPool<InMemorySpawner>;
pub(super) const DRAIN: Duration = Duration::from_secs(60);
pub(super) const IDLE: Duration = Duration::from_secs(300);

pub(super) struct Rig {
    pub(super) pool: Pool,
    pub(super) spawner: InMemorySpawner,
    pub(super) clock: ManualClock,
    /// For the spawner's calls, for drops of what it made, and for wakers.
    pub(super) door: Door,
    /// For the observer.
    observers: Door,
    /// For looks at the restart files.
    looks: Door,
}

/// Where foreign code re-enters the pool that calls it. It is given a door before there is a pool; until
/// that is opened, it leads nowhere, and is no step.
#[derive(Clone, Default)]
pub(super) struct Door(Arc<OnceLock<Box<dyn Fn() + Send + Sync>>>);

impl Door {
    /// What is done by who enters: a call of the pool that takes its lock.
    pub(super) fn open(&self, enter: impl Fn() + Send + Sync + 'static) {
        // Under shuttle a rig is open from the beginning, and a model may say so once more.
        let _ = self.0.set(Box::new(enter));
    }
    /// Foreign code may call the pool: it would not come back if the lock were held.
    pub(super) fn enter(&self) {
        // A model that fails is to end, and not to hang. Every schedule of a model that re-enters would be
        // too many for shuttle, which reduces nothing; loom goes through every interleaving of it.
        let shut = crate::sync::has_failed() || crate::sync::explore::goes_through_all();
        if let Some(enter) = self.0.get().filter(|_| !shut) {
            enter();
        }
    }
}

impl Rig {
    pub(super) fn new(
        configure: impl FnOnce(Builder<InMemorySpawner>) -> Builder<InMemorySpawner>,
    ) -> Self {
        Rig::with_looks(Door::default(), configure)
    }
    /// With a `restart.txt`, each look at which may re-enter the pool.
    pub(super) fn with_file(
        file: &RestartFile,
        configure: impl FnOnce(Builder<InMemorySpawner>) -> Builder<InMemorySpawner>,
    ) -> Self {
        Rig::with_looks(file.door.clone(), |b| configure(b.restart_files(file.look_up())))
    }
    /// With a look-up of the model's own, which has the same door.
    pub(super) fn with_looks(
        looks: Door,
        configure: impl FnOnce(Builder<InMemorySpawner>) -> Builder<InMemorySpawner>,
    ) -> Self {
        let clock = ManualClock::new();
        let spawner = InMemorySpawner::with_clock(clock.clock());
        let (door, observers) = (Door::default(), Door::default());
        let observed = observers.clone();
        let builder = ApplicationPool::builder(spawner.clone())
            .observer(move |_| observed.enter())
            .clock(clock.clock())
            .cleaner(false)
            .max_idle_time(IDLE)
            .drain_timeout(DRAIN);
        let pool = configure(builder).build().expect("a valid pool");
        let rig = Rig { pool, spawner, clock, door, observers, looks };
        rig.on_call(|_| ());
        // What is too much for loom is nothing to random schedules: there the calls of all re-enter.
        if cfg!(feature = "loom") { rig } else { rig.reentrant() }
    }

    /// Lets every call of the spawner's and its processes', every drop of what it made, and the wakers of
    /// futures that `door` polls re-enter the pool. Each is more steps to be interleaved: models for which
    /// that is too much for loom do without there, and say so.
    pub(super) fn reentrant(self) -> Self {
        self.open(&self.door);
        self
    }
    /// Lets the observer re-enter the pool. Most things are told of, so few models can afford it: with
    /// it, random schedules are three times as long, and miss the rare outcomes.
    pub(super) fn with_reentrant_observer(self) -> Self {
        self.open(&self.observers);
        self
    }
    /// Lets looks at the restart files re-enter the pool.
    pub(super) fn with_reentrant_looks(self) -> Self {
        self.open(&self.looks);
        self
    }
    fn open(&self, door: &Door) {
        let weak = self.pool.downgrade();
        door.open(move || {
            if let Some(pool) = weak.upgrade() {
                pool.counts();
            }
        });
    }
    /// What is done in each call of the spawner's, once that has entered.
    pub(super) fn on_call(&self, hook: impl Fn(Call) + Send + Sync + 'static) {
        let door = self.door.clone();
        self.spawner.on_call(move |call| {
            door.enter();
            hook(call);
        });
    }

    /// Rings for every call of this kind.
    pub(super) fn bell(&self, wanted: Call) -> Bell {
        let bell = Bell::new();
        let theirs = bell.clone();
        self.on_call(move |call| {
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
pub(super) struct RestartFile {
    touched: Arc<AtomicU64>,
    pub(super) door: Door,
}

impl RestartFile {
    pub(super) fn new() -> Self {
        RestartFile { touched: Arc::new(AtomicU64::new(1)), door: Door::default() }
    }
    pub(super) fn touch(&self) {
        self.touched.fetch_add(1, Ordering::SeqCst);
    }
    fn look_up(&self) -> impl Fn(&Path) -> io::Result<SystemTime> + Send + Sync + 'static {
        let RestartFile { touched, door } = self.clone();
        move |file| match file.ends_with("restart.txt") {
            true => {
                door.enter();
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
pub(super) fn poll_once<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Runs a future on this thread.
pub(super) fn block_on<F: Future>(future: F) -> F::Output {
    Door::default().block_on(future)
}

/// Whom a waker wakes.
struct Parker(Mutex<bool>, Condvar);

/// A waker that re-enters the pool where it wakes, and where the last of it is dropped.
struct Enters {
    door: Door,
    parker: Option<Arc<Parker>>,
}

impl Wake for Enters {
    fn wake(self: Arc<Self>) {
        self.door.enter();
        if let Some(parker) = &self.parker {
            *parker.0.lock() = true;
            parker.1.notify_one();
        }
    }
}

impl Drop for Enters {
    fn drop(&mut self) {
        self.door.enter();
    }
}

impl Door {
    /// Polls once, with a waker that wakes nobody, but enters.
    pub(super) fn poll_once<F: Future>(&self, future: Pin<&mut F>) -> Poll<F::Output> {
        let waker = Waker::from(Arc::new(Enters { door: self.clone(), parker: None }));
        future.poll(&mut Context::from_waker(&waker))
    }
    /// Runs a future on this thread, whose wakers enter. Each poll has its own, so that the pool has
    /// the last of it.
    pub(super) fn block_on<F: Future>(&self, future: F) -> F::Output {
        let parker = Arc::new(Parker(Mutex::new(false), Condvar::new()));
        let mut future = pin!(future);
        loop {
            let waker =
                Waker::from(Arc::new(Enters { door: self.clone(), parker: Some(parker.clone()) }));
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
