//! Two callers wait for the end of the pool while an empty pool is closed (erratum E32).
//!
//! Guards the loop in `State::notify_if_ended`: one end wakes each caller in its queue. With one wake-up, the second
//! caller sleeps until its deadline. Asserted: both callers return, whether they slept or came late.

use crate::application_pool::End;
use crate::models::rig::*;

const WAYS: [&str; 3] = ["none waited", "one waited", "both waited"];

#[test]
fn two_waits_x_close() {
    explore(Model("two_waits_x_close", 5_813), &WAYS, |outcomes| {
        let (rig, end) = (Rig::new(|b| b.max(1)), End::OfEverything as usize);
        let waiters = [(); 2].map(|()| {
            let pool = rig.pool.clone();
            spawn(move || pool.wait_closed(DRAIN))
        });
        let waiting = rig.pool.inner().critical(|state, _| state.ends[end].len());
        outcomes.note(WAYS[waiting]);
        rig.pool.close();
        for waiter in waiters {
            assert!(waiter.join().expect("no panic"), "the pool has ended, but one was not woken");
        }
    });
}
