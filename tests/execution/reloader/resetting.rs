//! Resets of a reloader's execution: a new one begins where the former ended.

use crate::common::log::{Log, failed};
use crate::common::task::{Task, block_on};
use crate::common::{before_long, soon};
use crate::reloader::noting::{ALWAYS, noting, once, preparing};
use cabrank::execution::interlock::{AcquireError, Interlock, Loaded};
use cabrank::execution::{
    Execution, ExecutionError, Executor, HalfReloaded, ReloadRefused, Reloader, Stage,
};
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Waker};
use std::thread;

type Reset = fn(&mut Execution<'_>) -> Result<(), ExecutionError>;

/// Runs the case by a thread and by a task.
const WAYS: [Reset; 2] =
    [|execution| execution.reset(), |execution| block_on(execution.reset_async())];

#[test]
fn one_that_always_reloads_reloads_and_prepares_between_the_two() {
    for reset in WAYS {
        let log = Log::default();
        let reloader = noting(&log).always().build().expect("valid");
        let ended = reloader.wrap(|execution| {
            log.note("body");
            reset(execution)?;
            log.noted("body")
        });
        ended.expect("it succeeds");
        assert_eq!(log.take(), [ALWAYS, ALWAYS].concat());
        reloader.executor().wrap(|_| Ok(())).expect("no unload is owed");
        assert_eq!(log.take(), ["executor run", "executor complete"]);
    }
}

/// Prepared values may have to be loaded.
#[test]
fn its_body_finds_the_prepared_values() {
    for reset in WAYS {
        let (settings, loads) = (Arc::new(Loaded::new()), Arc::new(AtomicUsize::new(0)));
        let (stale, fresh) = (settings.clone(), settings.clone());
        let counted = loads.clone();
        let executor = Executor::builder().interlock(Interlock::new()).build();
        let reloader = Reloader::builder(executor)
            .always()
            .unload(move |unloading| {
                stale.clear(unloading);
                Ok(())
            })
            .to_prepare(move |preparing| {
                let nth = counted.fetch_add(1, SeqCst);
                Ok(preparing.load(|loading| fresh.set(nth, loading))?)
            })
            .build()
            .expect("valid");
        let mut execution = reloader.run().expect("it runs");
        for nth in 0..3 {
            let running = execution.running().expect("there is an interlock");
            assert_eq!(*settings.get(running).expect("it is prepared"), nth);
            reset(&mut execution).expect("it is loaded again");
        }
        execution.complete().expect("it unloads");
        assert_eq!(loads.load(SeqCst), 4);
    }
}

#[test]
fn one_that_does_not_reload_each_time_keeps_its_world() {
    for reset in WAYS {
        let (log, changed) = (Log::default(), Arc::new(AtomicBool::new(false)));
        let reloader = noting(&log).check(once(&changed)).build().expect("valid");
        let mut execution = reloader.run().expect("it runs");
        changed.store(true, SeqCst);
        reset(&mut execution).expect("it runs again");
        assert_eq!(log.take(), ["executor run", "executor complete", "executor run"]);
        execution.complete().expect("it completes");
    }
}

/// No execution may run on a half reloaded world, so the reset begins no new one.
#[test]
fn no_execution_begins_where_the_former_could_not_reload() {
    for reset in WAYS {
        let (log, broken) = (Log::default(), Arc::new(AtomicBool::new(true)));
        let breaks = broken.clone();
        let builder = noting(&log).always().unload(move |_| match breaks.load(SeqCst) {
            true => Err("broken".into()),
            false => Ok(()),
        });
        let reloader = builder.build().expect("valid");
        let mut execution = reloader.run().expect("it runs");
        let error = failed(reset(&mut execution));
        assert_eq!((error.stage(), error.cause().to_string()), (Stage::Unload, "broken".into()));
        let ended = ["before", "unload", "complete", "executor complete"];
        let reported = "Error of cabrank: broken";
        assert_eq!(
            log.take(),
            [&["executor run", "run", "prepare"][..], &ended, &[reported]].concat()
        );
        execution.complete().expect("no work is left");
        assert_eq!(log.take(), [""; 0]);

        broken.store(false, SeqCst);
        reloader.wrap(|_| log.noted("body")).expect("the next one reloads first");
        let first = ["executor run", "before", "unload", "after"];
        assert_eq!(log.take(), [&first[..], &ALWAYS[1..]].concat());
    }
}

/// Inside another execution the reload would wait for that one to end, so it is left to the next.
#[test]
fn no_execution_begins_where_the_former_may_not_reload() {
    for reset in WAYS {
        let (log, interlock) = (Log::default(), Interlock::new());
        let outer = Executor::builder().interlock(interlock.clone()).build();
        let inner = Executor::builder().interlock(interlock).build();
        let unload = log.noting("unload");
        let reloader = Reloader::builder(inner)
            .always()
            .to_prepare(preparing(log.noting("prepare")))
            .unload(move |_| unload())
            .build()
            .expect("valid");
        let ended = outer.wrap(|_| {
            let refused = reloader.wrap(|execution| {
                let error = failed(reset(execution));
                assert_eq!(error.stage(), Stage::Unload);
                let refused = error.into_cause();
                assert_eq!(refused.downcast_ref(), Some(&ReloadRefused::InsideExecution));
                log.noted("body")
            });
            refused.expect("it learned of the reload, and no work is left");
            assert_eq!(log.take(), ["prepare", "body"]);
            Ok(())
        });
        ended.expect("it succeeds");
        reloader.wrap(|_| log.noted("body")).expect("it reloads first");
        assert_eq!(log.take(), ["unload", "prepare", "body", "unload"]);
    }
}

/// The body unloads explicitly. That yields to a waiting reload, which fails.
#[test]
fn no_execution_begins_on_a_world_that_another_left_half_reloaded() {
    for reset in WAYS {
        let interlock = Interlock::new();
        let executor = Executor::builder().interlock(interlock.clone()).build();
        let builder = Reloader::builder(executor.clone()).check(|| true);
        let reloader = builder.unload(|_| Err("broken".into())).build().expect("valid");
        let ended = thread::scope(|scope| {
            executor.wrap(|execution| {
                let reloads = scope.spawn(|| reloader.wrap(|_| Ok(())));
                before_long(|| interlock.dump().to_string().contains("waits to unload"));
                execution.running().expect("a share").unload(|_| ())?;
                assert_eq!(failed(reloads.join().expect("no panic")).stage(), Stage::Unload);
                let error = failed(reset(execution));
                assert_eq!(error.stage(), Stage::Enter);
                assert!(error.cause().is::<HalfReloaded>());
                Ok(())
            })
        });
        ended.expect("the body goes on");
    }
}

/// The former execution has ended, so a new one exists, and its end reloads the prepared values.
#[test]
fn one_that_is_dropped_while_it_prepares_goes_on() {
    let (log, interlock, beside) = (Log::default(), Interlock::new(), Arc::new(Mutex::new(None)));
    let executor = Executor::builder().interlock(interlock.clone()).build();
    let (noted, unload, runs) = (log.clone(), log.noting("unload"), beside.clone());
    let reloader = Reloader::builder(executor)
        .always()
        .to_run(move || {
            *runs.lock().expect("no panic") = Some(interlock.enter());
            Ok(())
        })
        .to_prepare(move |preparing| Ok(preparing.load(|_| noted.note("prepare"))?))
        .unload(move |_| unload())
        .to_complete(log.noting("complete"))
        .build()
        .expect("valid");
    let leave = || drop(beside.lock().expect("no panic").take());
    let mut runs = Task::new(async move { reloader.run_async().await });
    assert!(runs.poll().is_none(), "another owner runs beside it");
    leave();
    let mut execution = runs.finish().expect("it runs");
    assert_eq!(log.take(), ["prepare"]);

    let waits = pin!(execution.reset_async()).poll(&mut Context::from_waker(Waker::noop()));
    assert!(waits.is_pending(), "another owner runs beside it");
    assert_eq!(log.take(), ["unload", "complete"]);
    leave();
    execution.within(|_| log.note("body"));
    execution.complete().expect("it reloads");
    assert_eq!(log.take(), ["body", "unload", "complete"]);
}

/// The reporter of a reset runs while the execution has its share. Regression: an execution in the reporter queued
/// behind a reload that waited for that share.
#[test]
fn the_reporter_of_a_reset_executes_inside_it() {
    for reset in WAYS {
        let (interlock, itself) = (Interlock::new(), Arc::new(OnceLock::<Executor>::new()));
        let (log, told, executes) = (Log::default(), Log::default(), itself.clone());
        let (noted, nested) = (told.clone(), log.clone());
        let executor = Executor::builder()
            .interlock(interlock.clone())
            .hook(log.hook("a"))
            .to_complete(|| Err("on purpose".into()))
            .reporter(move |report| {
                noted.note(report.error().to_string());
                let executor = executes.get().expect("it is given before anything fails");
                executor.wrap(|_| nested.noted("executes")).expect("it is a nested one");
            })
            .build();
        itself.set(executor.clone()).expect("it is given once");
        let (mut execution, mut other) = (executor.run().expect("it runs"), interlock.enter());
        let mut unload = pin!(other.unload_async());
        let waits = unload.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(waits.is_pending(), "the execution runs beside it");
        let execution = soon(move || {
            assert_eq!(failed(reset(&mut execution)).stage(), Stage::Complete);
            execution
        });
        assert_eq!(log.take(), ["run a", "complete a", "run a", "executes"]);
        assert_eq!(told.take(), ["on purpose"]);
        std::mem::forget(execution); // the reporter would be called again and wait
    }
}

/// An execution that could not begin again has ended. Calls inside its body do not belong to it.
#[test]
fn no_execution_runs_in_one_that_could_not_begin_on_a_half_reloaded_world() {
    for reset in WAYS {
        let interlock = Interlock::new();
        let executor = Executor::builder().interlock(interlock.clone()).build();
        let broken = Arc::new(AtomicBool::new(true));
        let breaks = broken.clone();
        let reloader = Reloader::builder(executor.clone())
            .always()
            .unload(move |_| if breaks.load(SeqCst) { Err("broken".into()) } else { Ok(()) })
            .build()
            .expect("valid");
        let mut execution = reloader.run().expect("it runs");
        assert_eq!(failed(reset(&mut execution)).stage(), Stage::Unload);
        // Another owner waits for the share of the ended execution.
        let mut other = interlock.enter();
        let mut unload = pin!(other.unload_async());
        let waits = unload.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(waits.is_pending(), "the share is kept");
        let theirs = (executor.clone(), reloader.clone());
        let execution = soon(move || {
            let (executor, reloader) = theirs;
            execution.within(|execution| {
                assert!(!executor.is_active());
                let refused = [
                    executor.wrap(|_| Ok(())),
                    executor.run().map(drop),
                    block_on(executor.wrap_async(async |_| Ok(()))),
                    execution.child().wrap(|_| Ok(())),
                ];
                for refused in refused.map(failed) {
                    assert!(refused.cause().is::<HalfReloaded>(), "{refused}");
                }
                let refused = [
                    reloader.wrap(|_| Ok(())),
                    block_on(reloader.wrap_async(async |_| Ok(()))),
                    reloader.reload_now(),
                ];
                for refused in refused.map(failed).map(ExecutionError::into_cause) {
                    let refused = refused.downcast_ref();
                    assert_eq!(refused, Some(&ReloadRefused::InsideExecution));
                }
                for refused in [reloader.run(), block_on(reloader.run_async())].map(failed) {
                    let refused = refused.into_cause();
                    assert!(matches!(refused.downcast_ref(), Some(AcquireError::Child)));
                }
            });
            execution
        });
        broken.store(false, SeqCst);
        drop(execution);
        let granted = unload.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(granted.is_ready(), "no other owner runs");
    }
}

/// This holds anywhere in the body whose reset failed.
#[test]
fn no_execution_runs_within_one_that_could_not_begin_although_its_body_goes_on() {
    for reset in WAYS {
        let executor = Executor::builder().interlock(Interlock::new()).build();
        let reloader = Reloader::builder(executor.clone())
            .always()
            .unload(|_| Err("broken".into()))
            .build()
            .expect("valid");
        let ended = reloader.wrap(|execution| {
            assert_eq!(failed(reset(execution)).stage(), Stage::Unload);
            let refused = execution.within(|_| executor.wrap(|_| Ok(())));
            assert!(failed(refused).cause().is::<HalfReloaded>());
            Ok(())
        });
        ended.expect("the body goes on");
    }
}

/// An ended execution may begin again when the world is whole.
#[test]
fn an_ended_execution_counts_as_running_after_it_has_begun_again() {
    for reset in WAYS {
        let (log, fails) = (Log::default(), Arc::new(AtomicBool::new(false)));
        let breaks = fails.clone();
        let run = move || if breaks.load(SeqCst) { Err("on purpose".into()) } else { Ok(()) };
        let executor = Executor::builder().hook(log.hook("a")).to_run(run).build();
        let mut execution = executor.run().expect("it runs");
        fails.store(true, SeqCst);
        assert_eq!(failed(reset(&mut execution)).stage(), Stage::Run);
        fails.store(false, SeqCst);
        log.take();
        execution.within(|_| executor.wrap(|_| log.noted("body"))).expect("one of its own");
        assert_eq!(log.take(), ["run a", "body", "complete a"]);
        reset(&mut execution).expect("it begins again");
        execution.within(|_| executor.wrap(|_| log.noted("body"))).expect("a nested one");
        assert_eq!(log.take(), ["run a", "body"]);
    }
}
