//! A key is forgotten or created during a look-up.
//!
//! Keys are hashed, compared and cloned without the lock (`looking_up.rs`). So a look-up takes two sections, and holds the
//! key in between.

use crate::models::resource_pool::rig::*;

/// A clear empties the key between the two sections of a look-up.
///
/// Guards the look at `held` in `Sub::is_unused`. Without it, another key gets the entry, and the borrower is
/// lent a resource of the wrong key. Asserted: the borrower is lent a resource of its own key in each of three cases.
/// The key is forgotten before the look-up, is held by it, or still has its resource.
#[test]
fn resource_key_forgotten_x_borrow() {
    let expected = ["1", "2", "3"];
    explore(Model("resource_key_forgotten_x_borrow", 10_799), &expected, |outcomes| {
        let rig = keyed(|b| b).reentrant();
        drop(rig.lend(Name("a")));
        let pool = rig.pool.clone();
        let other = spawn(move || {
            pool.clear_key(&Name("a"));
            use_one_of(&pool, Name("b"))
        });
        let number = use_one_of(&rig.pool, Name("a"));
        other.join().expect("no panic");
        outcomes.note(number.to_string());
        rig.end();
    });
}

/// A neighbour of the same hash is forgotten during a look-up.
///
/// Guards the look at `held` in `Sub::is_unused`: the look-up compares the neighbour first and goes on from
/// there. Guards the order in `State::hold_next`, which finds the next entry before it releases the previous one.
/// Without these, the look-up ends early, or creates the key a second time with its limits twice over. Asserted: one
/// key exists in the end, and the waiter is lent its resource.
#[test]
fn resource_colliding_key_x_borrow() {
    let expected = ["the neighbour there", "the neighbour gone"];
    explore_small(Model("resource_colliding_key_x_borrow", 5_440), &expected, |outcomes| {
        let rig = keyed(|b| b.max_active(1)).reentrant();
        let neighbour = rig.lend(Name("x1"));
        let lent = rig.lend(Name("x2"));
        let leaving = spawn(move || Borrowed::invalidate(neighbour));
        let mut behind = Box::pin(rig.pool.borrow_async(&Name("x2")));
        let waits = rig.reentry().poll_once(behind.as_mut()).is_pending();
        assert!(waits, "one of the key is lent, and that is the most");
        let there = rig.pool.num_keys() == 2;
        drop(lent);
        assert_eq!(rig.reentry().block_on(behind).expect("a resource").number, 2);
        leaving.join().expect("no panic");
        assert_eq!(rig.pool.num_keys(), 1);
        outcomes.note(if there { "the neighbour there" } else { "the neighbour gone" });
        rig.end();
    });
}

/// Two borrowers come for a key that the pool does not have yet.
///
/// Guards the look at the next entry in `State::new_key`. Without it, each borrower creates the key. Asserted: one
/// borrower creates the resource, and the other is lent the same one afterwards.
#[test]
fn resource_new_key_x_new_key() {
    let expected = ["1 and 1"];
    explore_small(Model("resource_new_key_x_new_key", 840), &expected, |outcomes| {
        let rig = keyed(|b| b.max_active(1)).reentrant();
        let pool = rig.pool.clone();
        let there = spawn(move || use_one_of(&pool, Name("a")));
        let here = use_one_of(&rig.pool, Name("a"));
        let there = there.join().expect("no panic");
        outcomes.note(format!("{here} and {there}"));
        assert_eq!(rig.pool.num_keys(), 1);
        assert_eq!(rig.end(), [1]);
    });
}
