//! Operations without a deadlock: a wait that has ended, an execution that is no child, a request that is refused
//! before it waits, and an owner that another lets go on.

use crate::interlock::actor::{Actor, child_that_loads, start, until, waits};
use cabrank::Interlock;
use cabrank::execution::interlock::AcquireError;
use cabrank::execution::interlock::OwnerState::{
    Draining, Entering, Loading, Permitting, Unloading, WaitingForChildren, WaitingToLoad,
    WaitingToUnload,
};
use std::future::pending;
use std::sync::mpsc::channel;
use std::task::{Context, Waker};

/// An owner that requests again has ended its earlier wait, even if the waiting future was leaked.
#[test]
fn a_leaked_wait_for_children_ends_when_the_share_is_given_up() {
    let interlock = Interlock::new();
    let parent = Actor::enter(&interlock);
    let child = Actor::enter_as(&interlock, parent.tell(|r| r.child()).done());
    let stranger = Actor::enter(&interlock);
    let leak = |r: &mut cabrank::execution::interlock::Running<'_>| {
        let mut waits = Box::pin(r.waiting_async(pending::<()>()));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(waits.as_mut().poll(&mut cx).is_pending());
        std::mem::forget(waits);
    };
    parent.tell(leak).done();
    assert_eq!(parent.state(), Some(WaitingForChildren));
    let loads = parent.tell_until(WaitingToLoad, |r| r.load(|_| ()));
    let theirs = child.tell_until(WaitingToLoad, |r| r.load(|_| ()));
    stranger.leave();
    loads.done().expect("the child waits for no share that is kept");
    theirs.done().expect("no owner waits for it");

    parent.tell(leak).done();
    parent
        .tell(move |r| {
            r.permit_loads(|| child.tell(|r| r.load(|_| ())).done().map(|()| child.leave()))
        })
        .done()
        .expect("the only share")
        .expect("it is permitted");
    parent.leave();
}

/// The block around it waits for no owner of the interlock. Regression: a leaked inner block still counted as
/// waiting for its children, because only the number of blocks was compared.
#[test]
fn a_leaked_permit_block_that_waits_for_children_ends_with_its_share() {
    let interlock = Interlock::new();
    let grandparent = Actor::enter(&interlock);
    let parent = Actor::enter_as(&interlock, grandparent.tell(|r| r.child()).done());
    let (load, loads) = child_that_loads(&parent);
    let ((leaked, has_leaked), (end, permit)) = (channel(), channel::<()>());
    let inside = interlock.clone();
    let permits = parent.tell(move |r| {
        r.permit_loads(|| {
            inside.run(|r| {
                let mut waits = Box::pin(r.permit_waiting_async(pending::<()>()));
                let mut cx = Context::from_waker(Waker::noop());
                assert!(waits.as_mut().poll(&mut cx).is_pending());
                std::mem::forget(waits);
            });
            leaked.send(()).expect("the test waits for it");
            permit.recv()
        })
    });
    has_leaked.recv().expect("it is leaked");
    assert_eq!(parent.state(), Some(Permitting));
    let over = waits(&grandparent, false);
    load.send(()).unwrap();
    until(&interlock, WaitingToLoad, 1);
    end.send(()).unwrap();
    permits.done().expect("the only share").unwrap();
    parent.leave();
    drop(over);
    grandparent.leave();
    loads.done().expect("no owner waits for it");
}

/// A load that was granted, given up or refused no longer waits.
#[test]
fn a_child_that_has_waited_closes_no_cycle() {
    let interlock = Interlock::new();
    let parent = Actor::enter(&interlock);
    let (load, loads) = child_that_loads(&parent);
    load.send(()).unwrap();
    until(&interlock, WaitingToLoad, 1);
    parent.tell(|r| r.permit_loads(|| loads.done())).done().unwrap().expect("it is permitted");
    parent.tell(|r| r.waiting(|| ())).done().expect("no owner waits");

    let child = parent.tell(|r| r.child()).done();
    let refused = start(move || {
        let mut child = child.enter();
        let refused = child.try_load(|_| ());
        (child, refused)
    });
    let (child, refused) = refused.done();
    assert!(matches!(refused, Err(AcquireError::WouldBlock)));
    parent.tell(|r| r.waiting(|| ())).done().expect("no owner waits");
    drop(child);
    parent.leave();
}

/// A guard that was refused or has ended is no child.
#[test]
fn a_guard_that_is_gone_is_no_child() {
    let interlock = Interlock::new();
    interlock.run(|r| {
        drop(interlock.enter());
        r.load(|_| {
            interlock.run(|r| assert!(interlock.try_enter().is_err() && r.waiting(|| ()).is_ok()))
        })
        .expect("no other owner runs");
    });
}

/// The child may have to end a permit block, which waits for the holder and cannot be refused.
#[test]
fn a_holder_may_not_wait_for_its_children() {
    let interlock = Interlock::new();
    let parent = Actor::enter(&interlock);
    let child = parent.tell(|r| r.child()).done();
    let (end, permit) = channel::<()>();
    let permits = start(move || child.run(|r| r.permit_loads(|| permit.recv())));
    until(&interlock, Permitting, 1);
    let inner = interlock.clone();
    let waits = parent.tell(move |r| {
        r.load(|_| {
            let waited = inner.run(|r| r.waiting(|| unreachable!("for ever")));
            let joined = inner.run(|r| r.join(std::thread::spawn(|| ())));
            let blocked = inner.run(|r| r.blocking(|| unreachable!("for ever")));
            (waited, joined, blocked)
        })
    });
    let (waited, joined, blocked) = waits.done().expect("the permit block lets it");
    assert!(matches!(waited, Err(AcquireError::Nested)));
    assert!(matches!(joined, Err(AcquireError::Nested)));
    assert!(matches!(blocked, Err(AcquireError::Nested)));
    end.send(()).unwrap();
    permits.done().expect("the only share").unwrap();
    let inner = interlock.clone();
    let waits = parent.tell(move |r| r.load(|_| inner.run(|r| r.waiting(|| 8))));
    assert_eq!(waits.done().expect("alone").expect("there are no children any more"), 8);
    let (unused, inner) = (parent.tell(|r| r.child()).done(), interlock.clone());
    let waits = parent.tell(move |r| {
        r.load(|_| {
            drop(unused);
            inner.run(|r| r.waiting(|| 9))
        })
    });
    assert_eq!(waits.done().expect("alone").expect("it will be no child"), 9);
}

/// A draining owner is still in an execution. If the child queued, its parent would resume, and might permit loads
/// and wait for it.
#[test]
fn a_child_may_not_unload_while_its_parent_drains() {
    let interlock = Interlock::new();
    let (parent, other) = (Actor::enter(&interlock), Actor::enter(&interlock));
    let sharer = Actor::enter(&interlock);
    let child = parent.tell(|r| r.child()).done();
    let (release, hold) = channel::<()>();
    let unloads = parent.tell_until(WaitingToUnload, |r| r.unload(move |_| hold.recv()));
    let other_unloads = other.tell_until(WaitingToUnload, |r| r.unload(|_| ()));
    sharer.leave();
    parent.until(Unloading);
    let (go, ready) = channel::<()>();
    let refused = start(move || {
        child.run(|r| {
            ready.recv().unwrap();
            r.unload(|_| ())
        })
    });
    until(&interlock, Entering, 1);
    release.send(()).unwrap();
    parent.until(Draining);
    go.send(()).unwrap();
    assert!(matches!(refused.done(), Err(AcquireError::Child)));
    other_unloads.done().expect("no deadlock");
    unloads.done().expect("no deadlock").unwrap();
}

/// Only the owner that begins to wait to unload can wake the waiting load, because only its share was in the way.
#[test]
fn an_owner_that_begins_to_wait_lets_others_go_on() {
    let interlock = Interlock::new();
    let (a, b) = (Actor::enter(&interlock), Actor::enter(&interlock));
    let loads = a.tell_until(WaitingToLoad, |r| r.load(|_| ()));
    let unloads = b.tell(|r| r.unload(|_| ()));
    loads.done().expect("no deadlock");
    a.leave();
    unloads.done().expect("no deadlock");
    b.leave();
}

/// An owner that gives up withdraws its entry, which kept a newcomer out.
#[test]
fn an_owner_that_gives_up_lets_others_go_on() {
    let clock = cabrank::ManualClock::new();
    let interlock = Interlock::with_clock(clock.clock());
    let (a, b) = (Actor::enter(&interlock), Actor::enter(&interlock));
    let second = crate::common::SECOND;
    let unloads = a.tell_until(WaitingToUnload, move |r| r.unload_timeout(second, |_| ()));
    let theirs = interlock.clone();
    let enters = start(move || theirs.run(|_| ()));
    until(&interlock, Entering, 1);
    clock.advance(second);
    enters.done();
    assert!(matches!(unloads.done(), Err(AcquireError::TimedOut)));
    b.leave();
}

/// An owner that has drained withdraws its entry.
#[test]
fn an_owner_that_has_drained_lets_others_go_on() {
    let interlock = Interlock::new();
    let (a, b) = (Actor::enter(&interlock), Actor::enter(&interlock));
    let (release, hold) = channel::<()>();
    let first = a.tell_until(WaitingToLoad, |r| r.load(move |_| hold.recv()));
    let second = b.tell(|r| r.load(|_| ()));
    a.until(Loading);
    let theirs = interlock.clone();
    let enters = start(move || theirs.run(|_| ()));
    until(&interlock, Entering, 1);
    release.send(()).unwrap();
    first.done().expect("no deadlock").unwrap();
    second.done().expect("no deadlock");
    enters.done();
}
