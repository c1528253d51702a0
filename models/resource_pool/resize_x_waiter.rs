//! A limit changes beside a waiter or a return.

use crate::models::resource_pool::rig::*;
use std::pin::pin;

/// A limit is raised beside a waiter.
///
/// Guards the settling in `State::fit`. Without it, the waiter sleeps until a resource comes back, which here happens
/// only after the waiter was served. Asserted: the waiter is lent a second resource.
#[test]
fn resource_raise_x_waiter() {
    explore_small(Model("resource_raise_x_waiter", 10), &["raised first", "waited"], |outcomes| {
        let rig = unkeyed(|b| b.max_active(1)).reentrant();
        let lent = rig.lend();
        let pool = rig.pool.clone();
        let waiter = spawn(move || use_one(&pool));
        let waits = rig.pool.num_waiting() == 1;
        rig.pool.set_max_active(2).expect("a valid limit");
        assert_eq!(waiter.join().expect("no panic"), 2);
        outcomes.note(if waits { "waited" } else { "raised first" });
        drop(lent);
        assert_eq!(rig.end(), [1, 2]);
    });
}

/// A limit is raised beside a waiter of a keyed pool, where a key is in line only while its own limits leave room.
///
/// Guards that `State::fit` updates the line for each key. Without that, the key is passed over for ever.
#[test]
fn resource_raise_x_keyed_waiter() {
    let expected = ["raised first", "waited"];
    explore_small(Model("resource_raise_x_keyed_waiter", 15), &expected, |outcomes| {
        let rig = keyed(|b| b.max_active(1)).reentrant();
        let lent = rig.lend(Name("a"));
        let pool = rig.pool.clone();
        let waiter = spawn(move || use_one_of(&pool, Name("a")));
        let waits = rig.pool.num_waiting() == 1;
        rig.pool.set_max_active(2).expect("a valid limit");
        assert_eq!(waiter.join().expect("no panic"), 2);
        outcomes.note(if waits { "waited" } else { "raised first" });
        drop(lent);
        assert_eq!(rig.end(), [1, 2]);
    });
}

/// `max_total` is lowered beside the return of a surplus resource.
///
/// Guards the look at `State::has_too_many` in `State::must_leave`. Without it, a resource that comes back after the
/// change stays. Guards the eviction in `State::fit`. Without it, a resource that came back before the change stays.
/// Asserted: the surplus resource leaves in either order, and the next return stays.
#[test]
fn resource_lower_x_return() {
    explore_small(
        Model("resource_lower_x_return", 14),
        &["lowered first", "returned first"],
        |outcomes| {
            let rig = unkeyed(|b| b.max_active(2)).reentrant();
            let (one, two) = (rig.lend(), rig.lend());
            let returning = spawn(move || drop(two));
            let returned = rig.pool.num_idle() == 1;
            rig.pool.set_max_total(1).expect("a valid limit");
            returning.join().expect("no panic");
            outcomes.note(if returned { "returned first" } else { "lowered first" });
            assert_eq!(rig.factory.gone(), [2]);
            drop(one);
            assert_eq!(rig.counts(), (0, 1, 1));
            assert_eq!(rig.end(), [1, 2]);
        },
    );
}

/// `max_active`, and with it `max_idle`, is lowered while two resources come back beside a waiter.
///
/// Guards the eviction in `State::fit`, and `State::trim` at the end of a section (`settle.rs`). Without them, the idle
/// list exceeds its limit (INV-RP-MAX-IDLE). Asserted: the waiter is lent one of the two, and one is left in the end.
#[test]
fn resource_lower_x_return_x_waiter() {
    let expected = ["lent 1", "lent 2"];
    explore_small(Model("resource_lower_x_return_x_waiter", 3_884), &expected, |outcomes| {
        let rig = unkeyed(|b| b.max_active(2)).reentrant();
        let (one, two) = (rig.lend(), rig.lend());
        let mut waiter = pin!(rig.pool.borrow_async());
        assert!(rig.reentry().poll_once(waiter.as_mut()).is_pending());
        let returning = spawn(move || {
            drop(one);
            drop(two);
        });
        rig.pool.set_max_active(1).expect("a valid limit");
        let number = rig.reentry().block_on(waiter).expect("a resource").number;
        returning.join().expect("no panic");
        outcomes.note(format!("lent {number}"));
        assert_eq!(rig.counts(), (0, 1, 1));
        assert_eq!(rig.end(), [1, 2]);
    });
}
