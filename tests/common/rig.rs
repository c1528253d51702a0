//! An application pool on a manual clock with restart files in memory, and gets in the background.

use super::files::Files;
use super::task::Task;
use super::waiting::SOON;
use super::{Gate, end_the_run_when_the_library_panics};
use cabrank::application_pool::{Builder, Counts, DetachReason, Event, GetError, GroupSnapshot};
use cabrank::in_memory::{Call, InMemorySpawner};
use cabrank::{ApplicationPool, ManualClock, PoolOptions};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub(crate) type Pool = ApplicationPool<InMemorySpawner>;
pub(crate) type Session = cabrank::Session<InMemorySpawner>;
pub(crate) type Got = Result<Session, GetError>;

/// A pool with its spawner, clock, restart files and events.
pub(crate) struct Rig {
    pub(crate) pool: Pool,
    pub(crate) spawner: InMemorySpawner,
    pub(crate) clock: ManualClock,
    pub(crate) files: Files,
    events: Receiver<Event>,
    /// Events that were skipped while waiting for another one.
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
        let (sender, events) = channel();
        let builder =
            ApplicationPool::builder(spawner.clone()).clock(clock.clock()).observer(move |event| {
                // The test may have ended.
                let _ = sender.send(event.clone());
            });
        let pool = configure(builder).build().expect("a valid pool");
        Rig { pool, spawner, clock, files, events, unread: RefCell::default() }
    }

    /// A rig whose pool looks at restart files in memory.
    pub(crate) fn watching(
        configure: impl FnOnce(Builder<InMemorySpawner>) -> Builder<InMemorySpawner>,
    ) -> Rig {
        let files = Files::default();
        let mut rig = Rig::new(|b| configure(b.restart_files(files.look_up())));
        rig.files = files;
        rig
    }

    /// A rig without the cleaner's thread: the test calls `pool.clean()` itself.
    pub(crate) fn without_cleaner(
        configure: impl FnOnce(Builder<InMemorySpawner>) -> Builder<InMemorySpawner>,
    ) -> Rig {
        Rig::new(|b| configure(b).cleaner(false))
    }

    /// A get that is served at once, or as soon as a process is spawned for it.
    #[track_caller]
    pub(crate) fn get(&self, options: &PoolOptions) -> Session {
        self.start_get(options).session()
    }
    /// Starts a get on a thread of its own.
    pub(crate) fn start_get(&self, options: &PoolOptions) -> Getting {
        let (pool, options) = (self.pool.clone(), options.clone());
        Getting::start(move || pool.get(&options))
    }
    /// Starts a get on a thread of its own, and returns once it is in the queue.
    #[track_caller]
    pub(crate) fn queue_get(&self, options: &PoolOptions) -> Getting {
        let before = self.pool.counts().waiting;
        let getting = self.start_get(options);
        self.eventually(|c| c.waiting == before + 1);
        getting
    }
    /// Returns a get as a task that has not been polled.
    pub(crate) fn task(&self, options: &PoolOptions) -> Task<Got> {
        let (pool, options) = (self.pool.clone(), options.clone());
        Task::new(async move { pool.get_async(&options).await })
    }
    /// Makes `n` processes idle, the lowest number first, and returns their numbers.
    #[track_caller]
    pub(crate) fn idle(&self, options: &PoolOptions, n: usize) -> Vec<u32> {
        let sessions: Vec<Session> = (0..n).map(|_| self.get(options)).collect();
        let pids = sessions.iter().map(|session| session.pid()).collect();
        drop(sessions);
        pids
    }

    /// Holds every such call of the pool until the gate is opened.
    pub(crate) fn gate_at(&self, held: Call) -> Gate {
        let gate = Gate::default();
        let theirs = gate.clone();
        self.spawner.on_call(move |call| {
            if call == held {
                theirs.pass();
            }
        });
        gate
    }
    /// Closes the pool on a thread of its own.
    pub(crate) fn start_close(&self) -> JoinHandle<()> {
        let pool = self.pool.clone();
        std::thread::spawn(move || pool.close())
    }

    /// Returns (active, count), as Passenger's tests write it.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let counts = self.pool.counts();
        (counts.active, counts.count)
    }
    /// Returns the snapshot of one group.
    #[track_caller]
    pub(crate) fn group(&self, options: &PoolOptions) -> GroupSnapshot {
        let name = options.app_group_name();
        let mut groups = self.pool.snapshot().groups.into_iter();
        groups.find(|g| g.name == name).unwrap_or_else(|| panic!("there is a group {name}"))
    }
    /// Returns the numbers of a group's processes, oldest first.
    #[track_caller]
    pub(crate) fn pids(&self, options: &PoolOptions) -> Vec<u32> {
        let attached = |p: &&cabrank::application_pool::ProcessSnapshot| {
            p.state != cabrank::application_pool::ProcessState::Draining
        };
        self.group(options).processes.iter().filter(attached).filter_map(|p| p.pid).collect()
    }
    /// Returns the numbers of the processes that were shut down, in order.
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
    /// Waits until `wanted` holds, looking again at every event.
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
    /// Waits until `n` spawns have begun in all. A spawn takes its script when it begins.
    #[track_caller]
    pub(crate) fn await_spawns(&self, n: usize) {
        self.until(|| self.spawner.begun() >= n);
    }
    /// Returns the next event for which `wanted` returns a value.
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
    /// Returns the next process that is detached, and the reason.
    #[track_caller]
    pub(crate) fn next_detached(&self) -> (u32, DetachReason) {
        self.event(|event| match event {
            Event::Detached { pid: Some(pid), reason, .. } => Some((*pid, *reason)),
            _ => None,
        })
    }
    /// Returns the back-off after the next failed spawn.
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
        let (sender, answer) = channel();
        let thread = std::thread::spawn(move || {
            let got = get();
            // `get` has dropped its handle by now.
            let _ = sender.send(got);
        });
        Getting { answer, thread }
    }
    /// Waits for the get's result.
    #[track_caller]
    pub(crate) fn end(self) -> Got {
        let got = self.answer.recv_timeout(SOON).expect("the get ends");
        self.thread.join().expect("no panic in the thread");
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
    /// Returns whether the get has no result yet.
    pub(crate) fn is_pending(&self) -> bool {
        matches!(self.answer.try_recv(), Err(TryRecvError::Empty))
    }
}
