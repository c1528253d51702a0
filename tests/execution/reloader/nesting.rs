//! Nested executions and children.

use crate::common::log::{Log, failed};
use crate::common::{before_long, soon};
use crate::reloader::noting::{ENDS, RELOAD, noting, once};
use cabrank::execution::{Executor, Interlock, ReloadRefused, Reloader};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::thread;

#[test]
fn a_reload_inside_an_execution_is_refused_and_left_to_the_next() {
    let (log, changed) = (Log::default(), Arc::new(AtomicBool::new(false)));
    let reloader = noting(&log).check(once(&changed)).build().expect("valid");
    let executor = reloader.executor();
    let refused = |result| {
        let error = failed::<()>(result);
        error.into_cause().downcast_ref() == Some(&ReloadRefused::InsideExecution)
    };
    executor
        .wrap(|_| {
            // No change, so no refusal.
            reloader.wrap(|_| log.noted("nested"))?;
            changed.store(true, SeqCst);
            assert!(refused(reloader.wrap(|_| log.noted("never"))));
            assert!(refused(reloader.run().map(drop)));
            assert!(refused(reloader.reload_now()));
            Ok(())
        })
        .expect("it succeeds");
    assert_eq!(log.take(), ["executor run", "nested", "executor complete"]);
    reloader.wrap(|_| log.noted("body")).expect("it succeeds");
    assert_eq!(log.take(), [&RELOAD[..], &["body"], &ENDS[..]].concat());
}

#[test]
fn a_reload_in_a_child_is_refused() {
    let (log, changed) = (Log::default(), Arc::new(AtomicBool::new(false)));
    let reloader = noting(&log).check(once(&changed)).build().expect("valid");
    let theirs = reloader.clone();
    soon(move || {
        let outer = theirs.clone();
        outer.wrap(|execution| {
            changed.store(true, SeqCst);
            let child = execution.child();
            let reloads = move || child.wrap(|_| Ok(theirs.wrap(|_| Ok(()))?));
            let error = failed(thread::spawn(reloads).join().expect("no panic"));
            let inner = error.into_cause();
            assert!(inner.to_string().contains("no reload inside an execution"), "{inner}");
            Ok(())
        })
    })
    .expect("it succeeds");
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

/// A parent waits for its child with a reload queued: guard C of the interlock.
#[test]
fn a_child_is_let_in_although_a_reload_waits_for_its_parent() {
    let (log, changed) = (Log::default(), Arc::new(AtomicBool::new(false)));
    let interlock = Interlock::new();
    let executor = Executor::builder().interlock(interlock.clone()).build();
    let unload = log.noting("unload");
    let reloader = Reloader::builder(executor)
        .check(once(&changed))
        .unload(move |_| unload())
        .build()
        .expect("valid");
    let (theirs, noted) = (reloader.clone(), log.clone());
    soon(move || {
        let (send, reloading) = channel();
        let parent = reloader.executor().wrap(|execution| {
            let child = execution.child();
            changed.store(true, SeqCst);
            let _ = send.send(thread::spawn(move || theirs.wrap(|_| Ok(()))));
            before_long(|| interlock.dump().to_string().contains("unload"));
            let nested = reloader.executor().wrap(|nested| Ok(nested.child()))?;
            for child in [child, nested] {
                let noted = noted.clone();
                let thread = thread::spawn(move || child.wrap(|_| noted.noted("child")));
                thread.join().expect("no panic")?;
            }
            Ok(())
        });
        parent.expect("it succeeds");
        let waiting = reloading.recv().expect("it was sent");
        waiting.join().expect("no panic").expect("it succeeds");
    });
    assert_eq!(log.take(), ["child", "child", "unload"]);
}

/// An owner may swap its share for one of another interlock. Regression: it then reloaded beside running
/// executions.
#[test]
fn an_execution_whose_share_was_swapped_does_not_reload() {
    let (log, other) = (Log::default(), Interlock::new());
    let reloader = noting(&log).always().build().expect("valid");
    let mut execution = reloader.run().expect("it runs");
    drop(std::mem::replace(execution.running().expect("a share"), other.enter()));
    let error = failed(execution.complete());
    assert_eq!(error.into_cause().downcast_ref(), Some(&ReloadRefused::InsideExecution));
    assert!(!log.has("unload", 1));
}
