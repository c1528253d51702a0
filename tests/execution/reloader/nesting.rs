//! Reloaders inside executions.

use crate::common::log::{Log, failed};
use crate::common::task::Task;
use crate::common::{before_long, soon};
use crate::reloader::noting::{ENDS, RELOAD, noting, once};
use cabrank::execution::interlock::{AcquireError, Running};
use cabrank::execution::{ExecutionError, Executor, Interlock, Refused, Reloader};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;

fn is_inside(error: &ExecutionError) -> bool {
    matches!(error.first().cause().downcast_ref(), Some(Refused::InsideExecution))
}

#[test]
fn a_reload_inside_an_execution_is_refused_and_left_to_the_next() {
    let (log, changed) = (Log::default(), Arc::new(AtomicBool::new(false)));
    let reloader = noting(&log).check(once(&changed)).build().expect("valid");
    let executor = reloader.executor();
    let refused = |result| is_inside(&failed::<()>(result));
    executor
        .wrap(|_| {
            // No change, so no refusal.
            reloader.wrap(|_| log.noted("nested"))?;
            changed.store(true, SeqCst);
            assert!(refused(reloader.wrap(|_| log.noted("never"))));
            assert!(refused(reloader.run().map(drop)));
            Ok(())
        })
        .expect("it succeeds");
    assert_eq!(log.take(), ["executor run", "nested", "executor complete"]);
    reloader.wrap(|_| log.noted("body")).expect("it succeeds");
    assert_eq!(log.take(), [&RELOAD[..], &["body"], &ENDS[..]].concat());
}

/// Regression: the body ran, and its value was lost when the reload after it was refused.
#[test]
fn a_reload_after_the_body_is_refused_before_the_body_inside_another_execution() {
    let log = Log::default();
    let interlock = Interlock::new();
    let outer = Executor::builder().interlock(interlock.clone()).build();
    let inner = Executor::builder().interlock(interlock).build();
    let reloader = Reloader::builder(inner).always().build().expect("valid");
    let nested = outer.wrap(|_| Ok(failed::<()>(reloader.wrap(|_| log.noted("never")))));
    let refused = nested.expect("the outer execution succeeds");
    assert!(is_inside(&refused), "{refused}");
    assert_eq!(log.take(), [""; 0]);
    reloader.wrap(|_| log.noted("body")).expect("it is outermost");
}

/// A nested execution of the same reloader does not check again, whatever has changed.
#[test]
fn inside_its_own_execution_a_reloader_only_calls_the_body() {
    for always in [false, true] {
        let log = Log::default();
        let builder = noting(&log).check(|| true);
        let builder = if always { builder.always() } else { builder };
        let reloader = builder.build().expect("valid");
        reloader.wrap(|_| Ok(reloader.wrap(|_| log.noted("body"))?)).expect("it succeeds");
        let unloads = log.take().iter().filter(|what| *what == "unload").count();
        assert_eq!(unloads, 1);
    }
}

/// Two executors over one interlock: the inner execution has the outer share, so a waiting reload does not come
/// between them.
#[test]
fn executors_that_share_an_interlock_nest_although_a_reload_waits() {
    let (log, changed) = (Log::default(), Arc::new(AtomicBool::new(false)));
    let interlock = Interlock::new();
    let one = Executor::builder().interlock(interlock.clone()).build();
    let two = Executor::builder().interlock(interlock.clone()).hook(log.hook("two")).build();
    let unload = log.noting("unload");
    let reloader = Reloader::builder(one)
        .check(once(&changed))
        .unload(move |_| unload())
        .build()
        .expect("valid");
    let theirs = reloader.clone();
    soon(move || {
        let executor = reloader.executor();
        executor
            .wrap(|_| {
                changed.store(true, SeqCst);
                let waits = thread::spawn(move || theirs.wrap(|_| Ok(())));
                before_long(|| interlock.dump().to_string().contains("unload"));
                two.wrap(|_| Ok(()))?;
                drop(two.run()?);
                Ok(waits)
            })
            .expect("it succeeds")
            .join()
            .expect("no panic")
            .expect("it succeeds");
    });
    let order = ["run two", "complete two", "run two", "complete two", "unload"];
    assert_eq!(log.take(), order);
}

/// An owner may swap its share for one of another interlock. Regression: it then reloaded beside running
/// executions.
#[test]
fn an_execution_whose_share_was_swapped_does_not_reload() {
    let (log, other) = (Log::default(), Interlock::new());
    let reloader = noting(&log).always().build().expect("valid");
    let mut execution = reloader.run().expect("it runs");
    let mut other = Executor::builder().interlock(other).build().run().expect("no owner runs");
    std::mem::swap(execution.running().expect("a share"), other.running().expect("a share"));
    let error = failed(execution.complete());
    assert!(is_inside(&error), "{error}");
    assert!(!log.has("unload", 1));
}

/// In a permit block, a reload would wait for the end of that block.
#[test]
fn in_a_permit_block_a_reload_is_refused() {
    let (log, changed) = (Log::default(), Arc::new(AtomicBool::new(false)));
    let interlock = Interlock::new();
    let [outer, inner] = [(); 2].map(|()| Executor::builder().interlock(interlock.clone()).build());
    let unload = log.noting("unload");
    let reloader = Reloader::builder(inner.clone())
        .check(once(&changed))
        .unload(move |_| unload())
        .build()
        .expect("valid");
    for executor in [outer, inner] {
        changed.store(true, SeqCst);
        let refused = executor.wrap(|execution| {
            let running = execution.running().ok_or("no interlock")?;
            Ok(running.permit_loads(|| failed(reloader.wrap(|_| log.noted("never"))))?)
        });
        let error = refused.expect("it runs");
        assert!(is_inside(&error), "{error}");
        assert!(log.take().is_empty());
        reloader.wrap(|_| log.noted("body")).expect("it reloads");
        assert_eq!(log.take(), ["unload", "body"]);
    }
}

/// An execution that begins in the block is its part, also where another thread goes on with it.
#[test]
fn an_execution_that_began_in_a_permit_block_is_refused_its_reload_elsewhere() {
    fn poll_elsewhere<T: Send>(task: &mut Task<T>) -> Option<T> {
        thread::scope(|scope| scope.spawn(|| task.poll()).join().expect("no panic"))
    }
    let interlock = Interlock::new();
    let executor = Executor::builder().interlock(interlock.clone()).build();
    let reloader = Reloader::builder(executor).check(|| true).build().expect("valid");
    let theirs = interlock.clone();
    let mut loads = Task::new(async move {
        let body = async |running: &mut Running<'_>| {
            running.load_async(async |_| std::future::pending::<()>().await).await
        };
        theirs.run_async(body).await.map(drop)
    });
    let ended = interlock.run(|running| {
        running.permit_loads(|| {
            assert!(poll_elsewhere(&mut loads).is_none());
            let mut waits = Task::new(async move { reloader.wrap_async(async |_| Ok(())).await });
            assert!(waits.poll().is_none(), "it waits for the load");
            drop(loads);
            poll_elsewhere(&mut waits)
        })
    });
    let ended = ended.expect("it is alone").expect("the load has ended");
    let error = failed(ended.expect("it does not wait for the block"));
    let cause = error.first().cause().downcast_ref();
    assert!(matches!(cause, Some(AcquireError::Deadlock(_))), "{error}");
}
