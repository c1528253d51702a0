//! A refill for the minimum fails, while another thread maintains the pool too.
//!
//! Guards `Refilling::failed`: it notes the failure while the place is still taken. If the place were free before,
//! the other thread would find the key below its minimum without a back-off, and retry at once. Asserted: one of the
//! two threads tries to create, once. After the back-off the minimum is reached.

use crate::models::resource_pool::rig::*;
use std::sync::{Arc, Mutex};

#[test]
fn resource_failed_refill_x_maintenance() {
    let expected = ["this one failed", "the other failed"];
    explore(Model("resource_failed_refill_x_maintenance", 6_252), &expected, |outcomes| {
        let rig = unkeyed(|b| b.min_idle(1)).reentrant();
        rig.factory.next(&[Make::Fail]);
        let me = crate::kernel::sync::me();
        let tries = Arc::new(Mutex::new(Vec::new()));
        let theirs = tries.clone();
        rig.factory.on_call(move |call| {
            if call == Call::Create {
                let mine = crate::kernel::sync::me() == me;
                theirs.lock().expect("no panic").push(mine);
            }
        });
        let pool = rig.pool.clone();
        let maintenance = spawn(move || pool.maintain());
        rig.pool.maintain();
        maintenance.join().expect("no panic");
        let tries = std::mem::take(&mut *tries.lock().expect("no panic"));
        assert_eq!((tries.len(), rig.counts()), (1, (0, 0, 0)), "tried again at once");
        outcomes.note(if tries[0] { "this one failed" } else { "the other failed" });
        rig.clock.advance(SECOND / 2);
        rig.pool.maintain();
        assert_eq!(rig.counts(), (0, 1, 1));
        rig.end();
    });
}
