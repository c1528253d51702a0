//! Successive reloaders of one interlock, and executions that a task begins and ends.

use crate::common::log::{Log, failed};
use crate::common::task::{Task, block_on};
use crate::reloader::noting::once;
use cabrank::execution::{Executor, Interlock, Refused, Reloader, Stage};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

fn is_half_reloaded<T>(result: Result<T, cabrank::execution::ExecutionError>) -> bool {
    let error = failed(result);
    let refused = matches!(error.first().cause().downcast_ref(), Some(Refused::ReloadFailed(_)));
    refused && error.first().stage() == Stage::Enter
}

/// Regression: the first reloader's exclusive right was never given back, so no execution could run again.
#[test]
fn the_next_reloader_reloads_a_half_reloaded_state() {
    let (log, interlock) = (Log::default(), Interlock::new());
    let executor = Executor::builder().interlock(interlock.clone()).build();
    let fails = Reloader::builder(executor.clone()).check(|| true);
    let reloader = fails.to_prepare(|_| Err("on purpose".into())).build().expect("the first");
    let clone = reloader.clone();
    assert_eq!(failed(reloader.wrap(|_| Ok(()))).first().stage(), Stage::Prepare);
    drop(reloader);
    let another = || Reloader::builder(executor.clone()).build();
    assert!(matches!(another(), Err(Refused::SecondReloader)), "there is a clone");
    drop(clone);
    let unload = log.noting("unload");
    let next = Reloader::builder(executor.clone()).unload(move |_| unload()).build();
    let next = next.expect("there is no such owner");
    assert!(is_half_reloaded(executor.wrap(|_| Ok(()))));
    next.wrap(|_| log.noted("body")).expect("it reloads first");
    executor.wrap(|_| Ok(())).expect("it is whole");
    assert_eq!(log.take(), ["unload", "body"]);
}

/// Regression: an executor of the same interlock, or a disabled reloader, ran on half reloaded code.
#[test]
fn only_the_reload_runs_on_half_reloaded_code() {
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
    let changed = Arc::new(AtomicBool::new(true));
    let builder = Reloader::builder(executor.clone()).check(once(&changed));
    let reloader = builder.to_prepare(move |_| prepare()).build().expect("valid");
    let disabled = Reloader::builder(other.clone()).enabled(false).build().expect("valid");
    failed(reloader.wrap(|_| Ok(())));
    assert!(is_half_reloaded(executor.wrap(|_| Ok(()))));
    assert!(is_half_reloaded(block_on(other.run_async())));
    assert!(is_half_reloaded(disabled.run()));
    assert!(is_half_reloaded(disabled.prepare()));
    assert!(is_half_reloaded(reloader.prepare()));
    assert!(is_half_reloaded(reloader.wrap(|_| Ok(()))));
    broken.store(false, SeqCst);
    changed.store(true, SeqCst);
    reloader.wrap(|_| Ok(())).expect("it succeeds");
    other.wrap(|_| Ok(())).expect("it is whole");
}

/// An owner that waited to unload finds that another has unloaded meanwhile.
#[test]
fn two_that_end_at_once_unload_once() {
    let (log, interlock) = (Log::default(), Interlock::new());
    let executor = Executor::builder().interlock(interlock).build();
    let unload = log.noting("unload");
    let builder = Reloader::builder(executor.clone()).always().to_complete(log.noting("complete"));
    let reloader = builder.unload(move |_| unload()).build().expect("valid");
    let [first, second] = [(); 2].map(|()| block_on(reloader.run_async()).expect("it runs"));
    let third = block_on(executor.run_async()).expect("it runs");
    let mut ends = [first, second].map(|execution| Task::new(execution.complete_async()));
    assert!(ends.iter_mut().all(|end| end.poll().is_none()), "another owner runs beside it");
    drop(third);
    assert!(ends[0].poll().is_none(), "it has unloaded, and the second has its turn");
    for end in ends.into_iter().rev() {
        end.finish().expect("it completes");
    }
    assert!(log.has("unload", 1) && !log.has("unload", 2) && log.has("complete", 2));
}

/// A task that unloads at its end waits without blocking. If it is dropped, the next one unloads.
#[test]
fn a_task_unloads_at_the_end_or_leaves_it_to_the_next() {
    for dropped in [false, true] {
        let log = Log::default();
        let (interlock, unload) = (Interlock::new(), log.noting("unload"));
        let executor = Executor::builder().interlock(interlock.clone()).hook(log.hook("a")).build();
        let builder = Reloader::builder(executor.clone()).always().unload(move |_| unload());
        let reloader = builder.build().expect("valid");
        let execution = block_on(reloader.run_async()).expect("it runs");
        let share = block_on(executor.run_async()).expect("it runs");
        let mut completes = Task::new(execution.complete_async());
        assert!(completes.poll().is_none());
        assert_eq!(log.take(), ["run a"; 2]);
        if dropped {
            drop(completes);
            assert_eq!(log.take(), ["complete a"]);
            drop(share);
            log.take();
            reloader.wrap(|_| log.noted("body")).expect("it runs");
            assert_eq!(log.take(), ["run a", "unload", "body", "unload", "complete a"]);
        } else {
            drop(share);
            completes.finish().expect("it completes");
            assert_eq!(log.take(), ["complete a", "unload", "complete a"]);
        }
    }
}
