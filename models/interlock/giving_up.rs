//! A future is dropped, gives up, or is waited for in another way than it began.

use crate::models::interlock::rig::*;
use crate::models::rig::block_on;
use std::future::pending;
use std::time::Duration;

/// A permit block, and a child that is about to enter, are dropped while another owner loads.
///
/// Guards that a dropped permit block ends (`State::take_back`), and that a child is gone once its entry is dropped
/// (the drop of `Child`). Without the first, the share never comes back. Without the second, the parent may never
/// again wait inside an exclusive section. Asserted: both ways are reached, the share is back, no child is left, and
/// another owner unloads.
#[test]
fn interlock_cancel_x_permit() {
    let expected = ["dropped inside", "dropped waiting"];
    explore("interlock_cancel_x_permit", &expected, move |outcomes| {
        let interlock = Interlock::new();
        let mut parent = interlock.enter();
        let child = parent.child();
        let mut other = interlock.enter();
        let thread = {
            let mut permit = Box::pin(parent.permit_loads_async(pending::<()>()));
            assert!(poll_once(permit.as_mut()).is_pending());
            let thread = spawn(move || other.load(|_| ()).expect("it is permitted"));
            let mut entry = Box::pin(child.enter_async());
            let entered = poll_once(entry.as_mut());
            outcomes.note(if entered.is_ready() { expected[0] } else { expected[1] });
            thread
        };
        let inner = interlock.clone();
        let waited = parent.load(|_| inner.run(|r| r.waiting(|| ())));
        waited.expect("its share is back").expect("there is no child");
        thread.join().expect("no panic");
        drop(parent);
        interlock.unload(|_| ()).expect("no deadlock");
    });
}

/// A task waits with one waker, and then with another.
///
/// Guards that each poll stores its own waker (`Turn::poll`). Otherwise only the first is woken, and the task sleeps
/// for ever. Asserted: it loads, whenever the way becomes free.
#[test]
fn interlock_second_waker() {
    explore("interlock_second_waker", &["loaded"], |outcomes| {
        let (interlock, world) = (Interlock::new(), World::new());
        let (mut a, b) = (interlock.enter(), interlock.enter());
        let mut load = Box::pin(a.load_async());
        assert!(poll_once(load.as_mut()).is_pending());
        let thread = spawn(move || drop(b));
        let guard = block_on(load.as_mut()).expect("no deadlock");
        world.alone("load");
        drop(guard);
        thread.join().expect("no panic");
        outcomes.note("loaded");
    });
}

/// A load that has kept a newcomer out times out at once.
///
/// Guards that a waiter that gives up wakes the owners that can then go on (`section::block`). Otherwise the newcomer
/// sleeps until the next section. Asserted: it enters beside the owner that was in the load's way.
#[test]
fn interlock_time_out_x_newcomer() {
    let expected = ["kept out for a while", "entered at once"];
    explore("interlock_time_out_x_newcomer", &expected, move |outcomes| {
        let clock = ManualClock::new(); // which stands
        let (interlock, world) = (Interlock::with_clock(clock.clock()), World::new());
        let (mut a, b) = (interlock.enter(), interlock.enter());
        let loader = spawn(move || {
            let loaded = a.load_timeout(Duration::ZERO, |_| unreachable!("b runs"));
            assert!(matches!(loaded, Err(AcquireError::TimedOut)));
            drop(a);
        });
        let (theirs, there) = (interlock.clone(), world.clone());
        let mut enter = Box::pin(async move {
            let running = theirs.enter_async().await;
            there.runs();
            drop(running);
        });
        let entered = poll_once(enter.as_mut()).is_ready();
        if !entered {
            block_on(enter);
        }
        outcomes.note(expected[usize::from(entered)]);
        loader.join().expect("no panic");
        world.runs();
        drop(b);
    });
}
