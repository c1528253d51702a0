//! Every wait ends at the time limit, for threads and for tasks. The share comes back afterwards.

use crate::common::task::Task;
use crate::common::{SECOND, before_long};
use crate::interlock::actor::{
    Actor, count, newcomer_waits, start, start_unload, timed_out, until,
};
use crate::polling::yield_once;
use cabrank::execution::interlock::OwnerState::{
    Draining, Entering, Loading, Permitting, Resuming, Running, WaitingToLoad,
};
use cabrank::execution::interlock::{AcquireError, Running as Share};
use cabrank::{Interlock, ManualClock};
use std::sync::mpsc::channel;
use std::time::Duration;

fn limited() -> (Interlock, ManualClock) {
    let clock = ManualClock::new();
    (Interlock::builder().clock(clock.clock()).acquire_timeout(SECOND).build(), clock)
}

#[test]
fn entering_ends_at_its_limit() {
    let (interlock, clock) = limited();
    let (release, hold) = channel::<()>();
    let holder = Actor::enter(&interlock);
    let holds = holder.order_until(Loading, move |r| r.load(|_| hold.recv().is_err()));
    let enters = {
        let other = interlock.clone();
        start(move || other.run(|_| ()))
    };
    let runs = {
        let other = interlock.clone();
        start(move || other.run(|_| ()))
    };
    let unloads = {
        let other = interlock.clone();
        start(move || other.unload(|_| ()))
    };
    let other = interlock.clone();
    let mut task = Task::new(async move { other.run_async(async |_| ()).await });
    assert!(task.poll().is_none());
    until(&interlock, Entering, 4);
    clock.advance(SECOND);
    for late in [enters.done(), runs.done(), unloads.done(), task.finish()] {
        let blocked = timed_out(late);
        let victim = blocked.dump.owner(blocked.victim).expect("it waited");
        assert_eq!(victim.state, Entering);
    }
    assert_eq!(count(&interlock, Entering), 0);
    drop(release);
    assert!(holds.done().expect("it was granted before"));
}

#[test]
fn a_wait_to_hold_ends_at_its_limit_and_wakes_those_it_kept_out() {
    let (interlock, clock) = limited();
    let [sharer, loader] = [(); 2].map(|()| Actor::enter(&interlock));
    let unloads = start_unload(&interlock, |_| ());
    let loads = loader.order_until(WaitingToLoad, |r| (r.load(|_| ()), r.has_share()));
    assert!(newcomer_waits(&interlock));
    clock.advance(SECOND);
    timed_out(unloads.done());
    let (late, has_share) = loads.done();
    timed_out(late);
    assert!(has_share);
    assert!(!newcomer_waits(&interlock));
    assert_eq!(sharer.state(), Some(Running));
}

/// The body of a permit block has run; the share comes back when the holder releases.
#[test]
fn the_end_of_a_permit_block_ends_at_its_limit() {
    let (interlock, clock) = limited();
    let (permits, loader) = (Actor::enter(&interlock), Actor::enter(&interlock));
    let (end, block) = channel::<()>();
    let ends = permits.order_until(Permitting, move |r| {
        let ended = r.permit_loads(|| block.recv().is_err());
        (ended, r.has_share())
    });
    let (release, hold) = channel::<()>();
    let loads = loader.order_until(Loading, move |r| r.load(|_| hold.recv().is_err()));
    drop(end);
    permits.until(Resuming);
    clock.advance(SECOND);
    let (late, has_share) = ends.done();
    timed_out(late);
    assert!(!has_share);
    assert_eq!(permits.state(), Some(Resuming));
    // Its next operation waits for the share, and so ends at the limit, too.
    let inner = interlock.clone();
    let nests = permits.order(move |_| inner.run(|_| ()));
    before_long(|| interlock.dump().owner(permits.id).is_some_and(|owner| owner.wait.is_some()));
    clock.advance(SECOND);
    timed_out(nests.done());
    drop(release);
    assert!(loads.done().expect("it was granted before"));
    assert!(permits.order(|r| r.has_share()).done());
}

/// The load has happened; others still have their turns.
#[test]
fn a_drain_ends_at_its_limit() {
    let (interlock, clock) = limited();
    let [first, second, sharer] = [(); 3].map(|()| Actor::enter(&interlock));
    let one = first.order_until(WaitingToLoad, |r| (r.load(|_| ()), r.has_share()));
    let (release, hold) = channel::<()>();
    let other = second.order_until(WaitingToLoad, move |r| r.load(|_| hold.recv().is_err()));
    sharer.leave();
    second.until(Loading);
    first.until(Draining);
    clock.advance(SECOND);
    let (late, has_share) = one.done();
    timed_out(late);
    assert!(!has_share);
    drop(release);
    assert!(other.done().expect("it was granted before"));
    assert!(first.order(|r| r.has_share()).done());
}

/// A task's limit is kept by a thread of the interlock, here by the real clock.
#[test]
fn a_task_is_woken_at_its_limit() {
    let limit = Duration::from_millis(20);
    let interlock = Interlock::builder().acquire_timeout(limit).build();
    let sharer = Actor::enter(&interlock);
    for _ in 0..3 {
        let theirs = interlock.clone();
        let task = Task::new(async move {
            let body = async |r: &mut Share<'_>| {
                yield_once().await;
                (r.load_async(async |_| ()).await, r.has_share())
            };
            theirs.run_async(body).await.expect("no other owner holds")
        });
        let (late, has_share) = task.finish();
        timed_out(late);
        assert!(has_share);
    }
    sharer.leave();
    assert!(interlock.dump().owners.is_empty());
}

/// Each wait has a limit of its own, and the timer serves them in order of time.
#[test]
fn limits_of_many_tasks_pass_in_order() {
    let (interlock, clock) = limited();
    let sharer = Actor::enter(&interlock);
    let load = || {
        let theirs = interlock.clone();
        let mut task = Task::new(async move {
            let body = async |r: &mut Share<'_>| {
                yield_once().await;
                r.load_async(async |_| ()).await
            };
            theirs.run_async(body).await.expect("no other owner holds")
        });
        assert!(task.poll().is_none());
        task
    };
    let mut tasks = [load(), load(), load()];
    for task in &mut tasks {
        assert!(task.poll().is_none());
        clock.advance(SECOND / 4);
    }
    let [first, mut second, third] = tasks;
    clock.advance(SECOND / 4);
    timed_out(first.finish());
    assert!(second.poll().is_none());
    drop(second);
    sharer.leave();
    third.finish().expect("it was in time");
    assert!(interlock.dump().owners.is_empty());
}

#[test]
fn without_a_limit_no_time_ends_a_wait() -> Result<(), AcquireError> {
    let clock = ManualClock::new();
    let interlock = Interlock::builder().clock(clock.clock()).build();
    let (sharer, loader) = (Actor::enter(&interlock), Actor::enter(&interlock));
    let loads = loader.order_until(WaitingToLoad, |r| r.load(|_| ()));
    clock.advance(SECOND * 3600);
    assert!(loads.is_stuck());
    sharer.leave();
    loads.done()
}
