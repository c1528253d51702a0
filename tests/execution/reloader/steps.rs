//! The operations that the steps of a reload may use.

use crate::common::log::Log;
use crate::common::soon;
use crate::common::task::{Task, block_on};
use cabrank::execution::interlock::Loaded;
use cabrank::execution::{Execution, Executor, Interlock, Reloader};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// A step runs in the reloading execution, whichever thread polls it.
#[test]
fn an_unload_step_may_use_the_interlock_and_the_executor() {
    let (interlock, own) = (Interlock::new(), Arc::new(std::sync::OnceLock::<Reloader>::new()));
    let (inner, theirs, log) = (interlock.clone(), own.clone(), Log::default());
    let noted = log.clone();
    let builder = Reloader::builder(Executor::builder().interlock(interlock).build());
    let reloader = builder
        .check(|| true)
        .unload(move |_| {
            inner.run(|_| noted.note("a share"))?;
            let reloader = theirs.get().ok_or("not set")?;
            reloader.executor().wrap(|_| noted.noted("an execution"))?;
            reloader.wrap(|_| noted.noted("another"))?;
            Ok(())
        })
        .build()
        .expect("valid");
    own.set(reloader.clone()).expect("set once");
    let expected = ["a share", "an execution", "another"];
    let theirs = reloader.clone();
    soon(move || theirs.wrap(|_| Ok(()))).expect("it succeeds");
    assert_eq!(log.take(), expected);
    soon(move || block_on(reloader.wrap_async(async |_| Ok(())))).expect("it succeeds");
    assert_eq!(log.take(), expected);
}

/// A prepare step loads, and executions find the value, in both modes and at the start of the program.
#[test]
fn a_prepare_step_may_load() {
    for always in [false, true] {
        let (settings, extra) = (Arc::new(Loaded::new()), Arc::new(Loaded::new()));
        let prepares = Arc::new(AtomicUsize::new(0));
        let executor = Executor::builder().interlock(Interlock::new()).build();
        let (former, prepared, after) = (settings.clone(), settings.clone(), extra.clone());
        let count = prepares.clone();
        let builder = Reloader::builder(executor)
            .unload(move |unloading| {
                former.clear(unloading);
                Ok(())
            })
            .after_unload(move |unloading| {
                unloading.load(|loading| after.set("after", loading));
                Ok(())
            })
            .to_prepare(move |loading| {
                let number = count.fetch_add(1, SeqCst);
                prepared.set(number, loading);
                Ok(())
            });
        let builder = if always { builder.always() } else { builder.check(|| true) };
        let reloader = builder.build().expect("valid");
        let seen = |execution: &mut Execution<'_>| {
            let running = execution.running().expect("a share");
            Ok((settings.get(running).map(|n| *n), extra.get(running).map(|text| *text)))
        };
        reloader.prepare().expect("it loads");
        assert_eq!(reloader.executor().wrap(seen).expect("it runs"), (Some(0), None));
        // In this mode the code is prepared beside other executions, and unloaded only after the body.
        let extra = (!always).then_some("after");
        assert_eq!(reloader.wrap(seen).expect("it runs"), (Some(1), extra));
        assert_eq!(reloader.wrap(seen).expect("it runs"), (Some(2), Some("after")));
        let task = reloader.wrap_async(async |execution: &mut Execution<'_>| seen(execution));
        assert_eq!(block_on(task).expect("it runs"), (Some(3), Some("after")));
    }
}

/// A preparing task waits for the others without blocking its thread.
#[test]
fn a_task_that_prepares_does_not_block_its_thread() {
    let (settings, calls) = (Arc::new(Loaded::new()), Arc::new(AtomicUsize::new(0)));
    let executor = Executor::builder().interlock(Interlock::new()).build();
    let (prepared, count) = (settings.clone(), calls.clone());
    let reloader = Reloader::builder(executor.clone())
        .always()
        .to_prepare(move |loading| {
            let number = count.fetch_add(1, SeqCst);
            prepared.set(number, loading);
            Ok(())
        })
        .build()
        .expect("valid");
    let other = block_on(executor.run_async()).expect("it runs");
    let seen = settings.clone();
    let mut task = Task::new(async move {
        let body = async |execution: &mut Execution<'_>| {
            let running = execution.running().expect("a share");
            Ok(seen.get(running).map(|number| *number))
        };
        reloader.wrap_async(body).await
    });
    task = soon(move || {
        assert!(task.poll().is_none());
        task
    });
    assert_eq!((calls.load(SeqCst), task.wakes()), (0, 0));
    other.complete().expect("it completes");
    assert_eq!(task.finish().expect("it runs"), Some(0));
}

/// The nested preparation is a view of the execution around it, which loads.
#[test]
fn a_preparation_inside_an_execution_loads() {
    let settings = Arc::new(Loaded::new());
    let prepared = settings.clone();
    let executor = Executor::builder().interlock(Interlock::new()).build();
    let reloader = Reloader::builder(executor)
        .to_prepare(move |loading| {
            prepared.set("loaded", loading);
            Ok(())
        })
        .build()
        .expect("valid");
    let seen = reloader.executor().wrap(|execution| {
        reloader.prepare()?;
        let running = execution.running().ok_or("no interlock")?;
        Ok(settings.get(running).map(|text| *text))
    });
    assert_eq!(seen.expect("it runs"), Some("loaded"));
}

/// A disabled reloader needs no interlock, and prepares all the same.
#[test]
fn a_disabled_reloader_prepares_without_an_interlock() {
    let prepared = Arc::new(AtomicUsize::new(0));
    let count = prepared.clone();
    let reloader = Reloader::builder(Executor::builder().build())
        .enabled(false)
        .to_prepare(move |loading| {
            count.fetch_add(1, SeqCst);
            Loaded::new().set("a value", loading);
            Ok(())
        })
        .build()
        .expect("valid");
    reloader.prepare().expect("it prepares");
    assert_eq!(prepared.load(SeqCst), 1);
}
