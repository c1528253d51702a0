//! A key is forgotten, or made, while it is looked up.
//!
//! Keys are hashed, compared and cloned outside the lock (`keys.rs`), so a look-up takes two sections, and
//! holds the key in between.

use crate::models::resource_pool::rig::*;

/// Guards the look at `held` in `State::forget_if_empty`: between the two sections, nothing is left of the
/// key. Without it, its number is given to another, and the borrower is lent a thing of the wrong key. Asserted:
/// it is lent one of its own, whether the key was forgotten before, could not be in between, or had things left.
#[test]
fn resource_key_forgotten_x_borrow() {
    let expected = ["1", "2", "3"];
    explore("resource_key_forgotten_x_borrow", &expected, |outcomes| {
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

/// Two keys of one hash. Guards the look at `held`, too: the one that is compared first is to be forgotten, and
/// what follows it in the list would be lost. Guards the order in `State::hold_next`, which lets go of the one
/// after it has found the next. Without these, the look-up ends where it was, or the key is made a second time,
/// with its limits twice over. Asserted: there is one key in the end, and never two things of it.
#[test]
fn resource_colliding_key_x_borrow() {
    let expected = ["the neighbour there", "the neighbour gone"];
    explore_small("resource_colliding_key_x_borrow", &expected, |outcomes| {
        let rig = keyed(|b| b.max_active(1)).reentrant();
        let neighbour = rig.lend(Name("x1"));
        let lent = rig.lend(Name("x2"));
        let leaving = spawn(move || Borrowed::invalidate(neighbour));
        let mut behind = Box::pin(rig.pool.borrow_async(&Name("x2")));
        let waits = rig.door().poll_once(behind.as_mut()).is_pending();
        assert!(waits, "one of the key is lent, and that is the most");
        let there = rig.pool.num_keys() == 2;
        drop(lent);
        assert_eq!(rig.door().block_on(behind).expect("a thing").number, 2);
        leaving.join().expect("no panic");
        assert_eq!(rig.pool.num_keys(), 1);
        outcomes.note(if there { "the neighbour there" } else { "the neighbour gone" });
        rig.end();
    });
}

/// Two come for a key that there is nothing of. Guards the look at what follows in `State::new_key`.
/// Without it, each makes the key. Asserted: one is lent a thing that is made, and the other the same thing,
/// after it.
#[test]
fn resource_new_key_x_new_key() {
    let expected = ["1 and 1"];
    explore_small("resource_new_key_x_new_key", &expected, |outcomes| {
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
