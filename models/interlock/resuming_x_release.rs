//! A permit block or a wait is dropped while another owner loads. The execution then has no share, and no waiter,
//! until that owner releases.
//!
//! Guards the Resuming rule: `State::take_back` queues the owner, `State::settle` gives the share back, and the
//! owner's next operation waits for it (`Running::regain`). Without them the execution runs beside the load, or never
//! gets its share back. Guards also that an execution that ends meanwhile leaves its queue (`State::abandon`).
//! Asserted: both ways are reached, and afterwards no owner is left.

use crate::models::interlock::rig::*;
use std::future::pending;

const WAYS: [&str; 2] = ["no share", "share"];

/// Drops a permit block beside the load of another thread, and passes the execution to `then`.
fn dropped_permit(then: impl FnOnce(&Interlock, &LoadedCode, Running<'static>)) -> &'static str {
    let (interlock, code) = (Interlock::new(), LoadedCode::new());
    let (mut a, mut other) = (thread_owner(&interlock), owner(&interlock));
    let thread = {
        let mut permit = Box::pin(a.permit_loads_async(pending::<()>()));
        assert!(poll_once(permit.as_mut()).is_pending());
        let theirs = code.clone();
        spawn(move || other.load(|_| theirs.alone("load")).expect("it is permitted"))
    };
    let way = WAYS[usize::from(a.has_share())];
    then(&interlock, &code, a);
    thread.join().expect("no panic");
    assert_free(&interlock, &code);
    way
}

#[test]
fn interlock_resuming_x_next_load() {
    explore(Model("interlock_resuming_x_next_load", 703), &WAYS, |outcomes| {
        outcomes.note(dropped_permit(|_, code, mut a| {
            a.load(|_| code.alone("its own")).expect("its share comes back");
            assert!(a.has_share());
            code.runs();
        }));
    });
}

#[test]
fn interlock_resuming_x_end() {
    explore(Model("interlock_resuming_x_end", 25), &WAYS, |outcomes| {
        outcomes.note(dropped_permit(|_, _, a| drop(a)));
    });
}

/// The next operation, which waits for the share, is dropped as well.
#[test]
fn interlock_resuming_x_dropped_wait() {
    explore(Model("interlock_resuming_x_dropped_wait", 8_674), &WAYS, |outcomes| {
        outcomes.note(dropped_permit(|interlock, code, mut a| {
            let mut permit = Box::pin(a.permit_loads_async(async {}));
            let _ = reentry(interlock).poll_once(permit.as_mut());
            drop(permit);
            a.permit_loads(|| ()).expect("its share comes back");
            code.runs();
        }));
    });
}
