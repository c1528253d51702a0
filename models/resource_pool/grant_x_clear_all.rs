//! `clear_all` runs while a waiter picks up its grant.
//!
//! Guards that the waiter checks its grant (`State::pick_up_later`). Without that, it is lent a resource that was
//! cleared, however long ago (PROP-RP-CLEAR-ALL). Asserted: a waiter that picks it up before the clear is lent the old
//! resource, which is destroyed on its return. A waiter that comes after the clear creates another in its place, once
//! the old one is destroyed; that one stays. A waiter that comes during the clear does either.

use crate::models::resource_pool::rig::*;
use std::pin::pin;

#[test]
fn resource_grant_x_clear_all() {
    let expected = ["lent another", "lent before the clear"];
    explore_small(Model("resource_grant_x_clear_all", 26), &expected, |outcomes| {
        let rig = unkeyed(|b| b.max_active(1).max_total(1)).reentrant();
        let lent = rig.lend();
        let mut waiter = pin!(rig.pool.borrow_async());
        assert!(rig.reentry().poll_once(waiter.as_mut()).is_pending());
        drop(lent);
        let (pool, cleared) = (rig.pool.clone(), Counter::new());
        let theirs = cleared.clone();
        let clearing = spawn(move || {
            pool.clear_all();
            theirs.up();
        });
        let before = cleared.count() > 0;
        let lent = rig.reentry().block_on(waiter).expect("a resource");
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
