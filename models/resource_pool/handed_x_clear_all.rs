//! All is cleared while a waiter comes for what it was handed.
//!
//! Guards the look at what was handed over (`State::come_for`). Without it, the waiter is lent what was to be lent no
//! more, however long ago that was (PROP-RP-CLEAR-ALL). Asserted: who comes before the clear is lent the old
//! thing, which is destroyed when it comes back; who comes after it makes another in its place, once the old one is
//! destroyed, and that one stays; one that comes beside it does either.

use crate::models::resource_pool::rig::*;
use std::pin::pin;

#[test]
fn resource_handed_x_clear_all() {
    let expected = ["lent another", "lent before the clear"];
    explore_small("resource_handed_x_clear_all", &expected, |outcomes| {
        let rig = unkeyed(|b| b.max_active(1).max_total(1)).reentrant();
        let lent = rig.lend();
        let mut waiter = pin!(rig.pool.borrow_async());
        assert!(rig.door().poll_once(waiter.as_mut()).is_pending());
        drop(lent);
        let (pool, cleared) = (rig.pool.clone(), Bell::new());
        let theirs = cleared.clone();
        let clearing = spawn(move || {
            pool.clear_all();
            theirs.ring();
        });
        let before = cleared.rung() > 0;
        let lent = rig.door().block_on(waiter).expect("a thing");
        clearing.join().expect("no panic");
        outcomes.note(match lent.number {
            1 if before => panic!("lent after the clear"),
            1 => "lent before the clear",
            _ => "lent another",
        });
        let number = lent.number;
        drop(lent);
        let stays = number as usize - 1;
        assert_eq!((rig.counts(), rig.factory.gone()), ((0, stays, stays), vec![1]));
        assert_eq!(rig.factory.most(), 1, "more than max_total");
        rig.end();
    });
}
