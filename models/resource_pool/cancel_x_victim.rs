//! A future was given the place of another key's idle thing, and is dropped.
//!
//! Guards the end of `State::return_grant`: the victim, not destroyed yet, gets its place again. Without
//! that, a borrower that gives up costs another key its stock; with its place counted once too often or too
//! seldom, the total is wrong from then on (INV-RP-COUNTS). Asserted: the thing is not destroyed, whether
//! the future was dropped before it came back or after, and is lent to the next borrower of its key.

use crate::models::resource_pool::rig::*;

#[test]
fn resource_cancel_x_victim() {
    let expected = ["dropped served", "dropped waiting"];
    explore_small("resource_cancel_x_victim", &expected, |outcomes| {
        let rig = keyed(|b| b.max_total(1)).reentrant();
        let lent = rig.lend(Name("a"));
        let mut other = Box::pin(rig.pool.borrow_async(&Name("b")));
        assert!(rig.door().poll_once(other.as_mut()).is_pending());
        let returning = spawn(move || drop(lent));
        let served = rig.pool.num_waiting() == 0;
        drop(other);
        returning.join().expect("no panic");
        outcomes.note(if served { "dropped served" } else { "dropped waiting" });
        assert_eq!(rig.counts(), (0, 1, 1));
        assert_eq!(use_one_of(&rig.pool, Name("a")), 1);
        assert_eq!(rig.end(), [1]);
    });
}
