//! Who does what is due at a time (`due.rs`, `refilling.rs`, `testing.rs`), and when.
//!
//! It sleeps until the next of it is due, and without end while nothing is; whoever makes something
//! due earlier finds that under the lock and wakes it. In a pool with an `eviction_interval`, what
//! concerns idle ones is done in runs that far apart, each looking at `evictions_per_run` of them at
//! most.
//!
//! There are two executors, each of which is opened when something is due for it, or will be by the pool's
//! options: one has leave what is over and tells of it, the other tests and makes. So a creation or a test
//! that hangs holds up neither what is to be evicted nor what is abandoned; it does hold up the other tests
//! and creations of the maintenance, as the destruction of what is evicted holds up other evictions.
//!
//! If there is no thread to be had, or no task, the listener is told, and whatever is due next tries again, for
//! either of them. So does what becomes due by the listener itself; but if that is in vain, too, nothing is told, for
//! it would be told within itself. The same if a runtime's timer panics: what is due is then done with whatever comes
//! to be due next.
//! A pool that is closed needs none of it any more but for the loans that may come to look abandoned: when
//! there are none of these left it stops. Who had begun before the close may be lent something after that, and then
//! begins it again.

use super::event::PoolEvent;
use super::factory::Form;
use super::maintenance_task::MaintenanceTask;
use super::pool::Inner;
use super::slot::Meta;
use crate::clock::Time;
use crate::periodic_executor::{
    AsyncPeriodicExecutor, BoxFuture, Flow, OpenError, PeriodicExecutor, Runtime, Verdict,
};
use crate::section::{Guarded, now};
use crate::user_code::{UserValue, contain};
use std::cell::RefCell;
use std::future::{Future, pending, poll_fn};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Weak};
use std::task::Poll;
use std::time::{Duration, Instant};

/// The executor of a duty, of either flavour. It ends when this is dropped.
pub(super) struct Maintainer {
    open: Box<dyn Fn() -> Result<(), OpenError> + Send + Sync>,
    wake: Box<dyn Fn() + Send + Sync>,
}

/// One for each duty.
pub(super) type Maintenance = [Maintainer; MaintenanceTask::ALL.len()];

impl<F: Form> Inner<F> {
    /// One pass of everything.
    pub(super) async fn maintain(&self) {
        for task in MaintenanceTask::ALL {
            self.perform(task).await;
            if self.maintenance.get().is_none() {
                // Nobody else does it: this sleeps, until it is called again.
                let _ = self.after_pass(task);
            }
        }
    }

    async fn perform(&self, task: MaintenanceTask) {
        match task {
            MaintenanceTask::Evict => {
                let mut pass = None;
                // One in each section: others come in between, and what leaves is destroyed before the next.
                while self.critical(|state, fx| state.evict_next(&mut pass, fx)) {}
            }
            MaintenanceTask::Refill => {
                self.test_in_turns().await;
                self.refill().await;
            }
        }
    }

    fn maintainer(&self, task: MaintenanceTask) -> Option<&Maintainer> {
        self.maintenance.get().map(|all| &all[task as usize])
    }

    /// Something of the key is due.
    pub(super) fn wake_maintenance(&self, task: MaintenanceTask, meta: &Meta<F>) {
        let Some(maintainer) = self.maintainer(task) else { return };
        match (maintainer.open)() {
            Ok(()) => (maintainer.wake)(),
            Err(error) => {
                // The next tries again. No section: it would find the same due, and begin again here.
                self.state.amend(|state| state.sleeps_until[task as usize] = None);
                if let Some(_reporting) = Reporting::begin(self) {
                    self.report(meta, PoolEvent::MaintenanceNotStarted(error.to_string()));
                }
            }
        }
    }
    /// Nothing may be due any more.
    pub(super) fn stop_maintenance(&self) {
        MaintenanceTask::ALL
            .iter()
            .filter_map(|task| self.maintainer(*task))
            .for_each(|all| (all.wake)());
    }
    /// Opens what there will be something to do for.
    pub(super) fn open_maintenance(&self) -> Result<(), OpenError> {
        let (timed, stocks) = self.critical(|state, _| {
            (state.timed, state.options.test_while_idle || state.limits.min_idle > 0)
        });
        for (task, has_work) in MaintenanceTask::ALL.into_iter().zip([timed, stocks]) {
            if let Some(maintainer) = self.maintainer(task).filter(|_| has_work) {
                (maintainer.open)()?;
            }
        }
        Ok(())
    }

    /// After a pass: until when to sleep. Whoever makes something due earlier finds that under the lock,
    /// and wakes it: also if it has not lain down yet.
    fn after_pass(&self, task: MaintenanceTask) -> Verdict {
        self.critical(|state, _| {
            let due = state.next_due(task);
            // Also where it stops: a loan that begins after that has to begin it again.
            state.sleeps_until[task as usize] = due;
            if state.is_done(task) {
                return Flow::Stop.into();
            }
            due.map_or(Flow::Idle.into(), |due| Verdict::Until(self.clock().deadline_at(due)))
        })
    }

    /// How long until something is due; none: nothing ever is, if nothing happens.
    pub(super) fn due_in(&self) -> Option<Duration> {
        self.critical(|state, _| {
            let next =
                MaintenanceTask::ALL.into_iter().filter_map(|task| state.next_due(task)).min();
            let next = next.filter(|next| *next < Time::END)?;
            Some(state.clock.now().until(next))
        })
    }

    /// Has it done by threads, from when something is due for the first time.
    pub(super) fn maintain_by_thread(self: &Arc<Self>) {
        let maintainer = |task| {
            let executor = PeriodicExecutor::builder(None)
                .name(name(task))
                .clock(self.clock().clone())
                // The pool's own end is what ends it.
                .unregistered()
                .build_weak_ref(Arc::downgrade(self), move |pool: &Arc<Self>| {
                    now(pool.perform(task));
                    pool.after_pass(task)
                });
            let opens = executor.clone();
            Maintainer {
                open: Box::new(move || opens.open()),
                wake: Box::new(move || executor.wake()),
            }
        };
        self.maintenance.get_or_init(|| MaintenanceTask::ALL.map(maintainer));
    }

    /// Has it done by tasks.
    pub(super) fn maintain_by_task<R: Runtime>(self: &Arc<Self>, runtime: R) {
        let runtime = Arc::new(runtime);
        let maintainer = |task| {
            let (runtime, pool) = (runtime.clone(), Arc::downgrade(self));
            let timed = Arc::new(Timed { runtime, pool, task, told: AtomicBool::new(false) });
            let executor = AsyncPeriodicExecutor::builder(None, timed)
                .name(name(task))
                .clock(self.clock().clone())
                .unregistered()
                .build_weak_until(Arc::downgrade(self), move |pool: Arc<Self>| async move {
                    pool.perform(task).await;
                    pool.after_pass(task)
                });
            let opens = executor.clone();
            Maintainer {
                open: Box::new(move || opens.open()),
                wake: Box::new(move || executor.wake()),
            }
        };
        self.maintenance.get_or_init(|| MaintenanceTask::ALL.map(maintainer));
    }
}

crate::sync::thread::thread_local! {
    /// Of which pools this thread tells a listener that something could not be begun.
    // loom's macro takes no `const` block.
    #[allow(clippy::missing_const_for_thread_local)]
    static REPORTS: RefCell<Vec<usize>> = RefCell::new(Vec::new());
}

/// This thread tells a pool's listener that its maintenance could not be begun, until it is dropped.
struct Reporting {
    /// Of this thread.
    here: PhantomData<*const ()>,
}

impl Reporting {
    /// None if it does already, whatever the duty: the listener would be told within itself. None, too, where a
    /// thread has no locals any more: a listener that borrows would be.
    fn begin<F: Form>(pool: &Inner<F>) -> Option<Self> {
        let this = std::ptr::from_ref(pool) as usize;
        let begins = REPORTS.try_with(|tells| {
            let mut tells = tells.borrow_mut();
            let reports_already = tells.contains(&this);
            if !reports_already {
                tells.push(this);
            }
            !reports_already
        });
        begins.is_ok_and(|begins| begins).then(|| Reporting { here: PhantomData })
    }
}

impl Drop for Reporting {
    fn drop(&mut self) {
        let _ = REPORTS.try_with(|tells| tells.borrow_mut().pop());
    }
}

/// The runtime, as the executor of a duty has it. If its timer panics, the listener is told, and the executor
/// sleeps without end: so whoever makes something due wakes it as ever, and no wake comes to one that is about to end.
struct Timed<R, F: Form> {
    runtime: Arc<R>,
    pool: Weak<Inner<F>>,
    task: MaintenanceTask,
    /// The last timer panicked: that is told once, or a listener that uses the pool would be told for ever.
    told: AtomicBool,
}

impl<R: Runtime, F: Form> Runtime for Arc<Timed<R, F>> {
    type Sleep = BoxFuture<()>;
    fn spawn(&self, task: BoxFuture<()>) {
        self.runtime.spawn(task);
    }
    fn sleep_until(&self, at: Instant) -> BoxFuture<()> {
        let this = self.clone();
        Box::pin(async move {
            if let Err(message) = this.sleeps(at).await {
                this.has_panicked(message);
                pending().await
            }
        })
    }
}

impl<R: Runtime, F: Form> Timed<R, F> {
    async fn sleeps(&self, at: Instant) -> Result<(), String> {
        let sleep = contain(|| Box::pin(self.runtime.sleep_until(at)))?;
        let mut sleep = UserValue::new(sleep);
        poll_fn(|cx| match contain(|| sleep.as_mut().poll(cx)) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(())) => {
                self.told.store(false, SeqCst);
                Poll::Ready(Ok(()))
            }
            Err(message) => Poll::Ready(Err(message)),
        })
        .await
    }

    fn has_panicked(&self, message: String) {
        let Some(pool) = self.pool.upgrade() else { return };
        let concerned = pool.state.amend(|state| {
            // As above, the next tries again.
            state.sleeps_until[self.task as usize] = None;
            state.concerned(self.task)
        });
        if let Some(meta) = concerned {
            if let Some(_reporting) = Reporting::begin(&*pool) {
                if !self.told.swap(true, SeqCst) {
                    let why = format!("the runtime's timer panicked: {message}");
                    pool.report(&meta, PoolEvent::MaintenanceNotStarted(why));
                }
            }
        }
    }
}

/// What its thread is called.
fn name(task: MaintenanceTask) -> &'static str {
    match task {
        MaintenanceTask::Evict => "cabrank eviction",
        MaintenanceTask::Refill => "cabrank stock",
    }
}
