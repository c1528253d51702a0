//! The task of a run: a future that calls the target, pauses, and calls it again.
//!
//! A pausing task has one timer, or none if it sleeps until it is woken.

use super::core::{After, Pause};
use super::outcome::{Ended, Joined, Verdict};
use super::run::{PendingRun, Run};
use super::task_waker::ShownWaker;
use crate::kernel::at_work::AtWork;
use crate::kernel::clock::Deadline;
use crate::kernel::runtime::{BoxFuture, Rang, Runtime, SafeRuntime, Sleep};
use crate::kernel::user_code::{UserValue, contain};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

pub(super) type Call = BoxFuture<Verdict>;

/// The target of an executor with tasks.
pub struct TaskTarget(pub(super) Box<dyn FnMut() -> Call + Send>);

/// The task of a run. Its fields drop in order: first the call, and last the run, which ends by that.
pub(super) struct Task<R: Runtime> {
    stage: Stage,
    /// The only timer.
    sleep: Option<Sleep<R>>,
    runtime: SafeRuntime<R>,
    shown: ShownWaker,
    pending: PendingRun<TaskTarget>,
    /// `None` before it begins, and once it has ended.
    run: Option<Run<TaskTarget>>,
}

enum Stage {
    /// About to call the target.
    Begin,
    Calling(UserValue<Call>),
    Pausing(Pause),
}

impl<R: Runtime> Drop for Task<R> {
    /// The runtime may drop a call under way. The drop of that call is target code, so this thread is marked as at work.
    fn drop(&mut self) {
        if let Some(run) = &self.run {
            let _at_work = AtWork::begin(&*run.core);
            self.stage = Stage::Begin;
        }
    }
}

impl<R: Runtime> Task<R> {
    pub(super) fn new(pending: PendingRun<TaskTarget>, runtime: SafeRuntime<R>) -> Self {
        let (stage, sleep, shown) = (Stage::Begin, None, ShownWaker::default());
        Task { stage, sleep, runtime, shown, pending, run: None }
    }

    /// Advances until the task must wait or the run would end.
    fn poll_until_it_ends(&mut self, cx: &mut Context<'_>) -> Poll<Ended> {
        let Task { stage, sleep, runtime, shown, pending: _, run } = self;
        let run = run.as_mut().expect("the run has begun and has not ended");
        let core = run.core.clone();
        // One call in each poll: a target without a pause, whose futures are ready at once, would otherwise starve
        // the runtime's other tasks.
        let mut has_called = false;
        loop {
            let verdict = match stage {
                Stage::Begin => {
                    // A forked child may poll the task, too, where the thread that forks does.
                    core.is_in_this_process();
                    if !core.signal.begin_call() {
                        return Poll::Ready(Ended::Joined(Joined::Closed));
                    }
                    let _at_work = AtWork::begin(&*core);
                    match contain(|| (run.target().0)()) {
                        Ok(call) => {
                            *stage = Stage::Calling(UserValue::new(call));
                            continue;
                        }
                        Err(message) => Err(message),
                    }
                }
                Stage::Calling(call) => {
                    let _at_work = AtWork::begin(&*core);
                    let verdict = match contain(|| call.as_mut().poll(cx)) {
                        Ok(Poll::Pending) => return Poll::Pending,
                        Ok(Poll::Ready(verdict)) => Ok(verdict),
                        Err(message) => Err(message),
                    };
                    // Drops the call while this thread is marked as at work.
                    *stage = Stage::Begin;
                    has_called = true;
                    verdict
                }
                Stage::Pausing(pause) => {
                    match shown.wrap(cx.waker()).map(|own| core.sleep(pause, &own)) {
                        Err(message) => Err(message),
                        Ok(None) => {
                            *sleep = None;
                            *stage = Stage::Begin;
                            if has_called {
                                return yields(cx);
                            }
                            continue;
                        }
                        Ok(Some(Deadline::Never | Deadline::Manual(_))) => return Poll::Pending,
                        Ok(Some(Deadline::Real(at))) => {
                            match runtime.poll_sleep(sleep, at, cx) {
                                Poll::Pending => return Poll::Pending,
                                Poll::Ready(Ok(rang)) => {
                                    *sleep = None;
                                    // A timer may be a little early: check the clock again. Under a paused time it is
                                    // far too early, again and again: there the runtime's time counts.
                                    if rang == Rang::FarTooEarly {
                                        *stage = Stage::Begin;
                                        if has_called {
                                            return yields(cx);
                                        }
                                    }
                                    continue;
                                }
                                Poll::Ready(Err(message)) => Err(message),
                            }
                        }
                    }
                }
            };
            *stage = match core.after(verdict) {
                After::Pause(pause) => Stage::Pausing(pause),
                After::End(ended) => {
                    *sleep = None;
                    *stage = Stage::Begin;
                    return Poll::Ready(ended);
                }
            };
        }
    }
}

/// Yields to the runtime's other tasks.
fn yields<T>(cx: &Context<'_>) -> Poll<T> {
    // A panic of the runtime's waker must not end the target's run.
    let _ = contain(|| cx.waker().wake_by_ref());
    Poll::Pending
}

impl<R: Runtime> Future for Task<R> {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.run.is_none() {
            self.run = self.pending.begin();
        }
        if self.run.is_none() {
            // The runtime's spawn failed, and the opener has taken the run back.
            return Poll::Ready(());
        }
        let Poll::Ready(ended) = self.poll_until_it_ends(cx) else { return Poll::Pending };
        if self.run.as_mut().is_some_and(|run| run.end(ended)) {
            // The executor was opened again meanwhile, perhaps by the target itself.
            return yields(cx);
        }
        self.run = None;
        Poll::Ready(())
    }
}
