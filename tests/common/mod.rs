//! What the tests share: a pool on a hand-driven clock with restart files in memory, gets in the
//! background, and ways to wait for something to happen without sleeping.
#![allow(dead_code, reason = "each test binary uses its own part of this")]

pub(crate) mod files;
pub(crate) mod histories;
pub(crate) mod log;
pub(crate) mod task;

use cabrank::in_memory::InMemorySpawner;
use cabrank::{ApplicationPool, Builder, Counts, DetachReason, Event, GetError, ManualClock};
use cabrank::{GroupSnapshot, PoolOptions};
use files::Files;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel};
use std::sync::{Arc, Condvar, Mutex, Once, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use task::Task;

/// How long anything may take that is to happen at once; only a failing test waits that long.
pub(crate) const SOON: Duration = Duration::from_secs(20);
pub(crate) const SECOND: Duration = Duration::from_secs(1);

pub(crate) type Pool = ApplicationPool<InMemorySpawner>;
pub(crate) type Session = cabrank::Session<InMemorySpawner>;
pub(crate) type Got = Result<Session, GetError>;

/// A pool, its spawner, its clock, its restart files, and what it tells.
pub(crate) struct Rig {
    pub(crate) pool: Pool,
    pub(crate) spawner: InMemorySpawner,
    pub(crate) clock: ManualClock,
    pub(crate) files: Files,
    events: Receiver<Event>,
    /// Events that were passed over while waiting for something else.
    unread: RefCell<VecDeque<Event>>,
}

impl Rig {
    pub(crate) fn new(
        configure: impl FnOnce(Builder<InMemorySpawner>) -> Builder<InMemorySpawner>,
    ) -> Rig {
        end_the_run_when_the_library_panics();
        let clock = ManualClock::new();
        let spawner = InMemorySpawner::with_clock(clock.clock());
        let files = Files::default();
        let (tell, events) = channel();
        let builder = ApplicationPool::builder(spawner.clone())
            .clock(clock.clock())
            .restart_files(files.look_up())
            .observer(move |event| {
                // The test may have ended.
                let _ = tell.send(event.clone());
            });
        let pool = configure(builder).build().expect("a valid pool");
        Rig { pool, spawner, clock, files, events, unread: RefCell::default() }
    }

    /// A rig without the cleaner's thread: what is due happens in `pool.clean()`, on this thread.
    pub(crate) fn without_cleaner(
        configure: impl FnOnce(Builder<InMemorySpawner>) -> Builder<InMemorySpawner>,
    ) -> Rig {
        Rig::new(|b| configure(b).cleaner(false))
    }

    /// A get that is to be served at once, or as soon as a process is spawned for it.
    #[track_caller]
    pub(crate) fn get(&self, options: &PoolOptions) -> Session {
        self.start_get(options).session()
    }
    /// A get on a thread of its own.
    pub(crate) fn start_get(&self, options: &PoolOptions) -> Getting {
        let (pool, options) = (self.pool.clone(), options.clone());
        Getting::start(move || pool.get(&options))
    }
    /// A get on a thread of its own, which has joined the queue when this returns.
    #[track_caller]
    pub(crate) fn queue_get(&self, options: &PoolOptions) -> Getting {
        let before = self.pool.counts().waiting;
        let getting = self.start_get(options);
        self.eventually(|c| c.waiting == before + 1);
        getting
    }
    /// A get as a task, not polled yet.
    pub(crate) fn task(&self, options: &PoolOptions) -> Task<Got> {
        let (pool, options) = (self.pool.clone(), options.clone());
        Task::new(async move { pool.get_async(&options).await })
    }
    /// `n` idle processes, the one with the lowest number idle for longest; their numbers.
    #[track_caller]
    pub(crate) fn idle(&self, options: &PoolOptions, n: usize) -> Vec<u32> {
        let sessions: Vec<Session> = (0..n).map(|_| self.get(options)).collect();
        let pids = sessions.iter().map(|session| session.pid()).collect();
        for session in sessions {
            session.close();
        }
        pids
    }

    /// (active, count), as the originals' tests write it.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let counts = self.pool.counts();
        (counts.active, counts.count)
    }
    /// The picture of one group.
    #[track_caller]
    pub(crate) fn group(&self, options: &PoolOptions) -> GroupSnapshot {
        let name = options.app_group_name();
        let mut groups = self.pool.snapshot().groups.into_iter();
        groups.find(|g| g.name == name).unwrap_or_else(|| panic!("there is a group {name}"))
    }
    /// The numbers of a group's processes, oldest first.
    #[track_caller]
    pub(crate) fn pids(&self, options: &PoolOptions) -> Vec<u32> {
        let attached = |p: &&cabrank::ProcessSnapshot| p.state != cabrank::ProcessState::Draining;
        self.group(options).processes.iter().filter(attached).filter_map(|p| p.pid).collect()
    }
    /// The numbers of the processes that were shut down, in order.
    pub(crate) fn gone(&self) -> Vec<u32> {
        self.spawner.shut_down().into_iter().map(|(pid, _)| pid).collect()
    }
    pub(crate) fn touch(&self, options: &PoolOptions) {
        self.files.touch(&options.restart_dir().join("restart.txt"));
    }

    /// Waits until the pool's counts are as `wanted`, looking again at every event.
    #[track_caller]
    pub(crate) fn eventually(&self, wanted: impl Fn(&Counts) -> bool) {
        self.until(|| wanted(&self.pool.counts()));
    }
    /// Waits until `wanted` is so, looking again at every event.
    #[track_caller]
    pub(crate) fn until(&self, wanted: impl Fn() -> bool) {
        let deadline = Instant::now() + SOON;
        while !wanted() {
            assert!(Instant::now() < deadline, "did not come about: {:#?}", self.pool.snapshot());
            match self.events.recv_timeout(Duration::from_millis(2)) {
                Ok(event) => self.unread.borrow_mut().push_back(event),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => unreachable!("the pool holds the sender"),
            }
        }
    }
    /// Waits until `n` spawns have begun in all: a spawn takes its script when it begins.
    #[track_caller]
    pub(crate) fn await_spawns(&self, n: usize) {
        self.until(|| self.spawner.begun() >= n);
    }
    /// The next event for which `wanted` gives something.
    #[track_caller]
    pub(crate) fn event<T>(&self, mut wanted: impl FnMut(&Event) -> Option<T>) -> T {
        let deadline = Instant::now() + SOON;
        loop {
            let unread = self.unread.borrow_mut().pop_front();
            let event = unread.unwrap_or_else(|| {
                let left = deadline.saturating_duration_since(Instant::now());
                self.events.recv_timeout(left).expect("the event comes")
            });
            if let Some(found) = wanted(&event) {
                return found;
            }
        }
    }
    /// The next process that is detached, and why.
    #[track_caller]
    pub(crate) fn next_detached(&self) -> (u32, DetachReason) {
        self.event(|event| match event {
            Event::Detached { pid: Some(pid), reason, .. } => Some((*pid, *reason)),
            _ => None,
        })
    }
    /// For how long the group backs off whose spawn fails next.
    #[track_caller]
    pub(crate) fn next_back_off(&self) -> Duration {
        self.event(|event| match event {
            Event::SpawnFailed { retry_in, .. } => Some(*retry_in),
            _ => None,
        })
    }
}

/// A get on a thread of its own.
pub(crate) struct Getting {
    answer: Receiver<Got>,
    thread: JoinHandle<()>,
}

impl Getting {
    pub(crate) fn start(get: impl FnOnce() -> Got + Send + 'static) -> Getting {
        let (tell, answer) = channel();
        let thread = std::thread::spawn(move || {
            let got = get();
            // The handle that `get` held is gone by now.
            let _ = tell.send(got);
        });
        Getting { answer, thread }
    }
    /// How the get ends.
    #[track_caller]
    pub(crate) fn end(self) -> Got {
        let got = self.answer.recv_timeout(SOON).expect("the get ends");
        self.thread.join().expect("nothing panics in it");
        got
    }
    #[track_caller]
    pub(crate) fn session(self) -> Session {
        self.end().expect("a session")
    }
    #[track_caller]
    pub(crate) fn error(self) -> GetError {
        self.end().expect_err("no session")
    }
    /// Whether no answer has come so far.
    pub(crate) fn is_pending(&self) -> bool {
        matches!(self.answer.try_recv(), Err(TryRecvError::Empty))
    }
}

/// What `work` gives, if it ends soon: what would hang fails instead.
#[track_caller]
pub(crate) fn soon<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (tell, result) = channel();
    std::thread::spawn(move || {
        let _ = tell.send(work());
    });
    result.recv_timeout(SOON).expect("it ends soon, and without a panic")
}

/// Waits until `wanted` is so, for what no event tells of.
#[track_caller]
pub(crate) fn before_long(wanted: impl Fn() -> bool) {
    let deadline = Instant::now() + SOON;
    while !wanted() {
        assert!(Instant::now() < deadline, "did not come about");
        std::thread::yield_now();
    }
}

pub(crate) fn app(name: &str) -> PoolOptions {
    PoolOptions::new(format!("/srv/{name}"))
}

/// A door that is shut: who arrives waits until it is opened, whatever he is told meanwhile.
#[derive(Clone, Default)]
pub(crate) struct Door(Arc<(Mutex<DoorState>, Condvar)>);

#[derive(Default)]
struct DoorState {
    arrived: usize,
    open: bool,
}

impl Door {
    pub(crate) fn pass(&self) {
        let (state, changed) = &*self.0;
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        state.arrived += 1;
        changed.notify_all();
        while !state.open {
            state = changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
    pub(crate) fn open(&self) {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner).open = true;
        self.0.1.notify_all();
    }
    /// Waits until `n` have arrived.
    #[track_caller]
    pub(crate) fn await_arrivals(&self, n: usize) {
        before_long(|| self.0.0.lock().unwrap_or_else(PoisonError::into_inner).arrived >= n);
    }
}

/// A broken invariant panics where it is found, which may be a background thread whose end nobody
/// notices, or may leave a get waiting for ever. It is to fail the run, at once.
pub(crate) fn end_the_run_when_the_library_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            usual(panic);
            let file = panic.location().map_or("", |location| location.file());
            let scripted = file.ends_with("in_memory.rs");
            if Path::new(file).starts_with("src") && !scripted {
                eprintln!("the library panicked: no further test means anything");
                std::process::abort();
            }
        }));
    });
}
