//! The limits are raised while a get waits, and lowered while a process is spawned (errata E3, E20).

use crate::models::rig::*;
use crate::sync::explore::Outcomes;
use crate::sync::{me, thread};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Guards `State::mutate_max`: whoever can now proceed is served. Without that, the get waits until a
/// session is closed, which here comes after it. Asserted: it is served by a second process.
#[test]
fn set_max_x_waiter() {
    explore_small("set_max_x_waiter", &["raised first", "waited"], |outcomes| {
        let rig = Rig::new(|b| b.max(1)).reentrant().with_reentrant_observer();
        let session = rig.session(&app("a"));
        let pool = rig.pool.clone();
        let getter = spawn(move || pool.get(&app("a")).expect("a session").pid());
        let waits = rig.pool.counts().waiting == 1;
        rig.pool.set_max(2).expect("not zero");
        assert_eq!(getter.join().expect("no panic"), 2);
        outcomes.note(if waits { "waited" } else { "raised first" });
        drop(session);
        assert_eq!(rig.counts(), (0, 2));
    });
}

/// Guards `State::mutate_max_per_app`, which the text does not have: without it, nobody tells the get.
#[test]
fn set_max_per_app_x_waiter() {
    explore("set_max_per_app_x_waiter", &["raised first", "waited"], |outcomes| {
        let rig = Rig::new(|b| b.max(2).max_per_app(1)).reentrant().with_reentrant_observer();
        let session = rig.session(&app("a"));
        let pool = rig.pool.clone();
        let getter = spawn(move || pool.get(&app("a")).expect("a session").pid());
        let waits = rig.pool.counts().waiting == 1;
        rig.pool.set_max_per_app(2);
        assert_eq!(getter.join().expect("no panic"), 2);
        outcomes.note(if waits { "waited" } else { "raised first" });
        drop(session);
        assert_eq!(rig.counts(), (0, 2));
    });
}

/// Guards the second look at the room in `State::attach_if_room`, that at `max`: without it, there are more processes than
/// the limit that holds when the newcomer is attached. Asserted: a newcomer for which there is no room
/// any more is disposed of.
#[test]
fn lowered_max_x_spawn() {
    explore("lowered_max_x_spawn", &["attached", "disposed of"], |outcomes| {
        let rig = Rig::new(|b| b.max(2)).reentrant();
        lowered_x_spawn(rig, outcomes, |pool| pool.set_max(1).expect("not zero"));
    });
}

/// Guards its other half, that at `max_per_app`: without it, the group has one more than it may have. Under loom
/// foreign calls do not re-enter the pool here: in the model above they do, in the same places.
#[test]
fn lowered_max_per_app_x_spawn() {
    explore("lowered_max_per_app_x_spawn", &["attached", "disposed of"], |outcomes| {
        let rig = Rig::new(|b| b.max(2));
        lowered_x_spawn(rig, outcomes, |pool| pool.set_max_per_app(1));
    });
}

/// Guards that what is in flight still takes room from a lowered `max` (`reserved` in `State::attach_if_room`): without it, the
/// first of two to end is attached beside the other in flight, and the two are above the limit until that has ended,
/// too. Asserted: with the first that ends the pool has sunk to its limit. One of the two runs to its end where it is
/// started, and `max` is lowered within it: the other ends before that, or after it, or in between. Foreign calls
/// do not re-enter the pool under loom.
#[test]
fn lowered_max_x_two_spawns() {
    explore("lowered_max_x_two_spawns", &["one ended before", "two in flight"], |outcomes| {
        let rig = Rig::new(|b| b.max(2));
        assert!(rig.pool.try_get(&app("a")).is_err(), "the first get finds no process");
        let in_flight = Arc::new(AtomicUsize::new(0));
        let (here, weak, theirs) = (me(), rig.pool.downgrade(), in_flight.clone());
        rig.on_call(move |call| {
            if (call, me()) == (Call::Spawn, here)
                && let Some(pool) = weak.upgrade()
            {
                let reserved = pool.inner().critical(|state, fx| {
                    state.mutate_max(1, fx);
                    state.reserved
                });
                theirs.store(reserved, Ordering::Relaxed);
            }
        });
        assert!(thread::inline(|| rig.pool.try_get(&app("b"))).is_err(), "nor does this");
        let after = rig.pool.counts();
        outcomes.note(match in_flight.load(Ordering::Relaxed) {
            1 => "one ended before",
            _ => {
                assert_eq!(after.count + after.spawning, 1, "above the limit");
                "two in flight"
            }
        });
        // In this order: the end of the pool would go through them in any.
        for name in ["/a", "/b"] {
            assert!(rig.pool.detach_group(name));
        }
    });
}

/// A second process is spawned while a limit is lowered to one.
fn lowered_x_spawn(rig: Rig, outcomes: &Outcomes, lower: impl Fn(&Pool)) {
    let session = rig.session(&app("a"));
    assert!(rig.pool.try_get(&app("a")).is_err(), "it is busy");
    lower(&rig.pool);
    let in_flight = rig.pool.counts().spawning == 1;
    rig.pool.close();
    let attached = rig.pool.snapshot().totals.detached == 2;
    assert!(!(in_flight && attached), "attached though the limit is lower");
    outcomes.note(if attached { "attached" } else { "disposed of" });
    drop(session);
    assert_eq!(rig.end(), [1, 2]);
}
