//! A wait for the caller's own thread is refused, or panics where no error can be returned. An entry that need not
//! wait succeeds.

use crate::interlock::actor::{deadlock, start, until};
use cabrank::Interlock;
use cabrank::execution::interlock::OwnerState::WaitingToUnload;
use std::future::poll_fn;
use std::mem::replace;
use std::sync::mpsc::channel;
use std::task::{Context, Poll, Waker};

/// Regression: the thread's own section goes on only after the wait, so the thread waited for itself for ever.
#[test]
fn a_wait_for_the_threads_own_execution_is_refused() {
    crate::common::soon(|| {
        let interlock = Interlock::new();
        let told = interlock.run(|r| (r.id(), deadlock(interlock.enter().load(|_| ()))));
        assert_eq!(told.1.cycle()[1], told.0);
        assert!(told.1.to_string().ends_with("0.1 is on the thread that waits"), "{}", told.1);

        deadlock(interlock.run(|r| r.child().run(|c| c.load(|_| ()))));
        let mut stranger = interlock.enter();
        interlock.run(|_| deadlock(stranger.unload(|_| ())));
        // In a permit block loads are permitted, and unloads are not.
        interlock.run(|r| {
            let permitted = r.permit_loads(|| (stranger.load(|_| ()), stranger.unload(|_| ())));
            let (loaded, unloaded) = permitted.expect("the only share");
            loaded.expect("it is permitted");
            deadlock(unloaded);
        });
        interlock.run(|_| assert!(stranger.try_load(|_| ()).is_err()));
        stranger.unload(|_| ()).expect("no other owner is left");
    });
}

/// A permit block is polled inside another execution, which has begun to load. A share on top of it would wait for
/// the thread's own section.
#[test]
fn a_share_on_a_permit_block_inside_the_holder_of_the_same_thread_is_refused() {
    crate::common::soon(|| {
        let (interlock, mut cx) = (Interlock::new(), Context::from_waker(Waker::noop()));
        let (mut other, (tell, told)) = (interlock.enter(), channel());
        let (inside, mut opens) = (interlock.clone(), true);
        let mut permit = Box::pin(other.permit_loads_async(async {
            poll_fn(|_| if replace(&mut opens, false) { Poll::Pending } else { Poll::Ready(()) })
                .await;
            let nested = inside.run_timeout(crate::common::SECOND, |_| ());
            tell.send(nested).expect("it is kept");
        }));
        assert!(permit.as_mut().poll(&mut cx).is_pending());
        let holder = interlock.run(|holder| {
            let mut loads = Box::pin(holder.load_async());
            let Poll::Ready(Ok(guard)) = loads.as_mut().poll(&mut cx) else {
                panic!("it is permitted")
            };
            assert!(permit.as_mut().poll(&mut cx).is_pending(), "another owner loads");
            drop(guard);
            drop(loads);
            holder.id()
        });
        assert!(permit.as_mut().poll(&mut cx).is_ready());
        drop(permit);
        let cycle = deadlock(told.recv().expect("it has asked")).cycle();
        assert_eq!(cycle, [other.id(), holder]);
    });
}

/// A child that enters where its thread loads would wait for itself. It panics, as a guard does.
#[test]
#[should_panic(expected = "this thread loads or unloads")]
fn a_child_does_not_enter_where_its_thread_loads() {
    let interlock = Interlock::new();
    interlock.run(|r| {
        let child = r.child();
        let _ = r.load(|_| interlock.run(|_| child.run(|_| ())));
    });
}

/// An unload that waits for this thread would keep out the child of an execution that has ended.
#[test]
fn a_child_enters_at_once_where_its_thread_is_in_an_execution() {
    let interlock = Interlock::new();
    let orphan = interlock.enter().child();
    let other = interlock.clone();
    let unloads = crate::common::soon(move || {
        let inside = other.clone();
        other.run(|_| {
            let unloads = start(move || inside.unload(|_| ()));
            until(&other, WaitingToUnload, 1);
            orphan.run(|_| ());
            unloads
        })
    });
    unloads.done().expect("no deadlock");
    drop(interlock);
}
