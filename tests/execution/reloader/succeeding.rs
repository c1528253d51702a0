//! Successive reloaders of one interlock, and executions that a task begins and ends.

use crate::common::log::{Log, failed};
use crate::common::task::{Task, block_on};
use crate::reloader::noting::{noting, once};
use cabrank::execution::{
    Executor, HalfReloaded, Interlock, ReloadRefused, Reloader, ReloaderError, Stage,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

fn is_half_reloaded<T>(result: Result<T, cabrank::execution::ExecutionError>) -> bool {
    let error = failed(result);
    error.stage() == Stage::Enter && error.cause().is::<HalfReloaded>()
}

/// Regression: the first reloader's exclusive right was never given back, so no execution could run again.
#[test]
fn the_next_reloader_reloads_a_half_reloaded_world() {
    let (log, interlock) = (Log::default(), Interlock::new());
    let executor = Executor::builder().interlock(interlock.clone()).build();
    let fails = Reloader::builder(executor.clone()).to_prepare(|_| Err("on purpose".into()));
    let reloader = fails.build().expect("the first");
    let clone = reloader.clone();
    assert_eq!(failed(reloader.reload_now()).stage(), Stage::Prepare);
    drop(reloader);
    let another = || Reloader::builder(executor.clone()).build();
    assert_eq!(another().expect_err("there is a clone"), ReloaderError::SecondReloader);
    drop(clone);
    let unload = log.noting("unload");
    let next = Reloader::builder(executor.clone()).unload(move |_| unload()).build();
    let next = next.expect("there is no such owner");
    assert!(is_half_reloaded(executor.wrap(|_| Ok(()))));
    next.wrap(|_| log.noted("body")).expect("it reloads first");
    executor.wrap(|_| Ok(())).expect("it is whole");
    assert_eq!(log.take(), ["unload", "body"]);
}

/// An execution belongs to its reloader until its end.
#[test]
fn the_next_reloader_makes_an_owed_reload() {
    let log = Log::default();
    let reloader = noting(&log).always().build().expect("the first");
    let executor = reloader.executor().clone();
    let execution = reloader.run().expect("it runs");
    drop(reloader);
    let another = || Reloader::builder(executor.clone()).unload(log_unload(&log)).build();
    assert_eq!(another().expect_err("an execution"), ReloaderError::SecondReloader);
    drop(execution);
    log.take();
    let next = another().expect("there is no such owner");
    next.wrap(|_| log.noted("body")).expect("it runs");
    next.wrap(|_| log.noted("body")).expect("it runs");
    let order = ["executor run", "unload", "body", "executor complete", "executor run", "body"];
    assert_eq!(log.take()[..6], order);
}
fn log_unload(
    log: &Log,
) -> impl Fn(
    &mut cabrank::execution::interlock::Unloading<'_>,
) -> Result<(), cabrank::execution::BoxError>
+ Send
+ Sync
+ 'static {
    let unload = log.noting("unload");
    move |_| unload()
}

/// Only the reload runs on a half reloaded world: no execution that a load calls, and no disabled reloader.
#[test]
fn only_the_reload_runs_on_a_half_reloaded_world() {
    let (interlock, broken) = (Interlock::new(), Arc::new(AtomicBool::new(true)));
    let executor = Executor::builder().interlock(interlock.clone()).build();
    let other = Executor::builder().interlock(interlock.clone()).build();
    let (fails, inside) = (broken.clone(), other.clone());
    let prepare = move || {
        // A reload may call what it needs, at any depth.
        let nested = inside.clone();
        inside.wrap(|_| Ok(nested.wrap(|_| Ok(()))?))?;
        if fails.load(SeqCst) { Err("on purpose".into()) } else { Ok(()) }
    };
    let reloader = Reloader::builder(executor.clone()).to_prepare(move |_| prepare()).build();
    let reloader = reloader.expect("valid");
    let disabled = Reloader::builder(other.clone()).enabled(false).build().expect("valid");
    failed(reloader.reload_now());
    interlock
        .run(|r| {
            r.load(|_| {
                assert!(is_half_reloaded(executor.wrap(|_| Ok(()))));
                assert!(is_half_reloaded(disabled.wrap(|_| Ok(()))));
            })
        })
        .expect("no deadlock");
    assert!(is_half_reloaded(other.wrap(|_| Ok(()))));
    assert!(is_half_reloaded(disabled.wrap(|_| Ok(()))));
    assert!(is_half_reloaded(disabled.prepare()));
    assert!(is_half_reloaded(reloader.prepare()));
    broken.store(false, SeqCst);
    reloader.reload_now().expect("it succeeds");
    other.wrap(|_| Ok(())).expect("it is whole");
}

/// A task that unloads at its end waits without blocking. If it is dropped, the next one unloads.
#[test]
fn a_task_unloads_at_the_end_or_leaves_it_to_the_next() {
    for dropped in [false, true] {
        let log = Log::default();
        let (interlock, unload) = (Interlock::new(), log.noting("unload"));
        let executor = Executor::builder().interlock(interlock.clone()).hook(log.hook("a")).build();
        let builder = Reloader::builder(executor).always().unload(move |_| unload());
        let reloader = builder.build().expect("valid");
        let execution = block_on(reloader.run_async()).expect("it runs");
        let share = interlock.enter();
        let mut completes = Task::new(execution.complete_async());
        assert!(completes.poll().is_none());
        assert_eq!(log.take(), ["run a"]);
        if dropped {
            drop(completes);
            assert_eq!(log.take(), ["complete a"]);
            drop(share);
            reloader.wrap(|_| log.noted("body")).expect("it runs");
            assert_eq!(log.take(), ["run a", "unload", "body", "unload", "complete a"]);
        } else {
            drop(share);
            completes.finish().expect("it completes");
            assert_eq!(log.take(), ["unload", "complete a"]);
        }
    }
}

#[test]
fn a_requested_reload_inside_another_executors_execution_is_refused() {
    let (interlock, changed) = (Interlock::new(), Arc::new(AtomicBool::new(true)));
    let [outer, inner] = [(); 2].map(|()| Executor::builder().interlock(interlock.clone()).build());
    let reloader = Reloader::builder(inner).check(once(&changed)).build().expect("valid");
    let refused = |result| {
        let cause = failed::<()>(result).into_cause();
        assert_eq!(cause.downcast_ref(), Some(&ReloadRefused::InsideExecution));
    };
    outer
        .wrap(|_| {
            refused(reloader.wrap(|_| Ok(())));
            refused(reloader.reload_now());
            refused(block_on(reloader.wrap_async(async |_| Ok(()))));
            Ok(())
        })
        .expect("it runs");
    assert_eq!(interlock.generation(), 0);
    reloader.wrap(|_| Ok(())).expect("it reloads");
    assert_eq!(interlock.generation(), 1);
}
