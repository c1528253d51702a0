//! A borrower of an asynchronous pool without a runtime creates, and gives up, while another waits.
//!
//! Guards `InCreation`: a creation that no borrower polls must not keep its place.
//!
//! Asserted: each borrower is served, and at the end the counts are those of the resources.

use crate::models::resource_pool::rig::*;
use crate::models::resource_pool::slow::*;

/// The first borrower leaves its creation, which is dropped, while the gate opens.
///
/// Guards that the drop of `InCreation` gives the place back, and only then: the second borrower, which waits, creates.
#[test]
fn resource_creation_cancelled_x_borrow() {
    let expected = ["created at once", "still to be created"];
    explore_small(Model("resource_creation_cancelled_x_borrow", 1_446), &expected, |outcomes| {
        let (slow, pool) = Slow::pool(Gate::Shut, |b| b.max_active(1));
        let first = slow.begin(borrow(pool.clone()));
        let behind = slow.begin(borrow(pool.clone()));
        let theirs = slow.clone();
        let opening = spawn(move || theirs.turn(Gate::Open));
        drop(first);
        let open = slow.gate() == Gate::Open;
        outcomes.note(if open { "created at once" } else { "still to be created" });
        let lent = slow.reentry.block_on(behind).expect("a number");
        assert_eq!((*lent, slow.begun()), (2, 2));
        drop(lent);
        opening.join().expect("no panic");
        slow.end(&pool);
    });
}
