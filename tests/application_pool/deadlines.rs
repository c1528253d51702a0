//! One limit counts from the call on, whatever user code the call runs meanwhile: each of these calls of user code
//! moves the clock before the deadline is looked at.

use crate::common::{Getting, Rig, SECOND, app, soon};
use cabrank::ManualClock;
use cabrank::application_pool::{Event, GetError};
use cabrank::in_memory::{Call, Spawn};
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Each such call of the pool takes this many seconds.
fn takes(rig: &Rig, slow: Call, seconds: u32) {
    let clock = rig.clock.clone();
    rig.spawner.on_call(move |call| {
        if call == slow {
            clock.advance(seconds * SECOND);
        }
    });
}

/// Returns whether a close with this limit has ended in time. A session stays open, so it ends with a late close only.
fn closes_late(rig: &Rig, seconds: u32) -> bool {
    let pool = rig.pool.clone();
    soon(move || pool.close_timeout(seconds * SECOND).is_err())
}

#[test]
fn a_slow_shut_down_counts_for_the_limit_of_a_close() {
    let rig = Rig::without_cleaner(|b| b);
    rig.idle(&app("x"), 1);
    let session = rig.get(&app("y"));
    takes(&rig, Call::ShutDown, 5);
    assert!(closes_late(&rig, 5));
    drop(session);
}

/// Two of them share the time of the close.
#[test]
fn all_shut_downs_of_a_close_have_one_limit() {
    let rig = Rig::without_cleaner(|b| b);
    drop((rig.get(&app("x")), rig.get(&app("y"))));
    let session = rig.get(&app("z"));
    takes(&rig, Call::ShutDown, 3);
    assert!(closes_late(&rig, 6));
    drop(session);
}

#[test]
fn a_slow_observer_counts_for_the_limit_of_a_close() {
    let (clock, slow) = (ManualClock::new(), Arc::new(AtomicBool::new(false)));
    let (time, is_slow) = (clock.clone(), slow.clone());
    let spawner = cabrank::in_memory::InMemorySpawner::new();
    let pool = cabrank::ApplicationPool::builder(spawner)
        .clock(clock.clock())
        .cleaner(false)
        .observer(move |_| {
            if is_slow.load(Ordering::SeqCst) {
                time.advance(5 * SECOND);
            }
        })
        .build()
        .expect("a valid pool");
    let session = pool.get(&app("x")).expect("a session");
    slow.store(true, Ordering::SeqCst);
    let theirs = pool.clone();
    assert!(soon(move || theirs.close_timeout(5 * SECOND).is_err()));
    drop(session);
}

/// The error counts the sessions after the deadline, not before the wait.
#[test]
fn a_late_close_says_what_is_left_after_its_deadline() {
    let rig = Rig::without_cleaner(|b| b.max(3));
    let (first, second) = (rig.get(&app("x")), rig.get(&app("y")));
    let pool = rig.pool.clone();
    let closing = std::thread::spawn(move || pool.close_timeout(5 * SECOND));
    rig.until(|| rig.pool.snapshot().closed);
    // The close waits by then, or comes late, which changes no outcome.
    std::thread::sleep(std::time::Duration::from_millis(20));
    drop(first);
    rig.until(|| rig.pool.counts().draining == 1 && rig.pool.counts().shutting_down == 0);
    crate::common::before_long(|| {
        rig.clock.advance(SECOND);
        closing.is_finished()
    });
    let left = closing.join().expect("no panic").expect_err("a session is open");
    assert_eq!((left.groups(), left.processes(), left.sessions()), (1, 1, 1));
    assert_eq!(left.left().groups[0].name, "/srv/y");
    drop(second);
}

/// A rig whose only process is busy, and whose spawner is slow from now on.
fn busy() -> (Rig, crate::common::Session) {
    let rig = Rig::without_cleaner(|b| b.max(1));
    let session = rig.get(&app("x"));
    (rig, session)
}

/// Each refused connection takes 3 s. The get then waits, and its time is over.
#[test]
fn slow_connects_that_fail_count_for_the_limit_of_a_get() {
    let rig = Rig::without_cleaner(|b| b.max(2));
    rig.idle(&app("x"), 2);
    rig.clock.advance(30 * SECOND); // They do not die early.
    rig.spawner.processes().iter().for_each(|process| process.kill());
    rig.spawner.next(Spawn::hang());
    takes(&rig, Call::Connect, 3);
    let pool = rig.pool.clone();
    let get = Getting::start(move || pool.get_timeout(&app("x"), 6 * SECOND));
    assert!(matches!(get.error(), GetError::TimedOut));
    assert_eq!(rig.pool.counts().waiting, 0);
}

/// The look takes 3 s, and the wait may take 2 s more.
#[test]
fn a_slow_look_counts_for_the_limit_of_a_get() {
    let clock: Arc<OnceLock<ManualClock>> = Arc::default();
    let time = clock.clone();
    let rig = Rig::new(|b| {
        b.max(1).cleaner(false).restart_files(move |file| {
            if let Some(clock) = time.get()
                && file.ends_with("restart.txt")
            {
                clock.advance(3 * SECOND);
            }
            Err(std::io::ErrorKind::NotFound.into())
        })
    });
    let _busy = rig.get(&app("x"));
    assert!(clock.set(rig.clock.clone()).is_ok());
    let pool = rig.pool.clone();
    let get = Getting::start(move || pool.get_timeout(&app("x"), 5 * SECOND));
    rig.eventually(|c| c.waiting == 1);
    rig.clock.advance(2 * SECOND);
    assert!(matches!(get.error(), GetError::TimedOut));
}

/// The queue time of a get begins with its wait, and a second wait has what is left of it.
#[test]
fn a_slow_connect_counts_for_the_time_in_the_queue_between_two_waits() {
    let (rig, session) = busy();
    let limited = app("x").with_max_queue_time(5 * SECOND);
    rig.clock.advance(30 * SECOND);
    let get = rig.queue_get(&limited);
    rig.spawner.processes()[0].kill();
    rig.spawner.next(Spawn::hang());
    takes(&rig, Call::Connect, 4);
    drop(session);
    rig.eventually(|c| c.waiting == 1 && c.spawning == 1);
    rig.clock.advance(SECOND);
    rig.pool.clean();
    assert!(matches!(get.error(), GetError::QueuedTooLong));
}

/// The observer is told of the whole time from the first wait on.
#[test]
fn a_wait_is_reported_from_its_beginning() {
    let (rig, session) = busy();
    rig.clock.advance(30 * SECOND);
    let get = rig.queue_get(&app("x"));
    rig.clock.advance(2 * SECOND);
    rig.spawner.processes()[0].kill();
    rig.spawner.next(Spawn::ready().held());
    takes(&rig, Call::Connect, 3);
    drop(session);
    rig.eventually(|c| c.waiting == 1 && c.spawning == 1);
    rig.clock.advance(7 * SECOND);
    rig.spawner.on_call(|_| {});
    rig.spawner.release();
    drop(get.session());
    let waited = rig.event(|event| match event {
        Event::Waited { waited, .. } if *waited > SECOND => Some(*waited),
        _ => None,
    });
    assert_eq!(waited, 12 * SECOND);
}
