//! A future that waits to load is dropped while the load is granted.
//!
//! Guards the drop of `GivenUp`: a load that was granted and never seen is released, and one that still waits leaves
//! its queue. Either way the owner has its share again. Without it, no owner ever enters again. Asserted: both ways
//! are reached. Afterwards the execution runs and loads, and another owner unloads.

use crate::models::interlock::rig::*;
use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};

#[test]
fn interlock_cancel_x_grant() {
    let expected = ["dropped granted", "dropped waiting"];
    explore("interlock_cancel_x_grant", &expected, |outcomes| {
        let (interlock, world) = (Interlock::new(), World::new());
        let (mut a, b) = (interlock.enter(), interlock.enter());
        {
            let mut load = Box::pin(a.load_async());
            assert!(poll_once(load.as_mut()).is_pending());
            let (others, there) = (interlock.clone(), world.clone());
            let thread = spawn(move || {
                there.runs();
                drop(b);
                others.run(|_| there.runs());
            });
            let granted = in_state(&interlock, OwnerState::Loading) == 1;
            drop(load);
            outcomes.note(if granted { "dropped granted" } else { "dropped waiting" });
            assert!(a.has_share(), "the share is back: no other owner holds");
            world.runs();
            thread.join().expect("no panic");
        }
        a.load(|_| world.alone("load")).expect("no deadlock");
        drop(a);
        interlock.unload(|_| world.alone("unload")).expect("no deadlock");
    });
}

/// Guards `State::cancel` where there is a holder: an owner that gives up waiting may run only after the holder has
/// released. Without that wait, it runs beside the holder. Asserted: a load that times out during another load
/// returns with its share once the holder has released.
#[test]
fn interlock_time_out_x_holder() {
    let expected = ["loaded", "timed out"];
    explore("interlock_time_out_x_holder", &expected, |outcomes| {
        let clock = ManualClock::new();
        let (interlock, world) = (Interlock::with_clock(clock.clock()), World::new());
        let (mut a, mut b) = (interlock.enter(), interlock.enter());
        let theirs = world.clone();
        let thread = spawn(move || {
            b.load(|_| {
                clock.advance(SECOND);
                theirs.alone("b");
            })
            .expect("no deadlock");
        });
        let loaded = a.load_timeout(SECOND, |_| world.alone("a"));
        world.runs();
        drop(a);
        thread.join().expect("no panic");
        match loaded {
            Ok(()) => outcomes.note("loaded"),
            Err(AcquireError::TimedOut) => outcomes.note("timed out"),
            Err(error) => panic!("{error}"),
        }
    });
}

const SECOND: std::time::Duration = std::time::Duration::from_secs(1);

/// A future that waits to enter is dropped while it is let in.
///
/// Guards the drop of `Arrival`: an execution that was let in and never seen is ended. Without it, its share stays
/// for ever.
#[test]
fn interlock_cancel_x_entry() {
    let expected = ["dropped inside", "dropped waiting"];
    explore("interlock_cancel_x_entry", &expected, |outcomes| {
        let (interlock, world) = (Interlock::new(), World::new());
        let mut a = interlock.enter();
        let thread = {
            let (interlock, world) = (interlock.clone(), world.clone());
            spawn(move || {
                a.load(|_| world.alone("load")).expect("no deadlock");
                drop(a);
                drop(interlock);
            })
        };
        let other = interlock.clone();
        let mut enter = Box::pin(other.enter_async());
        match poll_once(enter.as_mut()) {
            std::task::Poll::Ready(running) => {
                world.runs();
                drop(running);
                outcomes.note("dropped inside");
            }
            std::task::Poll::Pending => outcomes.note("dropped waiting"),
        }
        drop(enter);
        thread.join().expect("no panic");
        interlock.unload(|_| world.alone("unload")).expect("no deadlock");
    });
}

/// A waker that calls the interlock whenever it is woken or dropped.
pub(super) struct Reenters(pub(super) Interlock);

impl Wake for Reenters {
    fn wake(self: Arc<Self>) {
        self.0.generation();
    }
}

impl Drop for Reenters {
    fn drop(&mut self) {
        if !crate::sync::has_failed() {
            self.0.generation();
        }
    }
}

/// A waiting future is dropped while it is granted, and its waker calls the interlock.
///
/// Guards `State::withdraw_wake`: the critical section hands out the waker of an owner that gives up, and the waker
/// is dropped without the lock. Without it, the thread locks the mutex that it holds. Asserted: both ways are
/// reached, and afterwards another owner unloads.
#[test]
fn interlock_cancel_x_waker() {
    let expected = ["dropped granted", "dropped waiting"];
    explore("interlock_cancel_x_waker", &expected, |outcomes| {
        let interlock = Interlock::new();
        let (mut a, b) = (interlock.enter(), interlock.enter());
        {
            let mut load = Box::pin(a.load_async());
            let waker = Waker::from(Arc::new(Reenters(interlock.clone())));
            assert!(load.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            drop(waker);
            let thread = spawn(move || drop(b));
            let granted = in_state(&interlock, OwnerState::Loading) == 1;
            drop(load);
            outcomes.note(if granted { "dropped granted" } else { "dropped waiting" });
            thread.join().expect("no panic");
        }
        drop(a);
        interlock.unload(|_| ()).expect("no deadlock");
    });
}
