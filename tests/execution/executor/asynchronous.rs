//! Executions that a task begins and ends without a closure. Each test runs on one thread, so a blocked thread
//! would hang the test.

use crate::common::log::{Log, OnPurpose, failed, reporting};
use crate::common::task::{Task, block_on};
use crate::polling::poll;
use cabrank::execution::{Execution, Executor, Interlock, Stage};
use std::pin::pin;
use std::task::Poll;

/// Requests a load after `other`, and gives it up: the share comes back when `other` releases.
fn forsake<T>(execution: &mut Execution<'static>, other: impl Future<Output = T>) -> T {
    let running = execution.running().expect("there is an interlock");
    let mut load = pin!(running.load_async());
    assert!(poll(load.as_mut()).is_pending());
    let Poll::Ready(loads) = poll(pin!(other)) else { panic!("no owner has a share") };
    loads
}
fn noting(log: &Log, interlock: &Interlock) -> Executor {
    reporting(log).interlock(interlock.clone()).hook(log.hook("a")).build()
}

#[test]
fn a_task_runs_and_completes() {
    let (log, interlock) = (Log::default(), Interlock::new());
    let executor = noting(&log, &interlock);
    let failing = Executor::builder().to_complete(|| Err(OnPurpose.into())).build();
    block_on(async {
        let mut execution = executor.run_async().await.expect("it runs");
        execution.within(|_| log.note("body"));
        execution.complete_async().await.expect("it completes");
        let error = failed(failing.run_async().await.expect("it runs").complete_async().await);
        assert_eq!(error.stage(), Stage::Complete);
        let child = executor.run_async().await.expect("it runs").child();
        log.take();
        drop(child.run_async().await.expect("it runs"));
    });
    assert_eq!(log.take(), ["run a", "complete a"]);
}

/// A run that is dropped while it waits to enter has run no hook.
#[test]
fn a_run_that_is_dropped_before_it_has_entered_has_not_begun() {
    let (log, interlock) = (Log::default(), Interlock::new());
    let executor = noting(&log, &interlock);
    let mut holder = interlock.enter();
    let holds = block_on(holder.unload_async()).expect("no other owner runs");
    let mut task = Task::new(async move { executor.run_async().await.map(drop) });
    assert!(task.poll().is_none());
    drop(task);
    drop(holds);
    assert!(log.take().is_empty());
    assert_eq!(interlock.dump().owners.len(), 1, "{}", interlock.dump());
}

/// Regression: `complete` blocked the thread for the share, and the holder was a task of that thread.
#[test]
fn a_task_completes_when_its_share_is_back() {
    let (log, interlock) = (Log::default(), Interlock::new());
    let executor = noting(&log, &interlock);
    let mut sharer = interlock.enter();
    let mut execution = executor.run().expect("it runs");
    let loads = forsake(&mut execution, sharer.load_async()).expect("no owner has a share");
    let mut completes = Task::new(execution.complete_async());
    assert!(completes.poll().is_none());
    assert_eq!(log.take(), ["run a"]);
    drop(loads);
    assert_eq!(completes.wakes(), 1);
    completes.poll().expect("its share is back").expect("it completes");
    assert_eq!(log.take(), ["complete a"]);
}

#[test]
fn a_completion_that_is_dropped_is_left_to_the_holder() {
    let (log, interlock) = (Log::default(), Interlock::new());
    let executor = noting(&log, &interlock);
    let mut sharer = interlock.enter();
    let mut execution = executor.run().expect("it runs");
    let loads = forsake(&mut execution, sharer.load_async()).expect("no owner has a share");
    let mut completes = Task::new(execution.complete_async());
    assert!(completes.poll().is_none());
    drop(completes);
    assert_eq!(log.take(), ["run a"]);
    drop(loads);
    assert_eq!(log.take(), ["complete a"]);
}

#[test]
fn a_dropped_reset_has_no_effect() {
    let (log, interlock) = (Log::default(), Interlock::new());
    let executor = noting(&log, &interlock);
    let mut sharer = interlock.enter();
    let mut execution = executor.run().expect("it runs");
    let loads = forsake(&mut execution, sharer.load_async()).expect("no owner has a share");
    assert!(poll(pin!(execution.reset_async())).is_pending());
    drop(loads);
    assert_eq!(log.take(), ["run a"]);
    block_on(execution.reset_async()).expect("it completes, and runs again");
    assert_eq!(log.take(), ["complete a", "run a"]);
    block_on(execution.complete_async()).expect("it completes");
    assert_eq!(log.take(), ["complete a"]);
}

/// Regression: the hooks ran inside the executions of the releasing thread, where an executor that both run does
/// nothing.
#[test]
fn hooks_that_are_left_behind_are_in_none_of_the_releasers_executions() {
    let (log, interlock) = (Log::default(), Interlock::new());
    let theirs = noting(&log, &interlock);
    let inner = theirs.clone();
    let executor = Executor::builder()
        .interlock(interlock.clone())
        .to_complete(move || Ok(inner.wrap(|_| Ok(()))?))
        .build();
    let mut execution = executor.run().expect("it runs");
    theirs
        .wrap(|sharer| {
            let running = sharer.running().expect("there is an interlock");
            let loads =
                forsake(&mut execution, running.load_async()).expect("no owner has a share");
            drop(execution);
            log.note("released");
            drop(loads);
            Ok(())
        })
        .expect("it runs");
    assert_eq!(log.take(), ["run a", "released", "run a", "complete a", "complete a"]);
}
