//! The limits are raised while a get waits, and lowered while a process is spawned (errata E3, E20).

use crate::kernel::sync::{me, thread};
use crate::models::rig::*;
use crate::models::tool::explore::Outcomes;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Guards `State::mutate_max`: it serves the gets that can now proceed. Without that, the get waits until a session
/// closes, which here comes after it. Asserted: a second process serves it.
#[test]
fn set_max_x_waiter() {
    explore_small(Model("set_max_x_waiter", 368), &["raised first", "waited"], |outcomes| {
        raised_x_waiter(Rig::new(|b| b.max(1)), outcomes, |pool| {
            pool.set_max(2).expect("not zero")
        });
    });
}

/// Guards `State::mutate_max_per_app`, which the pseudocode lacks: without it, the get is never woken.
#[test]
fn set_max_per_app_x_waiter() {
    explore(Model("set_max_per_app_x_waiter", 368), &["raised first", "waited"], |outcomes| {
        let rig = Rig::new(|b| b.max(2).max_per_app(1));
        raised_x_waiter(rig, outcomes, |pool| pool.set_max_per_app(2).expect("not zero"));
    });
}

/// Guards the comparison with `max` when a process is attached (`State::attach_if_room`). Without it, the pool may
/// exceed a limit that was lowered during the spawn. Asserted: a new process without room is disposed of.
#[test]
fn lowered_max_x_spawn() {
    explore(Model("lowered_max_x_spawn", 603), &["attached", "disposed of"], |outcomes| {
        let rig = Rig::new(|b| b.max(2)).reentrant();
        lowered_x_spawn(rig, outcomes, |pool| pool.set_max(1).expect("not zero"));
    });
}

/// Guards the comparison with `max_per_app` in the same place: without it, the group gets one process too many. Under
/// loom user code does not re-enter the pool here: in the model above it does, in the same places.
#[test]
fn lowered_max_per_app_x_spawn() {
    explore(Model("lowered_max_per_app_x_spawn", 126), &["attached", "disposed of"], |outcomes| {
        let rig = Rig::new(|b| b.max(2));
        lowered_x_spawn(rig, outcomes, |pool| {
            pool.set_max_per_app(1).expect("not zero");
        });
    });
}

/// Guards that spawns in flight still take room from a lowered `max` (`reserved` in `State::attach_if_room`). Without
/// it, the first of two spawns to end is attached while the other is in flight. The pool then exceeds its limit until
/// that one ends.
///
/// One of the two spawns runs on the thread that starts it, and lowers `max` within it. The other ends before that,
/// after it, or in between. Asserted: once the first has ended, the pool keeps its limit. User code does not re-enter
/// the pool under loom.
#[test]
fn lowered_max_x_two_spawns() {
    explore(
        Model("lowered_max_x_two_spawns", 480),
        &["one ended before", "two in flight"],
        |outcomes| {
            let rig = Rig::new(|b| b.max(2));
            assert!(rig.pool.try_get(&app("a")).is_err(), "the first get finds no process");
            let in_flight = Arc::new(AtomicUsize::new(0));
            let (here, weak, theirs) = (me(), rig.pool.downgrade(), in_flight.clone());
            rig.on_call(move |call| {
                if (call, me()) == (Call::Spawn, here)
                    && let Some(pool) = weak.upgrade()
                {
                    let reserved = pool.inner().critical(|state, _| {
                        state.mutate_max(1);
                        state.reserved
                    });
                    theirs.store(reserved, Ordering::Relaxed);
                }
            });
            assert!(
                thread::inline(|| rig.pool.try_get(&app("b"))).is_err(),
                "the second get finds no process either"
            );
            let after = rig.pool.counts();
            outcomes.note(match in_flight.load(Ordering::Relaxed) {
                1 => "one ended before",
                _ => {
                    assert_eq!(after.count + after.spawning, 1, "above the limit");
                    "two in flight"
                }
            });
            // In this order, because the end of the pool would detach the groups in any order.
            for name in ["/a", "/b"] {
                assert!(rig.pool.detach_group(name));
            }
        },
    );
}

/// Guards the look at `max_per_app` in `State::grow`. Without it, a group whose get waits for room in the pool spawns beyond
/// a limit that was lowered since. Asserted: the get has its session from the only process, unless `max` was raised before.
#[test]
fn lowered_max_per_app_x_waiter() {
    let expected = ["lowered first", "raised first"];
    explore(Model("lowered_max_per_app_x_waiter", 1_119), &expected, |outcomes| {
        let rig = Rig::new(|b| b.max(1));
        let session = rig.session(&app("a"));
        let waiting = app("a");
        let mut waiter = pin!(rig.pool.get_async(&waiting));
        assert!(rig.reentry.poll_once(waiter.as_mut()).is_pending());
        let pool = rig.pool.clone();
        let raising = spawn(move || {
            pool.inner().critical(|state, _| {
                state.mutate_max(2);
                state.max_per_app.is_some()
            })
        });
        rig.pool.set_max_per_app(1).expect("not zero");
        let lowered_first = raising.join().expect("no panic");
        let counts = rig.pool.counts();
        assert!(!lowered_first || counts.count + counts.spawning == 1, "above the limit");
        drop(session);
        drop(rig.reentry.block_on(waiter).expect("a session"));
        outcomes.note(if lowered_first { "lowered first" } else { "raised first" });
    });
}

/// Gets a second session while `raise` raises a limit to two.
fn raised_x_waiter(rig: Rig, outcomes: &Outcomes, raise: impl Fn(&Pool)) {
    let rig = rig.reentrant().with_reentrant_observer();
    let session = rig.session(&app("a"));
    let pool = rig.pool.clone();
    let getter = spawn(move || pool.get(&app("a")).expect("a session").pid());
    let waits = rig.pool.counts().waiting == 1;
    raise(&rig.pool);
    assert_eq!(getter.join().expect("no panic"), 2);
    outcomes.note(if waits { "waited" } else { "raised first" });
    drop(session);
    assert_eq!(rig.counts(), (0, 2));
}

/// Spawns a second process while `lower` lowers a limit to one.
fn lowered_x_spawn(rig: Rig, outcomes: &Outcomes, lower: impl Fn(&Pool)) {
    let session = rig.session(&app("a"));
    assert!(rig.pool.try_get(&app("a")).is_err(), "the process is busy");
    lower(&rig.pool);
    let in_flight = rig.pool.counts().spawning == 1;
    rig.pool.close();
    let attached = rig.attached_and_detached() == 2;
    assert!(!(in_flight && attached), "attached though the limit is lower");
    outcomes.note(if attached { "attached" } else { "disposed of" });
    drop(session);
    assert_eq!(rig.end(), [1, 2]);
}
