//! Executions as futures: polled on any thread, and dropped at any await.

use crate::common::log::{Log, OnPurpose, failed, reporting};
use crate::common::task::{Task, block_on};
use crate::common::{Door, before_long, soon};
use crate::polling::yield_once;
use cabrank::execution::interlock::OwnerState;
use cabrank::execution::{BoxError, Execution, Executor, Interlock};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

#[test]
fn a_future_is_wrapped_and_its_executor_active_whenever_it_is_polled() {
    let log = Log::default();
    let executor = reporting(&log).hook(log.hook("a")).build();
    let (theirs, noted) = (executor.clone(), log.clone());
    let mut task = Task::new(async move {
        let nested = theirs.clone();
        let body = async |_: &mut Execution| {
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
    let error = std::thread::spawn(move || task.finish()).join().expect("no panic");
    assert_eq!(error, "the body failed: on purpose");
    assert_eq!(log.take(), ["nested", "complete a", "Error of cabrank: on purpose"]);
}

#[test]
fn a_dropped_future_drops_its_body_and_then_completes() {
    struct Noted(Log);
    impl Drop for Noted {
        fn drop(&mut self) {
            self.0.note("body dropped");
        }
    }
    let log = Log::default();
    let executor = Executor::builder().hook(log.hook("a")).build();
    let noted = log.clone();
    let mut task = Task::new(async move {
        let body = async |_: &mut Execution| {
            let _noted = Noted(noted.clone());
            std::future::pending::<Result<(), BoxError>>().await
        };
        executor.wrap_async(body).await
    });
    assert!(task.poll().is_none());
    drop(task);
    assert_eq!(log.take(), ["run a", "body dropped", "complete a"]);
}

/// Regression: values of the body were dropped outside its execution. A wrap in such a drop did not nest, and
/// waited for ever behind an unload that waited for the execution.
#[test]
fn a_dropped_body_is_dropped_inside_its_execution() {
    struct Wraps(Executor, Arc<Mutex<Vec<bool>>>);
    impl Drop for Wraps {
        fn drop(&mut self) {
            let active = self.0.is_active();
            self.0.wrap(|_| Ok(())).expect("it is nested");
            self.1.lock().expect("no panic").push(active);
        }
    }
    let interlock = Interlock::new();
    let executor = Executor::builder().interlock(interlock.clone()).build();
    let (theirs, active) = (executor.clone(), Arc::new(Mutex::new(Vec::new())));
    let seen = active.clone();
    let mut task = Task::new(async move {
        let body = async |_: &mut Execution| {
            let _wraps = Wraps(theirs.clone(), seen.clone());
            std::future::pending::<Result<(), BoxError>>().await
        };
        theirs.wrap_async(body).await
    });
    assert!(task.poll().is_none());
    let unloads = {
        let interlock = interlock.clone();
        std::thread::spawn(move || interlock.unload(|_| ()))
    };
    before_long(|| interlock.dump().owners.len() == 2);
    soon(move || drop(task));
    assert_eq!(*active.lock().expect("no panic"), [true]);
    unloads.join().expect("no panic").expect("no deadlock");
}

/// PROP-ILK-USE-UNDER-SHARE. Regression: the hooks of a future that was dropped while it waited to load ran beside
/// the holder. They now run at the end of that load, and the drop does not wait.
#[test]
fn a_future_dropped_beside_a_holder_is_completed_when_it_has_its_share_again() {
    let (log, interlock) = (Log::default(), Interlock::new());
    let executor = reporting(&log)
        .interlock(interlock.clone())
        .hook(log.hook("a"))
        .to_complete(|| Err(OnPurpose.into()))
        .build();
    let mut sharer = interlock.enter();
    let theirs = executor.clone();
    let mut task = Task::new(async move {
        let body = async |execution: &mut Execution| {
            let running = execution.running().expect("there is an interlock");
            running.load_async().await?.finish().await;
            Ok(())
        };
        theirs.wrap_async(body).await
    });
    assert!(task.poll().is_none());
    let loading = block_on(sharer.load_async()).expect("no other owner has a share");
    drop(task);
    assert_eq!(log.take(), ["run a"]);
    assert_eq!(interlock.dump().owners.len(), 2);
    drop(loading);
    assert_eq!(log.take(), ["complete a", "handled Warning of cabrank: on purpose"]);
    assert_eq!(interlock.dump().owners.len(), 1);
    sharer.unload(|_| ()).expect("no other owner is left");
}

/// The same for a body that gives up its load while another owner holds, and then ends. A thread and a task each
/// wait for the share.
#[test]
fn a_body_that_has_given_up_a_load_is_completed_when_it_has_its_share_again() {
    let (log, interlock) = (Log::default(), Interlock::new());
    let executor = Executor::builder().interlock(interlock.clone()).hook(log.hook("a")).build();
    let (mut sharer, holds) = (interlock.enter(), Door::default());
    let theirs = (interlock.clone(), holds.clone());
    let body = move |execution: &mut Execution| {
        let running = execution.running().expect("there is an interlock");
        let mut load = Box::pin(running.load_async());
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(load.as_mut().poll(&mut cx).is_pending());
        // From here on the sharer holds, and the share is given up.
        theirs.1.pass();
        before_long(|| theirs.0.dump().owners.iter().any(|o| o.state == OwnerState::Loading));
        Ok(())
    };
    let (first, second) = (executor.clone(), body.clone());
    let bodies: [Box<dyn FnOnce() + Send>; 2] = [
        Box::new(move || first.wrap(body).expect("it ends")),
        Box::new(move || {
            block_on(executor.wrap_async(async |e| second(e))).expect("it ends");
        }),
    ];
    for (n, ends) in bodies.into_iter().enumerate() {
        let ends = std::thread::spawn(ends);
        holds.await_arrivals(n + 1);
        let loaded = sharer.load(|_| {
            holds.open();
            before_long(|| interlock.dump().owners.iter().any(|o| o.state == OwnerState::Resuming));
            assert_eq!(log.take(), ["run a"], "it is not completed beside a load");
        });
        loaded.expect("no deadlock");
        ends.join().expect("no panic");
        assert_eq!(log.take(), ["complete a"]);
    }
}

/// Under one interlock, futures nest as threads do. An inner execution of its own would wait for the outer one for
/// ever.
#[test]
fn futures_of_executors_that_share_an_interlock_nest() {
    let interlock = Interlock::new();
    let outer = Executor::builder().interlock(interlock.clone()).build();
    let inner = Executor::builder().interlock(interlock.clone()).build();
    let shares = block_on(outer.wrap_async(async |_| {
        Ok(inner.wrap_async(async |execution| Ok(execution.running().is_none())).await?)
    }));
    assert!(shares.expect("it ends"));
    assert!(interlock.dump().owners.is_empty());
}

#[test]
fn a_panicking_future_is_completed_reported_once_and_goes_on() {
    let log = Log::default();
    let executor = reporting(&log).hook(log.hook("a")).build();
    let panic = catch_unwind(AssertUnwindSafe(|| {
        block_on(executor.wrap_async(async |_| -> Result<(), BoxError> { panic!("on purpose") }))
    }));
    assert!(panic.is_err());
    let reported = "Error of cabrank: it panicked: on purpose";
    assert_eq!(log.take(), ["run a", "complete a", reported]);
}
