//! A waiting future is dropped while a permit is given back, with another waiter behind it.
//!
//! Guards the drop of `Turn`: a waiter gives up a permit that it was granted and never took, and the next in line
//! gets it. Without that, the waiter behind waits for ever. Asserted: the waiter behind is served, and no permit is
//! lost or left over.

use super::rig::Permits;
use crate::kernel::section::Patience;
use crate::models::rig::*;
use std::pin::pin;

#[test]
fn section_cancel_x_grant() {
    let expected = ["dropped granted", "dropped waiting"];
    explore_small(Model("section_cancel_x_grant", 2958), &expected, |outcomes| {
        let permits = Permits::new(0);
        let mut first = Box::pin(permits.take(Patience::Task));
        let mut behind = pin!(permits.take(Patience::Task));
        assert!(permits.reentry.poll_once(first.as_mut()).is_pending());
        let theirs = permits.clone();
        let giver = spawn(move || theirs.give());
        let granted = !permits.is_waited_for();
        assert!(permits.reentry.poll_once(behind.as_mut()).is_pending());
        drop(first);
        assert_eq!(permits.reentry.block_on(behind), Some(true));
        giver.join().expect("no panic");
        assert_eq!(permits.free(), 0);
        outcomes.note(if granted { "dropped granted" } else { "dropped waiting" });
    });
}
