//! After `shutdown_all` the process's executors have ended. The interlock's timer and a pool on tokio work all the same;
//! `shutdown_all.rs` and `resource_pool/shutdown.rs` look at the other pools.

use crate::common::task::{Task, block_on};
use crate::common::{before_long, soon};
use cabrank::execution::interlock::AcquireError;
use cabrank::periodic_executor::{
    Joined, OpenError, Registry, ShutdownAtExit, Tokio, shutdown_all,
};
use cabrank::resource_pool::{Async, AsyncResourceFactory, AsyncResourcePool, ResourceFactory};
use cabrank::{Interlock, ManualClock, PeriodicExecutor};
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
    let before = interlock(&time);
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

    for interlock in [before, interlock(&time)] {
        a_wait_of_a_task_ends_at_its_limit(&interlock, &time);
    }
    an_idle_resource_on_tokio_is_evicted(&time);
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
