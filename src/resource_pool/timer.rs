//! A timer that is polled anywhere, while a task of the pool's runtime polls the runtime's own timer.
//!
//! A runtime's timer may end with its runtime: tokio's then panics when it is polled. But a borrower may run on another
//! runtime, which goes on. So only a task of the pool's runtime polls that timer. A runtime that ends drops the task, and
//! [`Timer`] says so.

use super::drives::Drives;
use crate::kernel::sync::Mutex;
use crate::kernel::user_code::{UserValue, contain, drop_contained};
use crate::periodic_executor::BoxFuture;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Running,
    Rang,
    /// The runtime dropped the task, or its own timer panicked.
    Lost,
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
pub(super) enum TimerEnd {
    InTime,
    WithoutRuntime,
}

/// Ends at its time. Its drop ends its task.
pub(super) struct Timer(Arc<Mutex<Rendezvous>>);

impl Timer {
    pub(super) fn new(runtime: &Drives, at: Instant) -> Self {
        let shared = Rendezvous { phase: Phase::Running, owner: None, task: None };
        let shared = Arc::new(Mutex::new(shared));
        let ringing = Ringing { shared: shared.clone(), has_ended: runtime.has_ended.clone() };
        let sleep = runtime.sleep.clone();
        // The task is dropped if it cannot be spawned.
        let _ = contain(|| {
            (runtime.spawn)(Box::pin(async move { ringing.run(&*sleep, at).await }));
        });
        Timer(shared)
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<TimerEnd> {
        let waker = cx.waker().clone();
        let mut shared = self.0.lock();
        let ended = match shared.phase {
            Phase::Running | Phase::Left => Poll::Pending,
            Phase::Rang => Poll::Ready(TimerEnd::InTime),
            Phase::Lost => Poll::Ready(TimerEnd::WithoutRuntime),
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
}

impl Ringing {
    async fn run(self, sleep: &(dyn Fn(Instant) -> BoxFuture<()> + Send + Sync), at: Instant) {
        let Ok(sleep) = contain(|| sleep(at)) else { return };
        let mut sleep = UserValue::new(sleep);
        let rang = poll_fn(|cx| {
            if self.is_left(cx) {
                return Poll::Ready(false);
            }
            let rang = contain(|| sleep.as_mut().poll(cx));
            rang.map_or(Poll::Ready(false), |rang| rang.map(|()| true))
        });
        if rang.await {
            end(&self.shared, Phase::Rang);
        }
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
