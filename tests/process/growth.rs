//! Memory that each life cycle of executors, executions and waits leaves behind: after 10,000 rounds as much as after
//! 1,000. The rounds take place on one thread, whose bytes are counted.

use crate::common::task::{Task, block_on};
use crate::keeps_no_memory;
use cabrank::execution::interlock::{AcquireError, Loaded, Running};
use cabrank::execution::{Execution, Executor, Interlock, PerExecution, Reloader};
use cabrank::periodic_executor::{BoxFuture, JoinError, Registry, Runtime};
use cabrank::{AsyncPeriodicExecutor, ManualClock};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Keeps one task, which the test polls. Its timers are ready at once.
#[derive(Clone, Default)]
struct One(Arc<Mutex<Option<BoxFuture<()>>>>);

impl Runtime for One {
    type Sleep = std::future::Ready<()>;
    fn spawn(&self, task: BoxFuture<()>) {
        *self.0.lock().expect("no panic") = Some(task);
    }
    fn sleep_until(&self, _: Instant) -> Self::Sleep {
        std::future::ready(())
    }
}

impl One {
    fn take(&self) -> Task<()> {
        let task = self.0.lock().expect("no panic").take();
        Task::new(task.expect("it was spawned"))
    }
}

#[test]
fn rounds_that_keep_memory_are_noticed() {
    let mut kept = Vec::new();
    let round = std::panic::AssertUnwindSafe(|| kept.push(Box::new(1)));
    let noticed = std::panic::catch_unwind(|| {
        let mut round = round;
        keeps_no_memory(move |_| (round.0)());
    });
    assert!(noticed.is_err());
}

#[test]
fn an_executor_that_is_opened_and_closed_again_keeps_no_memory() {
    let (runtime, registry) = (One::default(), Registry::new());
    let builder = AsyncPeriodicExecutor::builder(None, runtime.clone()).registry(&registry);
    let executor = builder.build(|| std::future::ready(()));
    keeps_no_memory(|_| {
        executor.open().expect("a task");
        let mut task = runtime.take();
        assert!(task.poll().is_none());
        executor.wake();
        while task.poll().is_none() {
            executor.close();
        }
        block_on(executor.join()).expect("no panic");
    });
}

#[test]
fn joins_that_time_out_or_are_dropped_keep_no_memory() {
    let (runtime, registry) = (One::default(), Registry::with_clock(ManualClock::new().clock()));
    let builder = AsyncPeriodicExecutor::builder(None, runtime.clone()).registry(&registry);
    let executor = builder.build(|| std::future::ready(()));
    executor.open().expect("a task");
    keeps_no_memory(|_| {
        let late = block_on(executor.join_timeout(Duration::from_secs(1)));
        assert_eq!(late, Err(JoinError::TimedOut));
        let theirs = executor.clone();
        let mut join = Task::new(async move { theirs.join().await });
        assert!(join.poll().is_none());
        drop(join);
        // A shutdown waits by a join, too.
        registry.shutdown(Duration::ZERO).expect_err("its task is not polled");
    });
}

#[test]
fn executors_that_are_built_and_dropped_keep_no_memory() {
    let (registry, time) = (Registry::new(), ManualClock::new());
    keeps_no_memory(|_| {
        let runtime = One::default();
        let builder = AsyncPeriodicExecutor::builder(None, runtime.clone());
        let builder = builder.registry(&registry).clock(time.clock());
        let executor = builder.build(|| std::future::ready(()));
        executor.open().expect("a task");
        let mut task = runtime.take();
        assert!(task.poll().is_none());
        drop(executor);
        task.poll().expect("it is closed");
        // Only a later registration removes a clock's listener that is gone.
    });
    assert!(registry.is_empty());
}

#[test]
fn executions_keep_no_memory() {
    let interlock = Interlock::new();
    let value = PerExecution::new(|| Ok(Box::new(7)));
    let executor = Executor::builder().interlock(interlock.clone()).hook(value.clone()).build();
    let body = || value.with(|v| **v);
    keeps_no_memory(|_| {
        assert_eq!(executor.wrap(|_| body()).expect("it runs"), 7);
        let failed = executor.wrap(|_| Err::<(), _>("on purpose".into()));
        drop(failed.expect_err("it fails"));
        let guard = executor.run().expect("it runs");
        executor.wrap(|_| body()).expect("it is nested");
        guard.complete().expect("it completes");
        let wrapped = executor.wrap_async(async |_| body());
        assert_eq!(block_on(wrapped).expect("it runs"), 7);
        // Two at a time, so that the second one's place is used again, too.
        let [first, second] = [(); 2].map(|()| block_on(executor.run_async()).expect("it runs"));
        drop(first);
        second.complete().expect("it completes");
    });
    assert!(interlock.dump().owners.is_empty());
}

#[test]
fn reloads_and_loads_keep_no_memory() {
    let (page, version) = (Arc::new(Loaded::new()), Arc::new(AtomicUsize::new(0)));
    let (unloaded, prepared, watched) = (page.clone(), page.clone(), version.clone());
    let time = ManualClock::new();
    let interlock = Interlock::builder().clock(time.clock()).build();
    let reloader = Reloader::builder(Executor::builder().interlock(interlock).build())
        .watch(move || watched.load(SeqCst))
        .unload(move |unloading| {
            unloaded.clear(unloading);
            Ok(())
        })
        .to_run(|| Ok(()))
        .to_prepare(move |loading| {
            prepared.set(Box::new(1), loading);
            Ok(())
        })
        .build()
        .expect("valid");
    let lazy = Loaded::new();
    keeps_no_memory(|_| {
        version.fetch_add(1, SeqCst);
        let body = |execution: &mut Execution<'_>| {
            assert!(execution.get(&page).is_some());
            let running = execution.running().ok_or("no interlock")?;
            let loaded = lazy.get_or_load(running, || Ok::<_, AcquireError>(Box::new(2)));
            Ok(**loaded?)
        };
        assert_eq!(reloader.wrap(body).expect("it reloads"), 2);
    });
}

#[test]
fn waits_for_the_interlock_keep_no_memory() {
    let interlock = Interlock::new();
    let round = |_| {
        let theirs = interlock.clone();
        let mut holds = Task::new(async move {
            let body = async |r: &mut Running<'_>| {
                r.set_name("holds");
                r.load_async(async |_| std::future::pending::<()>().await).await
            };
            theirs.run_async(body).await
        });
        assert!(holds.poll().is_none());
        let enters = || {
            let theirs = interlock.clone();
            let mut enters = Task::new(async move { theirs.run_async(async |_| ()).await });
            assert!(enters.poll().is_none());
            enters
        };
        let (waits, given_up) = (enters(), enters());
        drop(given_up);
        drop(holds);
        waits.finish().expect("no limit");
        interlock.unload(|_| ()).expect("it is alone");
    };
    keeps_no_memory(round);
}

/// On a thread, the waits end by a limit of no time.
#[test]
fn waits_that_time_out_keep_no_memory() {
    let time = ManualClock::new();
    let interlock = Interlock::builder().clock(time.clock()).build();
    let executor = Executor::builder().interlock(interlock.clone());
    let executor = executor.acquire_timeout(Duration::ZERO).build();
    let other = Executor::builder().interlock(interlock.clone()).build();
    let held = block_on(other.run_async()).expect("it runs");
    let mut load = Task::new(async move {
        let mut held = held;
        let running = held.running().expect("an interlock");
        running.load_async(async |_| std::future::pending::<()>().await).await.map(drop)
    });
    assert!(load.poll().is_none());
    keeps_no_memory(|_| drop(executor.wrap(|_| Ok(())).expect_err("it times out")));
    drop(load);
    executor.wrap(|_| Ok(())).expect("it is alone");
}
