//! After `shutdown_all`: the process's executors have ended, and what the library builds on executors of its own works.

use crate::common::task::{Task, block_on};
use crate::common::{app, before_long, soon};
use cabrank::execution::interlock::AcquireError;
use cabrank::in_memory::InMemorySpawner;
use cabrank::periodic_executor::{
    Joined, OpenError, Registry, ShutdownAtExit, Tokio, shutdown_all,
};
use cabrank::resource_pool::{Async, AsyncResourceFactory, AsyncResourcePool, ResourceFactory};
use cabrank::{ApplicationPool, Interlock, ManualClock, PeriodicExecutor, ResourcePool};
use std::convert::Infallible;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

struct Made;
impl ResourceFactory for Made {
    type Resource = ();
    type Metadata = ();
    type Error = Infallible;
    fn create(&self, (): &()) -> Result<(), Infallible> {
        Ok(())
    }
}
impl AsyncResourceFactory for Made {
    type Resource = ();
    type Metadata = ();
    type Error = Infallible;
    async fn create(&self, (): &()) -> Result<(), Infallible> {
        Ok(())
    }
}

/// One test, because it shuts down for the whole process.
#[test]
fn after_a_shutdown_of_all_the_librarys_own_executors_work() {
    let time = ManualClock::new();
    // Built before the shutdown, and used after it.
    let (pools, interlocks) = ([(); 2].map(|()| application_pool(&time)), interlock(&time));
    let [before, _] = &pools;
    drop(before.get(&app("x")).expect("a session"));
    let executor = PeriodicExecutor::builder(None).build(|| ());
    executor.open().expect("a thread");
    let theirs = executor.clone();
    soon(move || shutdown_all(Duration::MAX)).expect("no limit");
    assert_eq!(soon(move || theirs.join()), Ok(Joined::Closed));
    assert!(matches!(executor.open(), Err(OpenError::ShutDown)));
    assert!(Registry::of_the_process().is_empty());
    // A second shutdown finds no executor. The guard of the process shuts down the same registry.
    soon(|| shutdown_all(Duration::ZERO)).expect("all have ended");
    drop(ShutdownAtExit::new(Duration::ZERO).report(|late| panic!("{late}")));

    for pool in pools.iter().chain([&application_pool(&time)]) {
        drop(pool.get(&app("x")).expect("a session"));
        assert_eq!(pool.counts().count, 1);
        before_long(|| {
            time.advance(SECOND);
            pool.counts().count == 0
        });
    }
    for interlock in [interlocks, interlock(&time)] {
        a_wait_of_a_task_ends_at_its_limit(&interlock, &time);
    }
    an_idle_resource_is_evicted_and_a_minimum_is_filled(&time);
    an_idle_resource_on_tokio_is_evicted(&time);
}

fn application_pool(time: &ManualClock) -> ApplicationPool<InMemorySpawner> {
    let builder = ApplicationPool::builder(InMemorySpawner::with_clock(time.clock()));
    builder.clock(time.clock()).max_idle_time(SECOND).build().expect("a valid pool")
}

fn interlock(time: &ManualClock) -> Interlock {
    Interlock::builder().clock(time.clock()).acquire_timeout(SECOND).build()
}

fn a_wait_of_a_task_ends_at_its_limit(interlock: &Interlock, time: &ManualClock) {
    let held = interlock.unload(|_| {
        let theirs = interlock.clone();
        let waits = move || {
            let mut task = Task::new(async move { theirs.run_async(async |_| ()).await });
            assert!(task.poll().is_none(), "its limit has not passed");
            task
        };
        let task = soon(waits);
        time.advance(SECOND);
        let late = soon(move || task.finish());
        assert!(matches!(late, Err(AcquireError::TimedOut(_))), "{late:?}");
    });
    held.expect("no other owner runs");
}

fn an_idle_resource_is_evicted_and_a_minimum_is_filled(time: &ManualClock) {
    let builder = ResourcePool::builder(Made, ()).clock(time.clock()).max_idle_time(SECOND);
    let pool = builder.build().expect("valid");
    drop(pool.borrow().expect("one"));
    assert_eq!(pool.num_idle(), 1);
    before_long(|| {
        time.advance(SECOND);
        pool.num_idle() == 0
    });
    let refilled = ResourcePool::builder(Made, ()).min_idle(2).build().expect("valid");
    before_long(|| refilled.num_idle() == 2);
}

fn an_idle_resource_on_tokio_is_evicted(time: &ManualClock) {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_time().build().expect("a runtime");
    let tokio = Tokio::from(runtime.handle().clone());
    let builder = AsyncResourcePool::builder(Async(Made), ()).clock(time.clock());
    let pool = builder.max_idle_time(SECOND).build_on(tokio).expect("valid");
    drop(block_on(pool.borrow_async()).expect("one"));
    before_long(|| {
        time.advance(SECOND);
        pool.num_idle() == 0
    });
    drop(pool);
    runtime.shutdown_background();
}
