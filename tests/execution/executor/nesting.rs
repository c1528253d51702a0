//! Nested executions of several executors under one interlock. Each has a share.

use crate::common::before_long;
use crate::common::log::{Log, failed};
use crate::common::task::{Task, block_on};
use crate::interlock::actor::count;
use crate::polling::{poll, yield_once};
use cabrank::execution::interlock::OwnerState::{self, Loading};
use cabrank::execution::interlock::{AcquireError, Loaded};
use cabrank::execution::{BoxError, Execution, ExecutionError, Executor, Interlock, Stage};
use std::future::pending;
use std::pin::pin;
use std::sync::mpsc::channel;
use std::thread;

fn executors(interlock: &Interlock) -> [Executor; 2] {
    [(); 2].map(|()| Executor::builder().interlock(interlock.clone()).build())
}
#[track_caller]
fn refused<T>(result: Result<T, ExecutionError>) {
    let error = failed(result);
    assert_eq!(error.stage(), Stage::Enter);
    assert!(matches!(error.cause().downcast_ref(), Some(AcquireError::Nested)), "{error}");
}
/// The inner execution sees loaded values, and leaves loading to the outer one.
#[test]
fn an_inner_execution_has_a_share_that_it_does_not_load_by() {
    let (interlock, word) = (Interlock::new(), Loaded::new());
    interlock.load(|loading| word.set("loaded", loading)).expect("no other owner runs");
    let [outer, inner] = executors(&interlock);
    let ended = outer.wrap(|_| {
        let seen = inner.wrap(|execution| {
            assert!(execution.running().is_none());
            let seen = interlock.run(|r| {
                assert!(matches!(r.load(|_| ()), Err(AcquireError::Nested)));
                *word.get(r).expect("it has a share")
            });
            Ok(seen)
        })?;
        Ok(seen)
    });
    assert_eq!(ended.expect("it runs"), "loaded");
    // The outer execution has its share again.
    let loads = outer.wrap(|execution| {
        inner.wrap(|_| Ok(()))?;
        Ok(execution.running().expect("there is an interlock").load(|_| ())?)
    });
    loads.expect("it loads");
}

/// Beside a permit block of the same task, the inner execution is a child's, and waits for the holder, whichever
/// executor it uses. Regression: it ran beside the holder.
#[test]
fn beside_a_permit_block_an_inner_execution_waits_for_the_holder() {
    for same in [false, true] {
        let interlock = Interlock::new();
        let [outer, other] = executors(&interlock);
        let inner = if same { outer.clone() } else { other };
        let (release, wait) = channel::<()>();
        let loader = interlock.clone();
        let loads = move || loader.run(|r| r.load(|_| wait.recv()).map(drop));
        let (theirs, log) = (interlock.clone(), Log::default());
        let noted = log.clone();
        let thread = thread::spawn(move || {
            outer.wrap(|execution| {
                let running = execution.running().expect("there is an interlock");
                let mut permits = pin!(running.permit_loads_async(pending::<()>()));
                assert!(poll(permits.as_mut()).is_pending());
                let loads = thread::spawn(loads);
                before_long(|| count(&theirs, Loading) == 1);
                inner.wrap(|_| noted.noted(format!("{} load", count(&theirs, Loading))))?;
                Ok(loads)
            })
        });
        // A child waits for the holder.
        before_long(|| count(&interlock, OwnerState::Entering) == 1 || log.has("1 load", 1));
        release.send(()).expect("the receiver waits");
        let loads = thread.join().expect("no panic").expect("it runs");
        loads.join().expect("no panic").expect("no deadlock");
        assert_eq!(log.take(), ["0 load"]);
    }
}

/// A wait there would wait for a load that its own thread must continue.
#[test]
fn beside_a_load_of_the_same_task_an_inner_execution_does_not_wait() {
    let interlock = Interlock::new();
    let [outer, inner] = executors(&interlock);
    let sharer = interlock.enter();
    let ended = outer.wrap(|execution| {
        let running = execution.running().expect("there is an interlock");
        let mut load = pin!(running.load_async());
        assert!(poll(load.as_mut()).is_pending());
        // No owner holds, so it need not wait.
        let shared = inner.wrap(|_| Ok(interlock.try_run(|r| r.has_share())?))?;
        assert!(shared);
        // From here on the load is granted.
        drop(sharer);
        refused(inner.wrap(|_| Ok(())));
        refused(outer.wrap(|_| Ok(())));
        refused(inner.run().map(drop));
        refused(block_on(inner.wrap_async(async |_| Ok(()))));
        assert!(matches!(interlock.try_run(|_| ()), Err(AcquireError::Nested)));
        Ok(())
    });
    ended.expect("it runs");
}

/// Regression: a future that began inside an execution and was polled or dropped outside had no share.
#[test]
fn a_future_that_is_taken_out_of_the_execution_around_it_goes_on_with_a_share_of_its_own() {
    for same in [false, true] {
        let interlock = Interlock::new();
        let [outer, other] = executors(&interlock);
        let inner = if same { outer.clone() } else { other };
        let theirs = interlock.clone();
        let mut task = Task::new(async move {
            let body = async |_: &mut Execution| {
                let before = theirs.generation();
                yield_once().await;
                yield_once().await;
                Ok((before, theirs.generation()))
            };
            inner.wrap_async(body).await
        });
        assert!(outer.wrap(|_| Ok(task.poll().is_none())).expect("it runs"));
        let unloads = {
            let interlock = interlock.clone();
            thread::spawn(move || interlock.unload(|_| ()))
        };
        before_long(|| count(&interlock, OwnerState::WaitingToUnload) == 1);
        assert!(task.poll().is_none());
        let (before, after) = task.poll().expect("it is at its end").expect("it succeeds");
        assert_eq!(before, after, "it runs on one world");
        unloads.join().expect("no panic").expect("no deadlock");
        assert_eq!(interlock.generation(), 1);
    }
}

/// The shares of the outer and the inner execution end independently.
#[test]
fn a_dropped_inner_future_completes_under_its_share() {
    let (interlock, log) = (Interlock::new(), Log::default());
    let [outer, _] = executors(&interlock);
    let inner = Executor::builder().interlock(interlock.clone()).hook(log.hook("inner")).build();
    let mut task = Task::new(async move {
        inner.wrap_async(async |_| pending::<Result<(), BoxError>>().await).await
    });
    assert!(outer.wrap(|_| Ok(task.poll().is_none())).expect("it runs"));
    let unloads = {
        let (interlock, log) = (interlock.clone(), log.clone());
        thread::spawn(move || interlock.unload(|_| log.note("unload")))
    };
    before_long(|| count(&interlock, OwnerState::WaitingToUnload) == 1);
    drop(task);
    unloads.join().expect("no panic").expect("no deadlock");
    assert_eq!(log.take(), ["run inner", "complete inner", "unload"]);
}

/// An end inside a section of the same thread is part of that section; one that may not happen there is refused.
#[test]
fn in_a_section_a_childs_wrap_is_a_part_of_it() {
    let interlock = Interlock::new();
    let [executor, _] = executors(&interlock);
    let execution = executor.run().expect("it runs");
    let children = [(); 4].map(|()| execution.child());
    execution.complete().expect("it completes");
    let [wraps, runs, wraps_async, runs_async] = children;
    let loaded = interlock.run(|r| {
        r.load(|_| {
            let nested = wraps.wrap(|_| Ok(executor.wrap(|_| Ok("in the section"))?));
            assert_eq!(nested.expect("it runs"), "in the section");
            refused(runs.run().map(drop));
            refused(executor.run().map(drop));
            refused(block_on(wraps_async.wrap_async(async |_| Ok(()))));
            refused(block_on(runs_async.run_async()).map(drop));
            refused(block_on(executor.wrap_async(async |_| Ok(()))));
        })
    });
    loaded.expect("no deadlock");
    assert!(interlock.dump().owners.is_empty(), "{}", interlock.dump());
}
