//! Clearing, keeping some, closing, and handles that keep nothing open (rulings 5 and 6).

use crate::common::pool;

#[test]
fn a_clear_of_all_takes_what_is_idle_too() {
    let rig = pool(|b| b);
    let [lent, idle] = rig.lend_all();
    drop(idle);
    rig.pool.clear_all();
    assert_eq!((rig.counts(), rig.script.alive()), ((1, 0), 1));
    drop(lent);
    assert_eq!((rig.counts(), rig.script.alive()), ((0, 0), 0));
}
