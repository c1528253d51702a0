//! A future is dropped while it waits, while it is granted, or inside its section.
//!
//! Guards `State::give_up` and the drop of `Held`: a hold that was granted and never picked up is released. A
//! waiter leaves its queue, and an open section ends. Without them, no owner ever enters again. The wakers call the
//! interlock, which would deadlock if one was woken or dropped under the lock. Asserted: each way is reached, and
//! afterwards no owner is left.

use crate::models::interlock::rig::*;
use std::future::pending;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// A load that waits for the share of an owner, which leaves.
#[test]
fn interlock_dropped_load_x_grant() {
    let expected = ["granted", "waiting"];
    explore(Model("interlock_dropped_load_x_grant", 146), &expected, |outcomes| {
        let (interlock, code) = (Interlock::new(), LoadedCode::new());
        let (mut a, b) = (owner(&interlock), owner(&interlock));
        {
            let mut load = Box::pin(a.load_async(async |_| unreachable!("it is not polled again")));
            assert!(reentry(&interlock).poll_once(load.as_mut()).is_pending());
            let (others, there) = (interlock.clone(), code.clone());
            let thread = spawn(move || {
                drop(b);
                others.run(|_| there.runs()).expect("no limit");
            });
            let granted = in_state(&interlock, OwnerState::Loading) == 1;
            drop(load);
            outcomes.note(if granted { "granted" } else { "waiting" });
            assert!(a.has_share(), "no other owner holds");
            code.runs();
            thread.join().expect("no panic");
        }
        drop(a);
        assert_free(&interlock, &code);
    });
}

/// An entry that waits for a load, which ends.
#[test]
fn interlock_dropped_entry_x_grant() {
    let expected = ["granted", "inside", "waiting"];
    explore(Model("interlock_dropped_entry_x_grant", 101), &expected, |outcomes| {
        let (interlock, code) = (Interlock::new(), LoadedCode::new());
        let mut a = owner(&interlock);
        let theirs = code.clone();
        let thread = spawn(move || {
            a.load(|_| theirs.alone("load")).expect("no limit");
            drop(a);
        });
        let is_inside = AtomicBool::new(false);
        {
            let mut enters = Box::pin(interlock.run_async(async |_| {
                is_inside.store(true, SeqCst);
                code.runs();
                pending::<()>().await;
            }));
            assert!(reentry(&interlock).poll_once(enters.as_mut()).is_pending());
            let waits = in_state(&interlock, OwnerState::Entering) == 1;
            outcomes.note(match is_inside.load(SeqCst) {
                true => "inside",
                false if waits => "waiting",
                false => "granted",
            });
        }
        thread.join().expect("no panic");
        assert_free(&interlock, &code);
    });
}

/// A section whose body waits, while two newcomers come. Both are let in together.
#[test]
fn interlock_dropped_section_x_newcomers() {
    let expected = ["after the drop", "kept out"];
    explore(Model("interlock_dropped_section_x_newcomers", 1_323), &expected, |outcomes| {
        let (interlock, code) = (Interlock::new(), LoadedCode::new());
        let mut a = owner(&interlock);
        let mut load = Box::pin(a.load_async(async |_| pending::<()>().await));
        assert!(poll_once(load.as_mut()).is_pending());
        let (theirs, there) = (interlock.clone(), code.clone());
        let thread = spawn(move || theirs.run(|_| there.runs()).expect("no limit"));
        let mut task = Box::pin(interlock.run_async(async |_| code.runs()));
        assert!(poll_once(task.as_mut()).is_pending());
        let waiting = in_state(&interlock, OwnerState::Entering);
        outcomes.note(if waiting == 2 { "kept out" } else { "after the drop" });
        drop(load);
        block_on(task).expect("no limit");
        thread.join().expect("no panic");
        drop(a);
        assert_free(&interlock, &code);
    });
}
