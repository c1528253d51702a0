//! A runtime without its type, and its timers.
//!
//! A runtime's own timer may end with its runtime: tokio's then panics when it is polled. But the owner of a timer may run
//! on another runtime, which goes on. So only a task of the timer's runtime polls that timer. A runtime that ends drops the
//! task, and [`Timer`] says so.

use crate::kernel::runtime::{BoxFuture, Runtime, SafeRuntime};
use crate::kernel::sync::Mutex;
use crate::kernel::user_code::{contain, drop_contained};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

/// A runtime without its type.
pub(crate) struct AnyRuntime {
    spawn: Box<dyn Fn(BoxFuture<()>) + Send + Sync>,
    ring: Box<dyn Fn(Ringing, Instant) + Send + Sync>,
    has_ended: Arc<AtomicBool>,
    timers_panic: Arc<AtomicBool>,
    reported: AtomicBool,
    /// A task was spawned to see whether it takes tasks again.
    asked: AtomicBool,
}

impl AnyRuntime {
    pub(crate) fn new<R: Runtime>(runtime: SafeRuntime<R>) -> Self {
        // The task is dropped if it cannot be spawned, and the drop says so to its owner.
        let (spawns, rings) = (runtime.clone(), runtime);
        AnyRuntime {
            spawn: Box::new(move |task| drop(spawns.spawn(task))),
            ring: Box::new(move |ringing, at| {
                drop(rings.spawn(Box::pin(ringing.run(rings.clone(), at))));
            }),
            has_ended: Arc::default(),
            timers_panic: Arc::default(),
            reported: AtomicBool::new(false),
            asked: AtomicBool::new(false),
        }
    }
    /// Spawns the task, or drops it.
    pub(crate) fn spawn(&self, task: BoxFuture<()>) {
        (self.spawn)(task);
    }
    /// Returns whether it dropped a task. From then on its owner does without it.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.load(SeqCst)
    }
    /// Returns whether a timer of it panicked. From then on its owner does without timers.
    pub(crate) fn timers_panic(&self) -> bool {
        self.timers_panic.load(SeqCst)
    }
    /// The runtime dropped a task of its owner's.
    pub(crate) fn end(&self) {
        self.has_ended.store(true, SeqCst);
    }
    /// Returns whether it has ended, and no other task asks whether it takes tasks again.
    pub(crate) fn begins_question(&self) -> bool {
        self.has_ended() && !self.asked.swap(true, SeqCst)
    }
    /// The task that asked has run, or was dropped.
    pub(crate) fn end_question(&self) {
        self.asked.store(false, SeqCst);
    }
    /// It takes tasks again.
    pub(crate) fn is_back(&self) {
        self.has_ended.store(false, SeqCst);
        self.reported.store(false, SeqCst);
    }
    /// Returns whether the caller is the first to report the end.
    pub(crate) fn reports(&self) -> bool {
        !self.reported.swap(true, SeqCst)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Running,
    Rang,
    /// The runtime dropped the task.
    Lost,
    /// The runtime's own timer panicked.
    Panicked,
    /// The timer was dropped: the task ends.
    Left,
}

struct Rendezvous {
    phase: Phase,
    owner: Option<Waker>,
    task: Option<Waker>,
}

/// How a timer ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum TimerEnd {
    InTime,
    WithoutRuntime,
    Panicked,
}

/// Ends at its time. Its drop ends its task.
pub(crate) struct Timer(Arc<Mutex<Rendezvous>>);

impl Timer {
    pub(crate) fn new(runtime: &AnyRuntime, at: Instant) -> Self {
        let shared = Rendezvous { phase: Phase::Running, owner: None, task: None };
        let shared = Arc::new(Mutex::new(shared));
        let (has_ended, panics) = (runtime.has_ended.clone(), runtime.timers_panic.clone());
        let ringing = Ringing { shared: shared.clone(), has_ended, panics };
        (runtime.ring)(ringing, at);
        Timer(shared)
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<TimerEnd> {
        let waker = cx.waker().clone();
        let mut shared = self.0.lock();
        let ended = match shared.phase {
            Phase::Running | Phase::Left => Poll::Pending,
            Phase::Rang => Poll::Ready(TimerEnd::InTime),
            Phase::Lost => Poll::Ready(TimerEnd::WithoutRuntime),
            Phase::Panicked => Poll::Ready(TimerEnd::Panicked),
        };
        let former = shared.owner.replace(waker);
        drop(shared);
        drop_contained(former);
        ended
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        end(&self.0, Phase::Left);
    }
}

/// Ends the timer, and returns whether it was running. The other side is woken without the lock.
fn end(shared: &Mutex<Rendezvous>, phase: Phase) -> bool {
    let mut shared = shared.lock();
    let ends = shared.phase == Phase::Running;
    if ends {
        shared.phase = phase;
    }
    let (owner, task) = (shared.owner.take(), shared.task.take());
    drop(shared);
    let (woken, dropped) = if phase == Phase::Left { (task, owner) } else { (owner, task) };
    match woken {
        Some(waker) if ends => drop(contain(|| waker.wake())),
        other => drop_contained(other),
    }
    drop_contained(dropped);
    ends
}

/// The task of a timer.
struct Ringing {
    shared: Arc<Mutex<Rendezvous>>,
    has_ended: Arc<AtomicBool>,
    panics: Arc<AtomicBool>,
}

impl Ringing {
    async fn run<R: Runtime>(self, runtime: SafeRuntime<R>, at: Instant) {
        let mut sleep = pin!(runtime.sleep_until(at));
        let rang = poll_fn(|cx| match self.is_left(cx) {
            true => Poll::Ready(Phase::Left),
            false => sleep.as_mut().poll(cx).map(|rang| match rang {
                Ok(_) => Phase::Rang,
                Err(_) => Phase::Panicked,
            }),
        });
        let phase = rang.await;
        if phase == Phase::Panicked {
            self.panics.store(true, SeqCst);
        }
        end(&self.shared, phase);
    }

    fn is_left(&self, cx: &mut Context<'_>) -> bool {
        let waker = cx.waker().clone();
        let mut shared = self.shared.lock();
        let is_left = shared.phase == Phase::Left;
        let former = shared.task.replace(waker);
        drop(shared);
        drop_contained(former);
        is_left
    }
}

impl Drop for Ringing {
    fn drop(&mut self) {
        if end(&self.shared, Phase::Lost) {
            self.has_ended.store(true, SeqCst);
        }
    }
}
