//! Futures that are dropped while they wait to reload, and while others that waited have their turn after it.
//! All of a test is on one thread: whoever blocked it would do so for ever.

use crate::common::log::{Log, failed, reporting};
use crate::noting::{noting, preparing};
use cabrank::execution::{Execution, Executor, HalfReloaded, Interlock, Reloader, ReloaderBuilder};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};

fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}
fn beside(executor: &Executor) -> Execution<'static> {
    executor.run().expect("it runs")
}
/// It waits to unload, does it, and is dropped while another has its turn.
fn drop_as_it_drains(executor: &Executor, future: impl Future) {
    let (mut second, third) = (beside(executor), beside(executor));
    let mut future = Box::pin(future);
    assert!(poll(future.as_mut()).is_pending(), "two run beside it");
    let mut unload = pin!(second.running().expect("there is an interlock").unload_async());
    assert!(poll(unload.as_mut()).is_pending(), "one runs beside it");
    drop(third);
    assert!(poll(future.as_mut()).is_pending(), "it has unloaded, and the other has its turn");
    drop(future);
}
/// The same with what it loads.
fn drop_as_it_drains_loads(executor: &Executor, future: impl Future) {
    let (mut second, third) = (beside(executor), beside(executor));
    let mut future = Box::pin(future);
    assert!(poll(future.as_mut()).is_pending(), "two run beside it");
    let mut load = pin!(second.running().expect("there is an interlock").load_async());
    assert!(poll(load.as_mut()).is_pending(), "one runs beside it");
    drop(third);
    assert!(poll(future.as_mut()).is_pending(), "it has loaded, and the other has its turn");
    drop(future);
}
/// What is dropped waits to unload.
fn drop_as_it_waits(executor: &Executor, future: impl Future) {
    let other = beside(executor);
    assert!(poll(pin!(future)).is_pending(), "somebody runs beside it");
    drop(other);
}
/// A reloader that fails to unload as long as it is told to, and notes it.
fn failing(log: &Log, times: usize) -> ReloaderBuilder {
    let (log_unload, left) = (log.clone(), AtomicUsize::new(times));
    let executor = reporting(log).interlock(Interlock::new()).build();
    Reloader::builder(executor).unload(move |_| {
        log_unload.note("unload");
        let left = left.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1));
        if left.is_ok() { Err("on purpose".into()) } else { Ok(()) }
    })
}
const TOLD: [&str; 2] = ["unload", "handled Error of cabrank: on purpose"];

/// The failure was lost: the world was half reloaded, and nobody was told.
#[test]
fn a_failed_reload_is_told_although_its_future_is_dropped() {
    let begins: [fn(&Reloader) -> Pin<Box<dyn Future<Output = ()> + '_>>; 2] = [
        |reloader| Box::pin(async { _ = reloader.run_async().await }),
        |reloader| Box::pin(async { _ = reloader.wrap_async(async |_| Ok(())).await }),
    ];
    for begin in begins {
        let (log, changed) = (Log::default(), AtomicBool::new(true));
        let builder = failing(&log, 1).check(move || changed.swap(false, SeqCst));
        let reloader = builder.build().expect("valid");
        drop_as_it_drains(reloader.executor(), begin(&reloader));
        assert_eq!(log.take(), TOLD);
        reloader.wrap(|_| log.noted("body")).expect("it is tried again");
        assert_eq!(log.take(), ["unload", "body"]);
    }
}

#[test]
fn what_fails_in_a_dropped_completion_is_told() {
    let log = Log::default();
    let reloader = failing(&log, 1).always().build().expect("valid");
    let execution = reloader.run().expect("it runs");
    drop_as_it_drains(reloader.executor(), execution.complete_async());
    assert_eq!(log.take(), TOLD);

    let reloader = failing(&log, 1).always().build().expect("valid");
    let body = async |_: &mut Execution| Err::<(), _>("no such page".into());
    drop_as_it_drains(reloader.executor(), reloader.wrap_async(body));
    let told = "handled Error of cabrank: no such page";
    assert_eq!(log.take(), ["unload", told], "the reload's failure is attached to the body's");
}

/// What prepares fails, and others that wait to load have their turn before it is told.
#[test]
fn what_fails_to_prepare_is_told_although_its_future_is_dropped() {
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
    drop_as_it_drains_loads(reloader.executor(), reloader.run_async());
    assert_eq!(log.take(), ["handled Error of cabrank: on purpose"]);
}

/// What is dropped before it may unload leaves everything as it was.
#[test]
fn after_a_reset_that_waits_and_is_dropped_the_next_or_the_end_unloads() {
    let ends: [fn(Execution<'_>); 2] = [
        |mut execution| {
            execution.reset().expect("nobody is in the way");
            std::mem::forget(execution);
        },
        |execution| execution.complete().expect("nobody is in the way"),
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
        drop_as_it_waits_elsewhere(&reloader, execution.reset_async());
        log.take();
        Ok(())
    });
    ended.expect("nobody is in the way");
    assert_eq!(log.take(), ["before", "unload", "after", "complete", "executor complete"]);
}
/// In the body of an execution that thread's are nested.
fn drop_as_it_waits_elsewhere(reloader: &Reloader, future: impl Future) {
    let executor = reloader.executor().clone();
    let other = std::thread::spawn(move || beside(&executor)).join().expect("no panic");
    assert!(poll(pin!(future)).is_pending(), "somebody runs beside it");
    drop(other);
}

/// It would have waited for who goes on.
#[test]
fn a_reset_that_waits_and_is_dropped_leaves_nothing_to_the_next_execution() {
    let log = Log::default();
    let reloader = noting(&log).always().build().expect("valid");
    let mut execution = reloader.run().expect("it runs");
    drop_as_it_waits(reloader.executor(), execution.reset_async());
    log.take();
    assert!(poll(pin!(reloader.run_async())).is_ready(), "nothing is to be reloaded");
    assert_eq!(log.take()[..3], ["executor run", "run", "prepare"]);
    execution.complete().expect("nobody is in the way");
}

/// What its body loads from then on was unloaded by nobody.
#[test]
fn after_a_reset_that_is_dropped_as_it_drains_the_next_or_the_end_unloads_once_more() {
    for resets in [true, false] {
        let log = Log::default();
        let reloader = noting(&log).always().build().expect("valid");
        let mut execution = reloader.run().expect("it runs");
        drop_as_it_drains(reloader.executor(), execution.reset_async());
        assert!(log.has("unload", 1) && log.has("complete", 1));
        log.take();
        execution.within(|_| log.note("body"));
        let again = ["body", "before", "unload", "after", "executor complete"];
        if resets {
            execution.reset().expect("nobody is in the way");
            let anew = ["executor run", "run", "prepare"];
            assert_eq!(log.take(), [&again[..], &anew].concat());
            std::mem::forget(execution);
        } else {
            execution.complete().expect("nobody is in the way");
            assert_eq!(log.take(), again);
        }
    }
}

/// That has ended, and nobody goes on: what it has unloaded is not left to the next.
#[test]
fn a_completion_that_is_dropped_as_it_drains_owes_nothing() {
    let log = Log::default();
    let reloader = noting(&log).always().build().expect("valid");
    let execution = reloader.run().expect("it runs");
    drop_as_it_drains(reloader.executor(), execution.complete_async());
    assert!(log.has("unload", 1) && log.has("complete", 1));
    log.take();
    drop(reloader.run().expect("it runs"));
    assert_eq!(log.take()[..3], ["executor run", "run", "prepare"]);
}

/// The former has no world to go on in.
#[test]
fn a_reset_that_has_failed_and_is_dropped_is_told_and_tried_again() {
    let log = Log::default();
    let reloader = failing(&log, 1).always().to_prepare(preparing(log.noting("prepare")));
    let reloader = reloader.build().expect("valid");
    let mut execution = reloader.run().expect("it runs");
    drop_as_it_drains(reloader.executor(), execution.reset_async());
    assert_eq!(log.take(), ["prepare", "unload"], "it is not over yet");
    let nested = execution.within(|_| reloader.executor().wrap(|_| log.noted("body")));
    assert!(failed(nested).cause().is::<HalfReloaded>());
    assert_eq!(log.take(), [format!("Error of cabrank: {HalfReloaded}")]);
    execution.reset().expect("it is tried again, and begins anew");
    assert_eq!(log.take(), [TOLD[1], "unload", "prepare"], "the first failure is told now");
    let nested = execution.within(|_| reloader.executor().wrap(|_| log.noted("body")));
    nested.expect("it runs again");
    execution.complete().expect("nothing else has failed");
    assert_eq!(log.take(), ["body", "unload"]);
}

/// Whoever has waited to unload finds what another has unloaded meanwhile.
#[test]
fn two_that_end_at_once_unload_once() {
    let log = Log::default();
    let reloader = noting(&log).always().build().expect("valid");
    let [first, second] = [(); 2].map(|()| reloader.run().expect("it runs"));
    let third = beside(reloader.executor());
    let mut ends = [first, second].map(|execution| Box::pin(execution.complete_async()));
    for end in &mut ends {
        assert!(poll(end.as_mut()).is_pending(), "somebody runs beside it");
    }
    drop(third);
    assert!(poll(ends[0].as_mut()).is_pending(), "the second has its turn");
    for end in ends.iter_mut().rev() {
        let Poll::Ready(ended) = poll(end.as_mut()) else { panic!("nobody is in its way") };
        ended.expect("it completes");
    }
    assert!(log.has("unload", 1) && !log.has("unload", 2) && log.has("complete", 2));
}
