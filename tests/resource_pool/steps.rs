//! An asynchronous factory whose calls wait, fail and panic as scripted, and pools of it.

use crate::common::locked;
use crate::shared::end_the_run_when_the_library_panics;
use crate::shared::task::Task;
use cabrank::ManualClock;
use cabrank::periodic_executor::Runtime;
use cabrank::resource_pool::{
    AddError, Async, AsyncResourceFactory, AsyncResourcePool, BorrowError, Borrowed, Builder,
    KeyedResourcePool, ResourcePool,
};
use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Pends until the test releases it.
    Held,
    Fails,
    Panics,
}

/// An asynchronous factory whose calls wait, fail and panic as scripted.
#[derive(Clone, Default)]
pub(crate) struct Steps(Arc<State>);

#[derive(Default)]
struct State {
    begun: AtomicUsize,
    alive: AtomicUsize,
    /// Creations that have begun and not ended.
    held: AtomicUsize,
    /// Creations up to this number hang for ever.
    hang: AtomicUsize,
    /// How many held creations may go on, and whether they fail.
    released: AtomicUsize,
    fails: AtomicBool,
    pub(crate) steps: Mutex<HashMap<&'static str, Step>>,
    wakers: Mutex<Vec<Waker>>,
    calls: Mutex<Vec<String>>,
}

#[derive(Debug)]
pub(crate) struct Resource {
    pub(crate) number: usize,
    alive: Arc<AtomicAlive>,
}

/// A creation in flight.
struct InFlight<'a>(&'a State);
impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.held.fetch_sub(1, SeqCst);
    }
}

/// Decrements the count when it is dropped.
struct AtomicAlive(Arc<State>);
impl Drop for AtomicAlive {
    fn drop(&mut self) {
        self.0.alive.fetch_sub(1, SeqCst);
    }
}
impl std::fmt::Debug for AtomicAlive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("alive")
    }
}

impl Steps {
    pub(crate) fn on(&self, call: &'static str, step: Step) {
        locked(&self.0.steps).insert(call, step);
    }
    pub(crate) fn go_on(&self, call: &'static str) {
        locked(&self.0.steps).remove(call);
        std::mem::take(&mut *locked(&self.0.wakers)).into_iter().for_each(Waker::wake);
    }
    pub(crate) fn calls(&self) -> String {
        std::mem::take(&mut *locked(&self.0.calls)).join(" ")
    }
    pub(crate) fn alive(&self) -> usize {
        self.0.alive.load(SeqCst)
    }
    /// Returns how many creations have begun and not ended.
    pub(crate) fn held(&self) -> usize {
        self.0.held.load(SeqCst)
    }
    /// The creations that have begun hang for ever; those that begin from now on go on.
    pub(crate) fn hangs(&self) {
        self.0.hang.store(self.begun(), SeqCst);
        self.go_on("create");
    }
    /// Lets only the call go on that was polled first, if the test polls its task next.
    pub(crate) fn release_first(&self, call: &'static str) {
        self.0.released.store(1, SeqCst);
        let wakers = std::mem::take(&mut *locked(&self.0.wakers));
        assert!(!wakers.is_empty() && call == "create");
        wakers.into_iter().for_each(Waker::wake);
    }
    /// Lets only the creation fail that was polled first, if the test polls its task next.
    pub(crate) fn fail_first(&self) {
        self.0.fails.store(true, SeqCst);
        self.release_first("create");
    }
    pub(crate) fn begun(&self) -> usize {
        self.0.begun.load(SeqCst)
    }

    fn is_released(&self, what: &'static str) -> bool {
        let take = |left: usize| left.checked_sub(1);
        what == "create" && self.0.released.fetch_update(SeqCst, SeqCst, take).is_ok()
    }

    async fn call(&self, what: &'static str, number: usize) -> Result<(), String> {
        locked(&self.0.calls).push(format!("{what} {number}"));
        let hangs = || what == "create" && number <= self.0.hang.load(SeqCst);
        poll_fn(|cx| match locked(&self.0.steps).get(what).copied() {
            Some(Step::Held) if self.is_released(what) => {
                let fails = self.0.fails.swap(false, SeqCst);
                Poll::Ready(if fails { Err("on purpose".to_owned()) } else { Ok(()) })
            }
            _ if hangs() => Poll::Pending,
            Some(Step::Held) => {
                locked(&self.0.wakers).push(cx.waker().clone());
                Poll::Pending
            }
            Some(Step::Panics) => std::panic::resume_unwind(Box::new("on purpose")),
            Some(Step::Fails) => Poll::Ready(Err("on purpose".to_owned())),
            None => Poll::Ready(Ok(())),
        })
        .await
    }
}

impl AsyncResourceFactory for Steps {
    type Resource = Resource;
    type Metadata = &'static str;
    type Error = String;

    async fn create(&self, _: &&'static str) -> Result<Resource, String> {
        let number = self.0.begun.fetch_add(1, SeqCst) + 1;
        self.0.held.fetch_add(1, SeqCst);
        let in_flight = InFlight(&self.0);
        self.call("create", number).await?;
        drop(in_flight);
        self.0.alive.fetch_add(1, SeqCst);
        Ok(Resource { number, alive: Arc::new(AtomicAlive(self.0.clone())) })
    }
    fn destroy(&self, _: &&'static str, resource: Resource) {
        locked(&self.0.calls).push(format!("destroy {}", resource.number));
        drop(resource.alive);
    }
    async fn destroy_async(&self, _: &&'static str, resource: Resource) {
        let _ = self.call("destroy", resource.number).await;
        drop(resource.alive);
    }
    async fn validate(&self, _: &&'static str, resource: &mut Resource) -> bool {
        self.call("validate", resource.number).await.is_ok()
    }
    async fn activate(&self, _: &&'static str, resource: &mut Resource) -> Result<(), String> {
        self.call("activate", resource.number).await
    }
    async fn passivate(&self, _: &&'static str, resource: &mut Resource) -> Result<(), String> {
        self.call("passivate", resource.number).await
    }
}

pub(crate) type Pool = AsyncResourcePool<Steps>;
pub(crate) type Building = Builder<Async<Steps>, Pool>;
pub(crate) type Got = Result<Borrowed<'static, Async<Steps>>, BorrowError<String>>;

pub(crate) struct Rig {
    pub(crate) pool: Pool,
    pub(crate) steps: Steps,
    pub(crate) clock: ManualClock,
    pub(crate) events: Arc<Mutex<Vec<String>>>,
}

pub(crate) fn rig(configure: impl FnOnce(Building) -> Building) -> Rig {
    build(configure, |builder| builder.maintenance(false).build_async().expect("a valid pool"))
}

/// Returns a pool that is built on a runtime.
pub(crate) fn rig_on(configure: impl FnOnce(Building) -> Building, runtime: impl Runtime) -> Rig {
    build(configure, |builder| builder.build_on(runtime).expect("a valid pool"))
}

fn build(
    configure: impl FnOnce(Building) -> Building,
    build: impl FnOnce(Building) -> Pool,
) -> Rig {
    end_the_run_when_the_library_panics();
    let (steps, clock) = (Steps::default(), ManualClock::new());
    let events: Arc<Mutex<Vec<String>>> = Arc::default();
    let theirs = events.clone();
    let builder = ResourcePool::builder(Async(steps.clone()), "m").clock(clock.clock());
    // A test that is about it sets it.
    let builder = builder.max_wait(None);
    let builder = builder.listener(move |_, event| locked(&theirs).push(format!("{event:?}")));
    let pool = build(configure(builder));
    Rig { pool, steps, clock, events }
}

impl Rig {
    /// Polls a new borrower once.
    pub(crate) fn begin(&self) -> (Task<Got>, Option<Got>) {
        let pool = self.pool.clone();
        let mut task =
            Task::new(async move { pool.borrow_async().await.map(Borrowed::into_owned) });
        let got = task.poll();
        (task, got)
    }
    /// Returns a borrower that has to wait.
    #[track_caller]
    pub(crate) fn waits(&self) -> Task<Got> {
        let (task, got) = self.begin();
        assert!(got.is_none(), "it waits");
        task
    }
    /// Borrows a resource that is available at once.
    #[track_caller]
    pub(crate) fn lend(&self) -> Borrowed<'static, Async<Steps>> {
        self.begin().1.expect("at once").expect("a resource")
    }
    pub(crate) fn add(&self) -> Task<Result<(), AddError<String>>> {
        let pool = self.pool.clone();
        Task::new(async move { pool.add_async().await })
    }
    /// Returns a pass of the maintenance.
    pub(crate) fn pass(&self) -> Task<Option<Duration>> {
        let pool = self.pool.clone();
        Task::new(async move { pool.maintain_async().await })
    }
    /// Returns an addition that has to wait.
    #[track_caller]
    pub(crate) fn adds(&self) -> Task<Result<(), AddError<String>>> {
        let mut task = self.add();
        assert!(task.poll().is_none(), "the creation is pending");
        task
    }
    pub(crate) fn counts(&self) -> (usize, usize, usize) {
        (self.pool.num_active(), self.pool.num_idle(), self.pool.num_total())
    }
}

/// Begins to borrow by a task, which waits, and gives the resource back at once.
#[track_caller]
pub(crate) fn begin_borrow(
    pool: &KeyedResourcePool<&'static str, Async<Steps>>,
    key: &'static str,
) -> Task<Result<(), BorrowError<String>>> {
    let pool = pool.clone();
    let mut task = Task::new(async move { pool.borrow_async(&key).await.map(drop) });
    assert!(task.poll().is_none());
    task
}
