//! A borrower takes the place of another key's idle thing, while somebody comes for that very thing.
//!
//! Guards `State::grant_new`, which takes the victim out of stock and gives its place to the newcomer in one
//! section, and has it destroyed before anything is made. Without that, the thing is lent and destroyed, or
//! there are two where one may be. Asserted: there is never more than one; the borrower of the key is lent
//! the idle thing, or a new one after the newcomer's has left in its turn; both are served.

use crate::models::resource_pool::rig::*;

#[test]
fn resource_key_eviction_x_borrow() {
    let expected = ["the idle one", "the victim of the victim's"];
    explore_small("resource_key_eviction_x_borrow", &expected, |outcomes| {
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
