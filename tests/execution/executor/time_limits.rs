//! Limits of an execution's waits for the interlock. Their errors carry the dump.

use crate::common::log::{Log, failed};
use crate::common::task::block_on;
use crate::common::{SECOND, before_long, soon};
use cabrank::ManualClock;
use cabrank::execution::interlock::{AcquireError, OwnerDump, OwnerState};
use cabrank::execution::{ExecutionError, Executor, Interlock, Reloader, Stage};
use std::thread;
use std::time::Duration;

fn on(time: &ManualClock) -> Interlock {
    Interlock::builder().clock(time.clock()).build()
}
#[track_caller]
fn timed_out<T>(result: Result<T, ExecutionError>) -> (Stage, usize) {
    let error = failed(result);
    match error.first().cause().downcast_ref() {
        Some(AcquireError::TimedOut(blocked)) => (error.first().stage(), blocked.dump.owners.len()),
        _ => panic!("{error}"),
    }
}
/// Runs `work` on a thread, and advances the clock once an owner is in this state.
fn beside<T: Send + 'static>(
    (interlock, time): (&Interlock, &ManualClock),
    state: OwnerState,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    let thread = thread::spawn(work);
    before_long(|| interlock.dump().owners.iter().any(|owner| owner.state == state));
    time.advance(2 * SECOND);
    thread.join().expect("no panic")
}

#[test]
fn a_begin_that_waits_too_long_runs_no_hook() {
    let (time, log) = (ManualClock::new(), Log::default());
    let interlock = on(&time);
    let executor = Executor::builder()
        .interlock(interlock.clone())
        .hook(log.hook("a"))
        .acquire_timeout(SECOND)
        .build();
    let held = interlock.unload(|_| {
        let theirs = executor.clone();
        let ended =
            beside((&interlock, &time), OwnerState::Entering, move || theirs.wrap(|_| Ok(())));
        assert_eq!(timed_out(ended), (Stage::Enter, 2));
        let theirs = executor.clone();
        let ended = beside((&interlock, &time), OwnerState::Entering, move || {
            block_on(theirs.run_async()).map(drop)
        });
        assert_eq!(timed_out(ended), (Stage::Enter, 2));
    });
    held.expect("no other owner runs");
    assert!(log.take().is_empty());
    executor.wrap(|_| Ok(())).expect("no owner is in the way");
}

/// The reloader's limit comes before the executor's, and that before the interlock's.
#[test]
fn a_reload_that_waits_too_long_fails_its_execution_and_is_left_to_the_next() {
    let (time, log) = (ManualClock::new(), Log::default());
    let interlock = Interlock::builder().clock(time.clock()).acquire_timeout(3600 * SECOND).build();
    let executor = Executor::builder()
        .interlock(interlock.clone())
        .hook(log.hook("a"))
        .acquire_timeout(60 * SECOND)
        .build();
    let changed = std::sync::atomic::AtomicBool::new(true);
    let unload = log.noting("unload");
    let reloader = Reloader::builder(executor.clone())
        .check(move || changed.swap(false, std::sync::atomic::Ordering::SeqCst))
        .unload(move |_| unload())
        .acquire_timeout(SECOND)
        .build()
        .expect("valid");
    let runs = executor.run().expect("it runs");
    log.take();
    let theirs = reloader.clone();
    let ended =
        beside((&interlock, &time), OwnerState::WaitingToUnload, move || theirs.wrap(|_| Ok(())));
    assert_eq!(timed_out(ended), (Stage::Unload, 2));
    assert_eq!(log.take(), ["run a", "complete a"]);
    drop(runs);
    log.take();
    reloader.wrap(|_| log.noted("body")).expect("no owner is in the way");
    assert_eq!(log.take(), ["run a", "unload", "body", "complete a"]);
}

/// Both the begin of the execution and its reload wait for no time.
#[test]
fn a_reloader_without_a_limit_has_its_executors() {
    let interlock = Interlock::new();
    let executor = Executor::builder().interlock(interlock.clone()).acquire_timeout(Duration::ZERO);
    let executor = executor.build();
    let reloader = Reloader::builder(executor.clone()).check(|| true).build().expect("valid");
    let wraps = || {
        let theirs = reloader.clone();
        timed_out(soon(move || theirs.wrap(|_| Ok(()))))
    };
    assert_eq!(interlock.unload(|_| wraps()).expect("it is alone"), (Stage::Enter, 2));
    let runs = executor.run().expect("it runs");
    assert_eq!(wraps(), (Stage::Unload, 2));
    drop(runs);
    reloader.wrap(|_| Ok(())).expect("no owner is in the way");
}

/// Each limit may be lifted by the one that comes before it. The wait then has no limit.
#[test]
fn an_explicit_absence_of_a_limit_lifts_the_limit_behind_it() {
    let time = ManualClock::new();
    let interlock = Interlock::builder().clock(time.clock()).acquire_timeout(SECOND).build();
    let builder = || Executor::builder().interlock(interlock.clone());
    let unlimited = builder().acquire_timeout(None).build();
    let limited = builder().acquire_timeout(SECOND).build();
    let lifts = |executor: &Executor| {
        let builder = Reloader::builder(executor.clone()).enabled(false);
        builder.acquire_timeout(None).build().expect("valid")
    };
    let reloaders = [lifts(&builder().build()), lifts(&limited)];
    let held = interlock.unload(|_| {
        let executors = [&unlimited, reloaders[0].executor(), reloaders[1].executor()];
        let waits: Vec<_> = executors
            .into_iter()
            .flat_map(|executor| {
                let (one, other) = (executor.clone(), executor.clone());
                let task = move || block_on(other.wrap_async(async |_| Ok(())));
                [thread::spawn(move || one.wrap(|_| Ok(()))), thread::spawn(task)]
            })
            .collect();
        let entering = |owners: usize| {
            let dump = interlock.dump();
            let entering = |owner: &&OwnerDump| owner.state == OwnerState::Entering;
            dump.owners.iter().filter(entering).count() == owners
        };
        before_long(|| entering(6));
        // One with a limit shows that the time of all has passed.
        let theirs = limited.clone();
        let late = thread::spawn(move || theirs.wrap(|_| Ok(())));
        before_long(|| entering(7));
        time.advance(2 * SECOND);
        assert_eq!(timed_out(late.join().expect("no panic")).0, Stage::Enter);
        waits
    });
    for wait in held.expect("no other owner runs") {
        before_long(|| wait.is_finished());
        wait.join().expect("no panic").expect("it has no limit");
    }
}
