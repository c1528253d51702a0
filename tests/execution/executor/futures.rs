//! Executions as futures: polled on any thread, and dropped at any await.

use crate::common::log::{Log, OnPurpose, failed, reporting};
use crate::common::task::{Task, block_on};
use crate::common::{Gate, before_long, soon};
use crate::polling::yield_once;
use cabrank::execution::interlock::OwnerState;
use cabrank::execution::{BoxError, Execution, Executor, Interlock, Stage};
use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::thread;

#[test]
fn a_future_is_wrapped_and_its_executor_active_whenever_it_is_polled() {
    let log = Log::default();
    let executor = reporting(&log).hook(log.hook("a")).build();
    let (theirs, noted) = (executor.clone(), log.clone());
    let mut task = Task::new(async move {
        let nested = theirs.clone();
        let body = async |_: &mut Execution<'_>| {
            assert!(nested.is_active());
            yield_once().await;
            nested.wrap_async(async |_| noted.noted("nested")).await?;
            Err::<(), BoxError>(OnPurpose.into())
        };
        failed(theirs.wrap_async(body).await).to_string()
    });
    assert!(task.poll().is_none());
    assert!(!executor.is_active(), "between polls the thread is free");
    assert_eq!(log.take(), ["run a"]);
    // Poll the second time on another thread.
    let error = thread::spawn(move || task.finish()).join().expect("no panic");
    assert_eq!(error, "the body failed: on purpose");
    assert_eq!(log.take(), ["nested", "complete a", "report: on purpose"]);
}

/// Regression: values of the body were dropped outside its execution. A wrap in such a drop did not nest, and
/// waited for ever behind an unload that waited for the execution.
#[test]
fn a_dropped_body_is_dropped_inside_its_execution_before_the_hooks_complete() {
    struct Wraps(Executor, Log);
    impl Drop for Wraps {
        fn drop(&mut self) {
            let active = self.0.is_active();
            self.0.wrap(|_| Ok(())).expect("it is nested");
            self.1.note(format!("dropped, active: {active}"));
        }
    }
    let (interlock, log) = (Interlock::new(), Log::default());
    let executor = Executor::builder().interlock(interlock.clone()).hook(log.hook("a")).build();
    let (theirs, noted) = (executor.clone(), log.clone());
    let mut task = Task::new(async move {
        let body = async |_: &mut Execution<'_>| {
            let _wraps = Wraps(theirs.clone(), noted.clone());
            pending::<Result<(), BoxError>>().await
        };
        theirs.wrap_async(body).await
    });
    assert!(task.poll().is_none());
    let unloads = {
        let interlock = interlock.clone();
        thread::spawn(move || interlock.unload(|_| ()))
    };
    before_long(|| interlock.dump().owners.len() == 2);
    soon(move || drop(task));
    assert_eq!(log.take(), ["run a", "dropped, active: true", "complete a"]);
    unloads.join().expect("no panic").expect("no deadlock");
}

/// Hooks need no share: the drop neither waits for the holder, nor leaves its hooks to it.
#[test]
fn a_future_dropped_beside_a_holder_completes_at_once() {
    let (log, interlock) = (Log::default(), Interlock::new());
    let executor = reporting(&log)
        .interlock(interlock.clone())
        .hook(log.hook("a"))
        .to_complete(|| Err(OnPurpose.into()))
        .build();
    let (gate, theirs) = (Gate::default(), interlock.clone());
    let passes = gate.clone();
    let sharer = thread::spawn(move || {
        theirs.run(|r| {
            before_long(|| theirs.dump().owners.len() == 2);
            r.load(|_| passes.pass()).expect("no deadlock");
        })
    });
    before_long(|| interlock.dump().owners.len() == 1);
    let mut task = Task::new(async move {
        let body = async |execution: &mut Execution<'_>| {
            let running = execution.running().ok_or("no interlock")?;
            Ok(running.load_async(async |_| ()).await?)
        };
        executor.wrap_async(body).await
    });
    assert!(task.poll().is_none());
    gate.await_arrivals(1);
    assert!(interlock.dump().owners.iter().any(|owner| owner.state == OwnerState::Loading));
    assert_eq!(log.take(), ["run a"]);
    drop(task);
    assert_eq!(log.take(), ["complete a", "report of a dropped one: on purpose"]);
    assert_eq!(interlock.dump().owners.len(), 1);
    gate.open();
    sharer.join().expect("no panic").expect("no deadlock");
}

/// A run that is dropped while it waits to enter has run no hook.
#[test]
fn a_run_that_is_dropped_before_it_has_entered_has_not_begun() {
    let (log, interlock) = (Log::default(), Interlock::new());
    let executor = reporting(&log).interlock(interlock.clone()).hook(log.hook("a")).build();
    let held = interlock.unload(|_| {
        let mut task = Task::new(async move { executor.run_async().await.map(drop) });
        let polled = thread::spawn(move || task.poll().is_none());
        assert!(polled.join().expect("no panic"));
    });
    held.expect("no other owner runs");
    assert!(log.take().is_empty());
    assert!(interlock.dump().owners.is_empty(), "{}", interlock.dump());
}

#[test]
fn a_failure_at_the_end_of_a_task_is_returned() {
    let failing = Executor::builder().to_complete(|| Err(OnPurpose.into())).build();
    let execution = block_on(failing.run_async()).expect("it runs");
    assert_eq!(failed(block_on(execution.complete_async())).first().stage(), Stage::Complete);
}

/// For a layer: the body is not a closure, and its failure passes by.
#[test]
fn a_noted_failure_is_reported_at_the_end_as_the_bodys() {
    let log = Log::default();
    let executor = reporting(&log).hook(log.hook("a")).build();
    let mut execution = block_on(executor.run_async()).expect("it runs");
    execution.within(|execution| {
        execution.fail(OnPurpose);
        let mut nested = block_on(executor.run_async()).expect("it runs");
        nested.fail("the outer execution has it");
    });
    let error = failed(block_on(execution.complete_async()));
    assert_eq!((error.first().stage(), error.failures().len()), (Stage::Body, 1));
    assert_eq!(log.take(), ["run a", "complete a", "report: on purpose"]);
}

#[test]
fn a_panicking_future_is_completed_reported_once_and_goes_on() {
    let log = Log::default();
    let executor = reporting(&log).hook(log.hook("a")).build();
    let panic = catch_unwind(AssertUnwindSafe(|| {
        block_on(executor.wrap_async(async |_| -> Result<(), BoxError> { panic!("on purpose") }))
    }));
    assert!(panic.is_err());
    let reported = "report: it panicked: on purpose";
    assert_eq!(log.take(), ["run a", "complete a", reported]);
}

/// Runtimes move tasks between threads.
#[test]
fn the_futures_are_send() {
    fn send<T: Send>(value: T) -> T {
        value
    }
    let executor = Executor::builder().interlock(Interlock::new()).build();
    let reloader = cabrank::Reloader::builder(executor.clone()).build().expect("valid");
    let shared = Arc::new(Mutex::new(()));
    let body = async |_: &mut Execution<'_>| {
        yield_once().await;
        drop(shared.lock());
        Ok(())
    };
    block_on(send(executor.wrap_async(body))).expect("it runs");
    let execution = block_on(send(executor.run_async())).expect("it runs");
    block_on(send(send(execution).complete_async())).expect("it completes");
    let execution = block_on(send(reloader.run_async())).expect("it runs");
    block_on(send(execution.complete_async())).expect("it completes");
}
