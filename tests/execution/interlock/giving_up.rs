//! An operation that is given up leaves no trace: a share on a permit block, a permit block, a child, or an entry.

use crate::common::task::Task;
use crate::common::{SECOND, before_long, soon};
use crate::interlock::actor::{count, start, until};
use crate::polling::poll;
use cabrank::execution::Executor;
use cabrank::execution::interlock::AcquireError;
use cabrank::execution::interlock::OwnerState::{Entering, Loading, Permitting, WaitingToLoad};
use cabrank::{Interlock, ManualClock};
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::task::{Poll, Waker};
use std::time::Duration;

/// The owner is back in the permit block, not outside the interlock.
#[test]
fn a_share_on_a_permit_block_that_times_out_leaves_the_block_as_it_was() {
    let clock = ManualClock::new();
    let interlock = Interlock::with_clock(clock.clock());
    let (release, wait) = channel::<()>();
    let mut running = interlock.enter();
    let inside = interlock.clone();
    let permitted = move || {
        let other = inside.clone();
        let holds = start(move || other.load(|_| wait.recv()));
        until(&inside, Loading, 1);
        let theirs = inside.clone();
        let moves = start(move || {
            until(&theirs, Entering, 1);
            clock.advance(SECOND);
        });
        let shared = inside.run_timeout(SECOND, |_| ());
        assert!(matches!(shared, Err(AcquireError::TimedOut)));
        moves.done();
        assert_eq!(count(&inside, Permitting), 1);
        release.send(()).expect("the receiver waits");
        holds.done().expect("no deadlock").expect("the test sends");
        let other = inside.clone();
        let unloads = start(move || other.unload_timeout(Duration::ZERO, |_| ()));
        assert!(unloads.done().is_err(), "INV-ILK-NO-PERMIT-IN-UNLOAD: not in a permit block");
    };
    let (running, permitted) = soon(move || {
        let permitted = running.permit_loads(permitted);
        (running, permitted)
    });
    permitted.expect("the only share");
    assert!(running.has_share());
}

#[test]
fn a_permit_block_that_is_cancelled_gives_the_share_back() {
    let interlock = Interlock::new();
    let mut running = interlock.enter();
    {
        let mut permit = Box::pin(running.permit_loads_async(pending::<()>()));
        assert!(poll(&mut permit).is_pending());
    }
    assert!(running.has_share());
    let mut other = interlock.enter();
    assert!(
        matches!(other.try_load(|_| ()), Err(AcquireError::WouldBlock)),
        "INV-ILK-ALONE: beside a share"
    );
    drop((running, other));
    interlock.unload_timeout(Duration::ZERO, |_| ()).expect("no permit block is open");
}

#[test]
fn a_token_that_is_dropped_is_no_child() {
    let interlock = Interlock::new();
    interlock.run(|r| {
        drop(r.child());
        let waited = r.load(|_| interlock.run(|r| r.waiting(|| ())));
        waited.expect("no other owner runs").expect("there are no children");
    });
}

#[test]
fn a_child_whose_entry_is_dropped_is_no_child() {
    let interlock = Interlock::new();
    let mut running = interlock.enter();
    let child = running.child();
    let mut permit = Box::pin(running.permit_loads_async(pending::<()>()));
    assert!(poll(&mut permit).is_pending());
    let mut other = interlock.enter();
    {
        let mut load = Box::pin(other.load_async());
        let Poll::Ready(guard) = poll(&mut load) else { panic!("it is permitted") };
        let mut entry = Box::pin(child.enter_async());
        assert!(poll(&mut entry).is_pending());
        drop((entry, guard));
    }
    drop((permit, other));
    let waited = running.load(|_| interlock.run(|r| r.waiting(|| ())));
    waited.expect("no other owner runs").expect("there are no children");
}

/// Uses the real clock, because moving a manual clock wakes every waiter.
#[test]
fn a_waiter_that_times_out_wakes_those_it_kept_out() {
    let interlock = Interlock::new();
    let _sharer = interlock.enter();
    let (other, over) = (interlock.clone(), Arc::new(AtomicBool::new(false)));
    let theirs = over.clone();
    let loads = start(move || {
        let late = other.enter().load_timeout(Duration::from_millis(200), |_| ()).is_err();
        theirs.store(true, SeqCst);
        late
    });
    // On a busy machine the deadline may pass unseen.
    before_long(|| count(&interlock, WaitingToLoad) == 1 || over.load(SeqCst));
    let other = interlock.clone();
    soon(move || other.run(|_| ()));
    assert!(loads.done());
}

/// A future may be polled by another task than before. The last one is woken.
#[test]
fn a_task_that_waits_is_woken_by_the_waker_that_polled_it_last() {
    let interlock = Interlock::new();
    let (mut a, b) = (interlock.enter(), interlock.enter());
    let mut load = Task::new(async move { a.load_async().await.map(drop) });
    assert!(load.poll_with(Waker::noop()).is_none() && load.poll().is_none());
    drop(b);
    assert_eq!(load.wakes(), 1);
    load.finish().expect("no deadlock");
}

/// A child task of an executor is a child in the interlock, too.
#[test]
fn a_child_task_of_an_execution_is_let_in_although_an_unload_waits() {
    let interlock = Interlock::new();
    let executor = Executor::builder().interlock(interlock.clone()).build();
    let parent = executor.run().expect("it runs");
    let child = parent.child();
    let mut other = interlock.enter();
    let mut unload = Box::pin(other.unload_async());
    assert!(poll(&mut unload).is_pending());
    let mut task = Box::pin(child.wrap_async(async |_| Ok(7)));
    assert!(matches!(poll(&mut task), Poll::Ready(Ok(7))));
}
