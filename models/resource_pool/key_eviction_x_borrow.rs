//! A newcomer evicts another key's idle resource, beside a borrower of that key.
//!
//! Guards `State::grant_new`: it takes the victim out of the idle list and gives its place to the newcomer in one
//! section. Guards also that the newcomer destroys the victim before it creates. Without these, the victim is lent
//! and destroyed, or two resources exist where one may. Asserted: both borrowers are served, and at most one resource
//! exists. The key's borrower is lent the idle resource, or a new one after the newcomer's was evicted in turn.

use crate::models::resource_pool::rig::*;

#[test]
fn resource_key_eviction_x_borrow() {
    let expected = ["the idle one", "the victim of the victim's"];
    explore_small(Model("resource_key_eviction_x_borrow", 441), &expected, |outcomes| {
        let rig = keyed(|b| b.max_total(1)).reentrant();
        drop(rig.lend(Name("a")));
        let pool = rig.pool.clone();
        let newcomer = spawn(move || use_one_of(&pool, Name("b")));
        let number = use_one_of(&rig.pool, Name("a"));
        let theirs = newcomer.join().expect("no panic");
        outcomes.note(match (number, theirs) {
            (1, 2) => "the idle one",
            (3, 2) => "the victim of the victim's",
            other => panic!("{other:?}"),
        });
        assert_eq!(rig.factory.most(), 1, "more than max_total");
        assert_eq!(rig.counts(), (0, 1, 1));
        rig.end();
    });
}
