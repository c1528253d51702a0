//! Futures that are dropped while they wait to reload, or while they drain. One thread polls all of them, so a
//! blocked thread would hang the test.

use crate::common::log::{Log, failed, reporting};
use crate::polling::poll;
use crate::reloader::noting::{noting, preparing};
use cabrank::execution::interlock::Purpose;
use cabrank::execution::{Execution, Executor, HalfReloaded, Interlock, Reloader, ReloaderBuilder};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::Poll;
use std::thread;

/// An execution that nests in none of this thread's executions.
fn beside(executor: &Executor) -> Execution<'static> {
    let executor = executor.clone();
    thread::spawn(move || executor.run().expect("it runs")).join().expect("no panic")
}
/// Requests it when polled.
async fn asks(mut execution: Execution<'static>, purpose: Purpose) {
    let running = execution.running().expect("there is an interlock");
    match purpose {
        Purpose::Load => drop(running.load_async().await),
        Purpose::Unload => drop(running.unload_async().await),
    }
}
/// Waits to load or unload, does it, and is dropped while it drains.
fn drop_as_it_drains(executor: &Executor, purpose: Purpose, future: impl Future) {
    let (second, third) = (beside(executor), beside(executor));
    let mut future = Box::pin(future);
    assert!(poll(future.as_mut()).is_pending(), "two run beside it");
    let mut other = pin!(asks(second, purpose));
    assert!(poll(other.as_mut()).is_pending(), "one runs beside it");
    drop(third);
    assert!(poll(future.as_mut()).is_pending(), "it was alone, and the other has its turn");
    drop(future);
}
/// The dropped future waits to unload.
fn drop_as_it_waits(executor: &Executor, future: impl Future) {
    let other = beside(executor);
    assert!(poll(pin!(future)).is_pending(), "another owner runs beside it");
    drop(other);
}
/// A reloader that notes its unloads and fails the first.
fn failing(log: &Log) -> ReloaderBuilder {
    let (noted, fails) = (log.clone(), AtomicBool::new(true));
    let executor = reporting(log).interlock(Interlock::new()).build();
    Reloader::builder(executor).unload(move |_| {
        noted.note("unload");
        if fails.swap(false, SeqCst) { Err("on purpose".into()) } else { Ok(()) }
    })
}
const TOLD: [&str; 2] = ["unload", "handled Error of cabrank: on purpose"];

/// Regression: the failure was lost. The world was half reloaded without a report.
#[test]
fn a_failed_reload_is_reported_although_its_future_is_dropped() {
    for wraps in [false, true] {
        let (log, changed) = (Log::default(), AtomicBool::new(true));
        let builder = failing(&log).check(move || changed.swap(false, SeqCst));
        let reloader = builder.build().expect("valid");
        drop_as_it_drains(reloader.executor(), Purpose::Unload, async {
            match wraps {
                true => reloader.wrap_async(async |_| Ok(())).await,
                false => reloader.run_async().await.map(drop),
            }
        });
        assert_eq!(log.take(), TOLD);
        reloader.wrap(|_| log.noted("body")).expect("it is tried again");
        assert_eq!(log.take(), ["unload", "body"]);
    }
}

/// The reporter may enter, because it runs after the holder has left. Otherwise it would wait for a task of its own
/// thread.
#[test]
fn the_reporter_of_a_dropped_future_may_enter() {
    for completes in [false, true] {
        let (log, interlock) = (Log::default(), Interlock::new());
        let (told, entered) = (log.clone(), interlock.clone());
        let executor = Executor::builder().interlock(interlock).reporter(move |_| {
            let _running = entered.enter();
            told.note("the sender sends");
        });
        let executor = match completes {
            true => executor.to_complete(log.noting("complete")).build(),
            false => executor.build(),
        };
        let builder = Reloader::builder(executor.clone()).check(|| true);
        let reloader = builder.unload(|_| Err("on purpose".into())).build().expect("valid");
        let (second, third) = (beside(&executor), beside(&executor));
        let mut run = Box::pin(reloader.run_async());
        let mut other = Box::pin(asks(second, Purpose::Unload));
        assert!(poll(run.as_mut()).is_pending() && poll(other.as_mut()).is_pending());
        drop(third);
        log.take();
        assert!(poll(run.as_mut()).is_pending(), "it has failed, and the other holds");
        drop(run);
        assert!(log.take().is_empty());
        drop(other);
        assert!(log.has("the sender sends", 1));
    }
}

/// If another reload has unloaded since, the dropped end does not unload again.
#[test]
fn an_end_that_is_dropped_behind_anothers_reload_owes_no_unload() {
    let log = Log::default();
    let reloader = noting(&log).always().build().expect("valid");
    let (first, second) = (reloader.run().expect("it runs"), reloader.run().expect("it runs"));
    let third = beside(reloader.executor());
    let mut ends = Box::pin(second.complete_async());
    let mut is_dropped = Box::pin(first.complete_async());
    assert!(poll(ends.as_mut()).is_pending() && poll(is_dropped.as_mut()).is_pending());
    drop(third);
    assert!(poll(ends.as_mut()).is_pending(), "it has reloaded, and the other has its turn");
    drop(is_dropped);
    assert!(poll(ends.as_mut()).is_ready());
    log.take();
    drop(reloader.run().expect("it runs"));
    let began = log.take();
    let body = began.iter().position(|what| what == "prepare").expect("it has begun");
    assert!(!began[..body].contains(&"unload".to_owned()), "{began:?}");
}

#[test]
fn a_failure_in_a_dropped_completion_is_reported() {
    let log = Log::default();
    let reloader = failing(&log).always().build().expect("valid");
    let execution = reloader.run().expect("it runs");
    drop_as_it_drains(reloader.executor(), Purpose::Unload, execution.complete_async());
    assert_eq!(log.take(), TOLD);

    let reloader = failing(&log).always().build().expect("valid");
    let body = async |_: &mut Execution| Err::<(), _>("no such page".into());
    drop_as_it_drains(reloader.executor(), Purpose::Unload, reloader.wrap_async(body));
    let told = "handled Error of cabrank: no such page";
    assert_eq!(log.take(), ["unload", told], "the reload's failure is attached to the body's");
}

/// Preparing fails, and other waiting loads have their turn before the report.
#[test]
fn a_failed_prepare_is_reported_although_its_future_is_dropped() {
    let log = Log::default();
    let executor = reporting(&log).interlock(Interlock::new()).build();
    let reloader = Reloader::builder(executor)
        .always()
        .to_prepare(|preparing| {
            preparing.load(|_| ())?;
            Err("on purpose".into())
        })
        .build()
        .expect("valid");
    drop_as_it_drains(reloader.executor(), Purpose::Load, reloader.run_async());
    assert_eq!(log.take(), ["handled Error of cabrank: on purpose"]);
}

/// A reset that is dropped before its unload leaves the world as it was.
#[test]
fn after_a_reset_that_waits_and_is_dropped_the_next_or_the_end_unloads() {
    let ends: [fn(Execution<'_>); 2] = [
        |mut execution| {
            execution.reset().expect("no owner is in the way");
            std::mem::forget(execution);
        },
        |execution| execution.complete().expect("no owner is in the way"),
    ];
    for end in ends {
        let log = Log::default();
        let reloader = noting(&log).always().build().expect("valid");
        let mut execution = reloader.run().expect("it runs");
        drop_as_it_waits(reloader.executor(), execution.reset_async());
        log.take();
        end(execution);
        let ended = ["before", "unload", "after", "complete", "executor complete"];
        assert_eq!(log.take()[..5], ended);
    }

    let log = Log::default();
    let reloader = noting(&log).always().build().expect("valid");
    let ended = reloader.wrap(|execution| {
        drop_as_it_waits(reloader.executor(), execution.reset_async());
        log.take();
        Ok(())
    });
    ended.expect("no owner is in the way");
    assert_eq!(log.take(), ["before", "unload", "after", "complete", "executor complete"]);
}

/// It would have waited for the execution that goes on.
#[test]
fn a_reset_that_waits_and_is_dropped_owes_no_unload() {
    let log = Log::default();
    let reloader = noting(&log).always().build().expect("valid");
    let mut execution = reloader.run().expect("it runs");
    drop_as_it_waits(reloader.executor(), execution.reset_async());
    log.take();
    assert!(poll(pin!(reloader.run_async())).is_ready(), "no change to reload");
    assert_eq!(log.take()[..3], ["executor run", "run", "prepare"]);
    execution.complete().expect("no owner is in the way");
}

/// Values that its body loads afterwards have not been unloaded.
#[test]
fn after_a_reset_that_is_dropped_as_it_drains_the_next_or_the_end_unloads_once_more() {
    for resets in [true, false] {
        let log = Log::default();
        let reloader = noting(&log).always().build().expect("valid");
        let mut execution = reloader.run().expect("it runs");
        drop_as_it_drains(reloader.executor(), Purpose::Unload, execution.reset_async());
        assert!(log.has("unload", 1) && log.has("complete", 1));
        log.take();
        execution.within(|_| log.note("body"));
        let again = ["body", "before", "unload", "after", "executor complete"];
        if resets {
            execution.reset().expect("no owner is in the way");
            let anew = ["executor run", "run", "prepare"];
            assert_eq!(log.take(), [&again[..], &anew].concat());
            std::mem::forget(execution);
        } else {
            execution.complete().expect("no owner is in the way");
            assert_eq!(log.take(), again);
        }
    }
}

/// The execution has ended, and its unload is not left to the next one.
#[test]
fn a_completion_that_is_dropped_as_it_drains_owes_no_unload() {
    let log = Log::default();
    let reloader = noting(&log).always().build().expect("valid");
    let execution = reloader.run().expect("it runs");
    drop_as_it_drains(reloader.executor(), Purpose::Unload, execution.complete_async());
    assert!(log.has("unload", 1) && log.has("complete", 1));
    log.take();
    drop(reloader.run().expect("it runs"));
    assert_eq!(log.take()[..3], ["executor run", "run", "prepare"]);
}

/// The former execution has no world to go on in.
#[test]
fn a_failed_reset_that_is_dropped_is_reported_and_retried() {
    let log = Log::default();
    let reloader = failing(&log).always().to_prepare(preparing(log.noting("prepare")));
    let reloader = reloader.build().expect("valid");
    let mut execution = reloader.run().expect("it runs");
    drop_as_it_drains(reloader.executor(), Purpose::Unload, execution.reset_async());
    assert_eq!(log.take(), ["prepare", "unload"], "it is not over yet");
    let nested = execution.within(|_| reloader.executor().wrap(|_| log.noted("body")));
    assert!(failed(nested).cause().is::<HalfReloaded>());
    assert_eq!(log.take(), [format!("Error of cabrank: {HalfReloaded}")]);
    execution.reset().expect("the retry begins again");
    assert_eq!(log.take(), [TOLD[1], "unload", "prepare"], "the first failure is reported now");
    let nested = execution.within(|_| reloader.executor().wrap(|_| log.noted("body")));
    nested.expect("it runs again");
    execution.complete().expect("no other step has failed");
    assert_eq!(log.take(), ["body", "unload"]);
}

/// An owner that waited to unload finds that another has unloaded meanwhile.
#[test]
fn two_that_end_at_once_unload_once() {
    let log = Log::default();
    let reloader = noting(&log).always().build().expect("valid");
    let [first, second] = [(); 2].map(|()| reloader.run().expect("it runs"));
    let third = beside(reloader.executor());
    let mut ends = [first, second].map(|execution| Box::pin(execution.complete_async()));
    for end in &mut ends {
        assert!(poll(end.as_mut()).is_pending(), "another owner runs beside it");
    }
    drop(third);
    assert!(poll(ends[0].as_mut()).is_pending(), "the second has its turn");
    for end in ends.iter_mut().rev() {
        let Poll::Ready(ended) = poll(end.as_mut()) else { panic!("no owner is in its way") };
        ended.expect("it completes");
    }
    assert!(log.has("unload", 1) && !log.has("unload", 2) && log.has("complete", 2));
}
