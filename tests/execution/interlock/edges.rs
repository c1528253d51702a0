//! Time limits at the edge, several that pass at one time, and tasks whose limits come and go.

use crate::common::task::{Task, block_on};
use crate::common::{SECOND, SOON};
use crate::interlock::actor::{Actor, Doing, count, start, timed_out, until};
use cabrank::execution::interlock::AcquireError;
use cabrank::execution::interlock::OwnerState::{Entering, Loading};
use cabrank::{Interlock, ManualClock};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

const NANO: Duration = Duration::from_nanos(1);
/// One second more than a clock can count.
const TOO_LONG: Duration = Duration::from_secs(1 << 32);

type Ended = Result<(), AcquireError>;

/// An interlock on which an execution loads until the test drops the sender.
fn held(interlock: Interlock) -> (Interlock, Doing<()>, Sender<()>) {
    let (release, hold) = channel::<()>();
    let theirs = interlock.clone();
    let load = move || {
        let loaded = theirs.run(|r| r.load(|_| hold.recv().is_err()));
        assert!(loaded.expect("no other owner holds").expect("it is alone"));
    };
    let holds = start(load);
    until(&interlock, Loading, 1);
    (interlock, holds, release)
}

fn enters(interlock: &Interlock) -> Doing<Ended> {
    let theirs = interlock.clone();
    start(move || theirs.run(|_| ()))
}
fn task_enters(interlock: &Interlock) -> Task<Ended> {
    let theirs = interlock.clone();
    let mut task = Task::new(async move { theirs.run_async(async |_| ()).await });
    assert!(task.poll().is_none());
    task
}

/// Returns the result, and lets time pass until there is one.
#[track_caller]
fn done_in_time(doing: Doing<Ended>, clock: &ManualClock) -> Ended {
    let (begun, mut doing) = (Instant::now(), doing);
    loop {
        clock.advance(NANO);
        match doing.ready() {
            Ok(result) => return result,
            Err(still) => doing = still,
        }
        assert!(begun.elapsed() < SOON, "its limit does not pass");
        std::thread::yield_now();
    }
}

#[test]
fn a_limit_of_no_time_or_of_a_nanosecond_ends_each_wait() {
    for limit in [Duration::ZERO, NANO] {
        for is_manual in [true, false] {
            let clock = ManualClock::new();
            let builder = Interlock::builder().acquire_timeout(limit);
            let builder = if is_manual { builder.clock(clock.clock()) } else { builder };
            let (interlock, holds, release) = held(builder.build());
            let theirs = interlock.clone();
            let task = start(move || block_on(theirs.run_async(async |_| ())));
            timed_out(done_in_time(task, &clock));
            timed_out(done_in_time(enters(&interlock), &clock));
            assert_eq!(count(&interlock, Entering), 0);
            drop(release);
            holds.done();
        }
    }
}

#[test]
fn a_limit_beyond_all_time_ends_no_wait() {
    for limit in [TOO_LONG, Duration::MAX] {
        for is_manual in [true, false] {
            let clock = ManualClock::new();
            let builder = Interlock::builder().acquire_timeout(limit);
            let builder = if is_manual { builder.clock(clock.clock()) } else { builder };
            let (interlock, holds, release) = held(builder.build());
            let (thread, task) = (enters(&interlock), task_enters(&interlock));
            until(&interlock, Entering, 2);
            clock.advance(SECOND * (1 << 30));
            drop(release);
            holds.done();
            thread.done().expect("its limit has not passed");
            task.finish().expect("its limit has not passed");
        }
    }
}

/// One advance ends the waits of two threads and of two tasks with one limit.
#[test]
fn limits_that_pass_at_one_time_end_each_wait() {
    let clock = ManualClock::new();
    let builder = Interlock::builder().clock(clock.clock()).acquire_timeout(SECOND);
    let (interlock, holds, release) = held(builder.build());
    let (threads, tasks) =
        ([(); 2].map(|()| enters(&interlock)), [(); 2].map(|()| task_enters(&interlock)));
    until(&interlock, Entering, 4);
    clock.advance(SECOND);
    for task in tasks {
        timed_out(task.finish());
    }
    for thread in threads {
        timed_out(thread.done());
    }
    drop(release);
    holds.done();
}

/// The timer sleeps without a limit once no task waits. A later wait, with a later limit, wakes it again.
#[test]
fn the_timer_serves_the_limit_of_a_task_that_waits_after_an_idle_time() {
    let clock = ManualClock::new();
    let builder = Interlock::builder().clock(clock.clock()).acquire_timeout(SECOND);
    let (interlock, holds, release) = held(builder.build());
    for _ in 0..3 {
        let task = task_enters(&interlock);
        clock.advance(SECOND);
        timed_out(task.finish());
        // One that leaves before its limit.
        drop(task_enters(&interlock));
        clock.advance(10 * SECOND);
    }
    drop(release);
    holds.done();
}

/// A place in the interlock's table serves threads and tasks in turn.
#[test]
fn a_task_after_a_thread_is_a_task_and_may_move_between_threads() {
    let interlock = Interlock::new();
    Actor::enter(&interlock).leave();
    let theirs = interlock.clone();
    let mut task = Task::new(async move {
        let body = async |r: &mut cabrank::execution::interlock::Running<'_>| {
            crate::polling::yield_once().await;
            (r.load_async(async |_| ()).await, r.permit_loads_async(async {}).await)
        };
        theirs.run_async(body).await
    });
    assert!(task.poll().is_none());
    let dump = interlock.dump();
    assert!(dump.owners[0].thread.is_none(), "{dump}");
    let (loaded, permitted) = start(move || task.finish()).done().expect("no limit");
    assert!(loaded.is_ok() && permitted.is_ok());
    // And a thread after a task.
    let actor = Actor::enter(&interlock);
    let dump = interlock.dump();
    assert!(dump.owners[0].thread.is_some(), "{dump}");
    actor.order(|r| r.load(|_| ())).done().expect("it is alone");
    actor.leave();
}
