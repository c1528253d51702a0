//! The limits are raised while a get waits, and lowered while a process is spawned (errata E3, E20).

use super::rig::*;
use crate::sync::explore::Outcomes;

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

/// Guards the second look at the room in `State::welcome`, that at `max`: without it, there are more processes than
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
