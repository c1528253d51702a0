//! A guard is dropped on another thread than its own, while a load waits for its share.
//!
//! Guards `Running::drop`, which knows its owner and not its thread, and serves the waiters after it. Without either,
//! the load waits for ever. Asserted: the load is granted, at once or after waiting.

use crate::models::interlock::rig::*;

#[test]
fn interlock_drop_on_other_thread() {
    let expected = ["load waited", "no wait"];
    explore("interlock_drop_on_other_thread", &expected, |outcomes| {
        let (interlock, world) = (Interlock::new(), World::new());
        let moved = interlock.enter();
        let theirs = world.clone();
        let thread = spawn(move || {
            theirs.runs();
            drop(moved);
        });
        interlock.run(|r| match r.try_load(|_| world.alone("load")) {
            Ok(()) => outcomes.note("no wait"),
            Err(AcquireError::WouldBlock) => {
                r.load(|_| world.alone("load")).expect("no deadlock");
                outcomes.note("load waited");
            }
            Err(error) => panic!("{error}"),
        });
        thread.join().expect("no panic");
    });
}
