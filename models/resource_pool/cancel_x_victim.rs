//! A future is granted the place of another key's idle resource, and is dropped.
//!
//! Guards the last part of `State::return_grant`, which spares the victim: it is not destroyed yet, and gets its
//! place back. Otherwise a borrower that gives up costs another key an idle resource. A place counted twice or not
//! at all makes the total wrong from then on (INV-RP-COUNTS).
//!
//! Asserted: the victim survives, whether the future is dropped before the grant or after it. The next borrower of
//! its key gets it.

use crate::models::resource_pool::rig::*;

#[test]
fn resource_cancel_x_victim() {
    let expected = ["dropped served", "dropped waiting"];
    explore_small(Model("resource_cancel_x_victim", 43), &expected, |outcomes| {
        let rig = keyed(|b| b.max_total(1)).reentrant();
        let lent = rig.lend(Name("a"));
        let mut other = Box::pin(rig.pool.borrow_async(&Name("b")));
        assert!(rig.reentry().poll_once(other.as_mut()).is_pending());
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
