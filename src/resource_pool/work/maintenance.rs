//! The maintenance: two periodic executors that do the timed work (`due.rs`, `refill.rs`, `validating.rs`).
//!
//! An executor sleeps until its next due time, or without limit if it has no work. A section that makes something
//! due earlier finds that under the lock and wakes it. With an `eviction_interval`, idle resources are examined
//! in runs that far apart, at most `evictions_per_run` in each.
//!
//! One executor evicts and reports, the other tests and creates. Each is opened when its first work is due, or
//! when the options promise some. A creation or a test that hangs holds up the other tests and refills, a
//! destruction that hangs the other evictions and reports. Neither holds up the other executor.
//!
//! If a thread or a task cannot be started, the listener is notified, and the next due work retries. The listener is notified
//! once, until one starts; and not within its own call, of work that the listener makes due. A panic of a runtime's timer
//! is handled in the same way: the next due work wakes the executor. So is a timer that ends far too early, because the
//! runtime's time is paused.
//!
//! If the runtime has ended, it drops each task at once. The listener is notified once, and each due work retries.
//! Until then, borrowers still discard what has expired.
//!
//! A closed pool watches only its loans, which may look abandoned: the maintenance stops after the last of them.
//! A borrow that began before the close may begin a loan after that, and starts it again.

use super::inner::Inner;
use super::maintainer::Maintainer;
use crate::kernel::at_work::AtWork;
use crate::kernel::clock::Time;
use crate::kernel::runtime::{BoxFuture, Rang, Runtime, SafeRuntime};
use crate::kernel::section::{Guarded, now};
use crate::kernel::sync::has_failed;
use crate::periodic_executor::{AsyncPeriodicExecutor, Flow, OpenError, PeriodicExecutor, Verdict};
use crate::resource_pool::api::event::Event;
use crate::resource_pool::api::factory::Form;
use crate::resource_pool::state::maintenance_task::MaintenanceTask;
use crate::resource_pool::state::names::Meta;
use std::future::pending;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

impl<F: Form> Inner<F> {
    /// Performs one pass of each task.
    pub(crate) async fn maintain(&self) {
        for task in MaintenanceTask::ALL {
            self.perform(task).await;
            if self.maintenance.get().is_none() {
                // A pool without executors is due again at its next call: this notes when.
                let _ = self.after_pass(task);
            }
        }
    }

    async fn perform(&self, task: MaintenanceTask) {
        if self.origin.is_forked() {
            return;
        }
        match task {
            MaintenanceTask::Evict => {
                let mut pass = None;
                // One entry per section: others come in between, and a victim is destroyed before the next leaves.
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

    /// Opens and wakes the executor: work of the key is due.
    pub(crate) fn wake_maintenance(&self, task: MaintenanceTask, meta: &Meta<F>) {
        let Some(maintainer) = self.maintainer(task) else { return };
        let why = match (maintainer.open)() {
            Ok(true) => {
                maintainer.reported.store(false, SeqCst);
                return (maintainer.wake)();
            }
            Ok(false) => "the runtime dropped the task: it may have ended".to_owned(),
            Err(error) => error.to_string(),
        };
        if self.is_left(task) {
            return;
        }
        if let Some(_at_work) = AtWork::begin_once(self) {
            if !maintainer.reported.swap(true, SeqCst) {
                self.report(meta, Event::MaintenanceNotStarted(why));
            }
        }
    }
    /// Lets the next due work open the executor, which no task runs. Returns whether a close left it no work.
    fn is_left(&self, task: MaintenanceTask) -> bool {
        // Not a section: its end would find the same work due, and recurse.
        self.state.amend(|state| {
            state.alarms[task as usize].clear();
            state.is_done(task)
        })
    }
    /// Wakes the executors of a closed pool, so that those without work stop.
    pub(crate) fn stop_maintenance(&self) {
        MaintenanceTask::ALL
            .iter()
            .filter_map(|task| self.maintainer(*task))
            .for_each(|all| (all.wake)());
    }
    /// Opens the executors for which the options promise work.
    pub(crate) fn open_maintenance(&self) -> Result<(), OpenError> {
        let (timed, refills) = self.critical(|state, _| {
            (state.timed, state.options.test_while_idle || state.limits.min_idle > 0)
        });
        for (task, has_work) in MaintenanceTask::ALL.into_iter().zip([timed, refills]) {
            if let Some(maintainer) = self.maintainer(task).filter(|_| has_work) {
                (maintainer.open)()?;
            }
        }
        Ok(())
    }

    /// Returns until when the executor sleeps after a pass.
    ///
    /// The time is noted under the lock: a section that makes something due earlier wakes the executor, even
    /// before it sleeps.
    fn after_pass(&self, task: MaintenanceTask) -> Verdict {
        self.critical(|state, _| {
            let due = state.next_due(task);
            // Noted even if the executor stops: a loan that begins later has to start it again.
            state.alarms[task as usize].set(due);
            if state.is_done(task) {
                return Flow::Stop.into();
            }
            Verdict::when_due(due, self.clock())
        })
    }

    /// Returns how long until the next work is due, or `None` if no work is scheduled.
    pub(crate) fn due_in(&self) -> Option<Duration> {
        self.critical(|state, _| {
            let next =
                MaintenanceTask::ALL.into_iter().filter_map(|task| state.next_due(task)).min();
            let next = next.filter(|next| *next < Time::END)?;
            Some(state.clock.now().until(next))
        })
    }

    /// Runs the maintenance on threads, which start when work is first due.
    pub(crate) fn maintain_by_thread(self: &Arc<Self>) {
        let maintainer = |task| {
            let executor = PeriodicExecutor::builder(None)
                .name(name(task))
                .clock(self.clock().clone())
                // It ends with the pool, not by a registry's shutdown.
                .unregistered()
                .build_weak_ref(Arc::downgrade(self), move |pool: &Arc<Self>| {
                    now(pool.perform(task));
                    pool.after_pass(task)
                });
            let opens = executor.clone();
            Maintainer {
                open: Box::new(move || opens.open().map(|()| opens.is_open())),
                wake: Box::new(move || executor.wake()),
                reported: AtomicBool::new(false),
            }
        };
        self.maintenance.get_or_init(|| MaintenanceTask::ALL.map(maintainer));
    }

    /// Runs the maintenance in tasks of `runtime`.
    pub(crate) fn maintain_by_task<R: Runtime>(self: &Arc<Self>, runtime: SafeRuntime<R>) {
        let maintainer = |task| {
            let (runtime, pool) = (runtime.clone(), Arc::downgrade(self));
            let timed = Arc::new(Timed { runtime, pool, task, reported: AtomicBool::new(false) });
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
                open: Box::new(move || opens.open().map(|()| opens.is_open())),
                wake: Box::new(move || executor.wake()),
                reported: AtomicBool::new(false),
            }
        };
        self.maintenance.get_or_init(|| MaintenanceTask::ALL.map(maintainer));
    }
}

/// The runtime as an executor uses it. If its timer panics, the listener is notified, and the executor sleeps
/// without limit. The next due work wakes it as usual; an executor that ended instead could miss that wake-up.
struct Timed<R, F: Form> {
    runtime: SafeRuntime<R>,
    pool: Weak<Inner<F>>,
    task: MaintenanceTask,
    /// The last timer panicked. Reported once: a listener that uses the pool would be notified for ever.
    reported: AtomicBool,
}

impl<R: Runtime, F: Form> Runtime for Arc<Timed<R, F>> {
    type Sleep = BoxFuture<()>;
    fn spawn(&self, task: BoxFuture<()>) {
        let mut left = Left(Some(self.clone()));
        let task = Box::pin(async move {
            task.await;
            drop(left.0.take());
        });
        // The executor contains its panic.
        self.runtime.uncontained().spawn(task);
    }
    fn sleep_until(&self, at: Instant) -> BoxFuture<()> {
        let this = self.clone();
        Box::pin(async move {
            let rang = this.runtime.sleep_until(at).await;
            if rang.is_ok() {
                this.reported.store(false, SeqCst);
            }
            match rang {
                Err(message) => {
                    this.has_panicked(message);
                    pending().await
                }
                // Under a paused time, the timer of a time that has not come would end again and again. The next due
                // work wakes the executor.
                Ok(Rang::FarTooEarly) => pending().await,
                Ok(Rang::InTime) => {}
            }
        })
    }
}

/// A task of an executor, until it ends. If the runtime drops it before, the next due work opens the executor again: on another
/// runtime, perhaps.
struct Left<R, F: Form>(Option<Arc<Timed<R, F>>>);

impl<R, F: Form> Drop for Left<R, F> {
    fn drop(&mut self) {
        let Some(timed) = self.0.take().filter(|_| !has_failed()) else { return };
        if let Some(pool) = timed.pool.upgrade() {
            pool.is_left(timed.task);
        }
    }
}

impl<R: Runtime, F: Form> Timed<R, F> {
    fn has_panicked(&self, message: String) {
        let Some(pool) = self.pool.upgrade() else { return };
        let concerned = pool.state.amend(|state| {
            // The next due work retries, as in `wake_maintenance`.
            state.alarms[self.task as usize].clear();
            state.concerned(self.task)
        });
        if let Some(meta) = concerned {
            if let Some(_at_work) = AtWork::begin_once(&*pool) {
                if !self.reported.swap(true, SeqCst) {
                    let why = format!("the runtime's timer panicked: {message}");
                    pool.report(&meta, Event::MaintenanceNotStarted(why));
                }
            }
        }
    }
}

/// Returns the name of the task's thread.
fn name(task: MaintenanceTask) -> &'static str {
    match task {
        MaintenanceTask::Evict => "cabrank eviction",
        MaintenanceTask::Refill => "cabrank refill",
    }
}
