//! The limit for the time in the queue, apart from the caller's own.

use crate::common::{Rig, SECOND, app, before_long};
use cabrank::PoolOptions;
use cabrank::application_pool::GetError;
use cabrank::in_memory::{Call, Spawn};

fn limited(name: &str) -> PoolOptions {
    app(name).with_max_queue_time(2 * SECOND)
}

#[test]
fn a_get_fails_when_its_time_in_the_queue_ends() {
    let rig = Rig::new(|b| b.max(1));
    let busy = rig.get(&limited("x"));
    let thread = rig.queue_get(&limited("x"));
    let mut task = rig.task(&limited("x"));
    assert!(task.poll().is_none());
    rig.clock.advance(SECOND);
    let later = rig.queue_get(&limited("x"));
    let mut unlimited = rig.task(&app("y"));
    assert!(unlimited.poll().is_none());
    rig.clock.advance(SECOND);
    assert!(matches!(thread.error(), GetError::QueuedTooLong));
    before_long(|| task.wakes() == 1);
    assert!(matches!(task.poll(), Some(Err(GetError::QueuedTooLong))));
    assert_eq!(rig.pool.counts().waiting, 2, "the others have time left, or no limit");
    drop(busy);
    drop(unlimited.finish().expect("a session"));
    drop(later.session());
}

/// The caller's own limit ends the wait first.
#[test]
fn a_get_has_its_own_limit_as_well() {
    let rig = Rig::new(|b| b.max(1));
    let _busy = rig.get(&limited("x"));
    let pool = rig.pool.clone();
    let late = std::thread::spawn(move || pool.get_timeout(&limited("x"), SECOND).err());
    rig.eventually(|c| c.waiting == 1);
    rig.clock.advance(SECOND);
    assert!(matches!(late.join().expect("no panic"), Some(GetError::TimedOut)));
}

/// It fails although its group is being spawned for, and a later get is served by that process.
#[test]
fn a_slow_spawn_counts_as_time_in_the_queue() {
    let rig = Rig::new(|b| b.max(1));
    rig.spawner.next(Spawn::ready().held());
    let early = rig.queue_get(&limited("x"));
    rig.clock.advance(2 * SECOND);
    assert!(matches!(early.error(), GetError::QueuedTooLong));
    rig.spawner.release();
    drop(rig.get(&limited("x")));
    assert_eq!(rig.spawner.begun(), 1);
}

/// A group that wanted a place for such a get alone wants it no longer: no process is evicted for it.
#[test]
fn a_get_whose_time_has_ended_needs_no_place() {
    let rig = Rig::new(|b| b.max(1));
    let busy = rig.get(&app("x"));
    let waits = rig.queue_get(&limited("y"));
    rig.clock.advance(2 * SECOND);
    assert!(matches!(waits.error(), GetError::QueuedTooLong));
    drop(busy);
    assert_eq!(rig.counts(), (0, 1), "x keeps its process");
}

/// A get that waits again, because its process has crashed, gets no more time (E38).
#[test]
fn a_get_that_waits_again_has_one_limit() {
    let rig = Rig::new(|b| b.max(1));
    let busy = rig.get(&limited("x"));
    let gate = rig.gate_at(Call::Connect);
    let waits = rig.queue_get(&limited("x"));
    rig.clock.advance(SECOND);
    drop(busy);
    gate.await_arrivals(1);
    for process in rig.spawner.processes() {
        process.kill();
    }
    rig.spawner.next(Spawn::ready().held());
    gate.open();
    rig.eventually(|c| c.waiting == 1);
    rig.clock.advance(SECOND);
    assert!(matches!(waits.error(), GetError::QueuedTooLong));
}
