//! The runtime of a pool that creates. The test polls the tasks of its orders, and lets the times of its timers come.

use crate::refinement::factory::{Factory, Tasks};
use crate::refinement::history::End;
use crate::shared::task;
use cabrank::periodic_executor::{BoxFuture, Runtime};
use cabrank::resource_pool::{Async, ResourcePool};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// A runtime that hands out the creations that the pool orders, and runs the destructions at once. Its timers end when the
/// test says so.
#[derive(Clone, Default)]
pub(crate) struct Orders(Arc<Mutex<Spawned>>);

#[derive(Default)]
struct Spawned {
    orders: Vec<BoxFuture<()>>,
    timers: Vec<Timer>,
    /// Its runs are those that the test calls.
    maintenance: Vec<BoxFuture<()>>,
    /// The timer whose task is being polled for the first time.
    begun: Option<Timing>,
    /// If set, no task runs: only their sizes are noted.
    sizes: Option<Vec<usize>>,
}

/// The time that a creation has until it is overdue, and until it fails.
pub(super) const OVERDUE: Duration = Duration::from_secs(1000);
pub(super) const LIMIT: Duration = Duration::from_secs(1_000_000);

/// The end of a time, and whether the time is that of a whole creation.
#[derive(Clone)]
struct Timing {
    has_come: Arc<AtomicBool>,
    is_limit: bool,
}

/// A timer of the pool: its task, until that has ended.
pub(crate) struct Timer {
    task: Option<BoxFuture<()>>,
    timing: Timing,
}

impl Timer {
    pub(crate) fn is_limit(&self) -> bool {
        self.timing.is_limit
    }
    pub(crate) fn runs(&self) -> bool {
        !self.timing.has_come.load(SeqCst)
    }
    /// Lets its time come, and polls its task.
    pub(crate) fn ring(&mut self) {
        self.timing.has_come.store(true, SeqCst);
        assert!(self.is_over());
    }
    /// Polls its task. Returns whether that has ended.
    pub(crate) fn is_over(&mut self) -> bool {
        let polled = |task: &mut BoxFuture<()>| {
            task.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
        };
        self.task.take_if(polled);
        self.task.is_none()
    }
}

pub(crate) struct Sleep(Arc<AtomicBool>);

impl Future for Sleep {
    type Output = ();
    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.0.load(SeqCst) { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// The sizes of the tasks, which tell them apart.
struct Sizes {
    destroyer: usize,
    order: usize,
    timer: usize,
}

fn sizes() -> &'static Sizes {
    static SIZES: OnceLock<Sizes> = OnceLock::new();
    SIZES.get_or_init(|| {
        let (factory, notes) = (Factory::default(), Orders::default());
        notes.spawned().sizes = Some(vec![]);
        let builder = ResourcePool::builder(Async(Tasks(factory.clone())), 0);
        let pool = builder
            .create_timeout(None)
            .max_wait(None)
            .build_on(notes.clone())
            .expect("a valid pool");
        let adder = pool.clone();
        let mut adds = task::Task::new(async move { adder.add_async().await });
        let added = factory.ending(&[End::Well, End::Well], || adds.poll());
        assert_eq!(added, Some(Ok(())));
        drop(adds);
        pool.clear();
        let mut borrows = task::Task::new(async move { pool.borrow_async().await.map(drop) });
        assert!(borrows.poll().is_none());
        // It is left as it is: its timer was never polled.
        let mut order = std::mem::ManuallyDrop::new(notes.take().pop().expect("an order"));
        assert!(order.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        std::mem::forget(borrows);
        let noted = notes.spawned().sizes.take().expect("set above");
        let [destroyer, order, timer] = noted[..] else { panic!("three tasks, not {noted:?}") };
        let differ = order != destroyer && order != timer && destroyer != timer;
        assert!(differ, "they cannot be told apart: {noted:?}");
        Sizes { destroyer, order, timer }
    })
}

impl Orders {
    fn spawned(&self) -> MutexGuard<'_, Spawned> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Takes the tasks of the orders.
    pub(crate) fn take(&self) -> Vec<BoxFuture<()>> {
        std::mem::take(&mut self.spawned().orders)
    }
    /// Drops the task of the maintenance.
    pub(crate) fn end(&self) {
        let maintenance = std::mem::take(&mut self.spawned().maintenance);
        drop(maintenance);
    }
    pub(crate) fn take_timers(&self) -> Vec<Timer> {
        std::mem::take(&mut self.spawned().timers)
    }
}

impl Runtime for Orders {
    type Sleep = Sleep;
    fn spawn(&self, mut task: BoxFuture<()>) {
        let size = std::mem::size_of_val(&*task);
        let mut spawned = self.spawned();
        if let Some(noted) = &mut spawned.sizes {
            noted.push(size);
            return spawned.orders.push(task);
        }
        drop(spawned);
        if size == sizes().order {
            return self.spawned().orders.push(task);
        }
        if ![sizes().destroyer, sizes().timer].contains(&size) {
            return self.spawned().maintenance.push(task);
        }
        let polled = task.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        if size == sizes().destroyer {
            return assert!(polled.is_ready(), "a destruction awaits nothing here");
        }
        let mut spawned = self.spawned();
        let timing = spawned.begun.take().expect("it sleeps");
        spawned.timers.push(Timer { task: Some(task), timing });
    }
    fn sleep_until(&self, at: Instant) -> Sleep {
        let is_limit = at.saturating_duration_since(Instant::now()) > 2 * OVERDUE;
        let timing = Timing { has_come: Arc::default(), is_limit };
        let sleep = Sleep(timing.has_come.clone());
        self.spawned().begun = Some(timing);
        sleep
    }
}
