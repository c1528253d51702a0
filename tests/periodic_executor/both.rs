//! Both flavours under one name, on a manual clock.

use crate::common::task::block_on;
use crate::common::{before_long, soon};
use cabrank::periodic_executor::{BoxFuture, Flow, JoinError, Joined, Phase, Runtime};
use cabrank::{AsyncPeriodicExecutor, ManualClock, PeriodicExecutor};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// Runs each task on a thread of its own. No test waits for its timer.
#[derive(Clone)]
pub(crate) struct Threads;

impl Runtime for Threads {
    type Sleep = std::future::Pending<()>;
    fn spawn(&self, task: BoxFuture<()>) {
        std::thread::spawn(move || block_on(task));
    }
    fn sleep_until(&self, _: Instant) -> Self::Sleep {
        std::future::pending()
    }
}

/// The calls that both flavours have.
pub(crate) trait Executor: Clone + Send + Sync + 'static {
    fn build(interval: Duration, min: Duration, clock: &ManualClock, target: Target) -> Self;
    fn open(&self);
    fn close(&self);
    fn wake(&self);
    fn join(&self) -> Result<Joined, JoinError>;
    fn update_interval(&self, interval: Option<Duration>);
    fn skip_sleep(&self);
    fn phase(&self) -> Phase;
}

pub(crate) type Target = Box<dyn FnMut(usize) -> Flow + Send>;

impl Executor for PeriodicExecutor {
    fn build(interval: Duration, min: Duration, clock: &ManualClock, mut target: Target) -> Self {
        let builder = PeriodicExecutor::builder(interval).min_interval(min).clock(clock.clock());
        let mut calls = 0;
        builder.unregistered().build(move || {
            calls += 1;
            target(calls)
        })
    }
    fn open(&self) {
        PeriodicExecutor::open(self).expect("a thread");
    }
    fn close(&self) {
        PeriodicExecutor::close(self);
    }
    fn wake(&self) {
        PeriodicExecutor::wake(self);
    }
    fn join(&self) -> Result<Joined, JoinError> {
        let theirs = self.clone();
        soon(move || PeriodicExecutor::join(&theirs))
    }
    fn update_interval(&self, interval: Option<Duration>) {
        PeriodicExecutor::update_interval(self, interval);
    }
    fn skip_sleep(&self) {
        PeriodicExecutor::skip_sleep(self);
    }
    fn phase(&self) -> Phase {
        PeriodicExecutor::phase(self)
    }
}

impl Executor for AsyncPeriodicExecutor<Threads> {
    fn build(interval: Duration, min: Duration, clock: &ManualClock, mut target: Target) -> Self {
        let builder = AsyncPeriodicExecutor::builder(interval, Threads);
        let mut calls = 0;
        builder.min_interval(min).clock(clock.clock()).unregistered().build(move || {
            calls += 1;
            let flow = target(calls);
            async move { flow }
        })
    }
    fn open(&self) {
        AsyncPeriodicExecutor::open(self).expect("a task");
    }
    fn close(&self) {
        AsyncPeriodicExecutor::close(self);
    }
    fn wake(&self) {
        AsyncPeriodicExecutor::wake(self);
    }
    fn join(&self) -> Result<Joined, JoinError> {
        let theirs = self.clone();
        soon(move || block_on(AsyncPeriodicExecutor::join(&theirs)))
    }
    fn update_interval(&self, interval: Option<Duration>) {
        AsyncPeriodicExecutor::update_interval(self, interval);
    }
    fn skip_sleep(&self) {
        AsyncPeriodicExecutor::skip_sleep(self);
    }
    fn phase(&self) -> Phase {
        AsyncPeriodicExecutor::phase(self)
    }
}

/// An executor, and the seconds on its clock at which its target was called.
pub(crate) struct Rig<E> {
    pub(crate) executor: E,
    pub(crate) clock: ManualClock,
    pub(crate) seconds: Arc<AtomicUsize>,
    pub(crate) calls: Arc<Mutex<Vec<usize>>>,
}

impl<E: Executor> Rig<E> {
    pub(crate) fn new(
        interval: Duration,
        min: Duration,
        mut target: impl FnMut(usize) -> Flow + Send + 'static,
    ) -> Self {
        let clock = ManualClock::new();
        let (seconds, calls) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
        let executor = {
            let (seconds, calls) = (seconds.clone(), calls.clone());
            let target = move |call| {
                calls.lock().expect("no panic").push(seconds.load(SeqCst));
                target(call)
            };
            E::build(interval, min, &clock, Box::new(target))
        };
        Rig { executor, clock, seconds, calls }
    }
    /// Waits until the executor sleeps or has stopped, so that the test may move the clock. The
    /// executor may look at the clock once more and call again: [`has_called`](Self::has_called)
    /// waits for that.
    pub(crate) fn settle(&self) {
        before_long(|| self.executor.phase() != Phase::Busy);
    }
    pub(crate) fn advance(&self, seconds: usize) {
        self.settle();
        self.seconds.fetch_add(seconds, SeqCst);
        self.clock.advance(SECOND * u32::try_from(seconds).expect("few"));
        self.settle();
    }
    pub(crate) fn calls(&self) -> Vec<usize> {
        self.calls.lock().expect("no panic").clone()
    }
    /// Checks that the target was called at these seconds, and at no others.
    #[track_caller]
    pub(crate) fn has_called(&self, at: &[usize]) {
        before_long(|| self.calls().len() >= at.len());
        self.settle();
        assert_eq!(self.calls(), at);
    }
    /// Wakes the executor, and waits until it has called or postponed the call.
    pub(crate) fn wake(&self) {
        self.settle();
        self.executor.wake();
        self.settle();
    }
}

/// A channel on which a target waits until the test releases it.
pub(crate) fn gate() -> (Sender<()>, Receiver<()>) {
    channel()
}

/// Makes tests of generic functions: each runs for a thread and for a task.
macro_rules! both {
    ($($name:ident,)*) => {$(
        mod $name {
            #[test]
            fn of_a_thread() {
                super::$name::<cabrank::PeriodicExecutor>();
            }
            #[test]
            fn of_a_task() {
                super::$name::<cabrank::AsyncPeriodicExecutor<crate::both::Threads>>();
            }
        }
    )*};
}
pub(crate) use both;
