//! The operations that an execution may use, and the state after panics.

use crate::common::{SECOND, before_long};
use crate::interlock::actor::{Actor, start, until};
use cabrank::execution::interlock::AcquireError;
use cabrank::execution::interlock::OwnerState::{
    Entering, Loading, Permitting, Running, WaitingForChildren, WaitingToLoad, WaitingToUnload,
};
use cabrank::{Interlock, ManualClock};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::channel;

fn panics(f: impl FnOnce()) {
    assert!(catch_unwind(AssertUnwindSafe(f)).is_err(), "it panics");
}

#[test]
fn nested_shares_may_not_load() {
    let interlock = Interlock::new();
    interlock.run(|r| {
        interlock.run(|inner| {
            assert_eq!(inner.id(), r.id());
            assert!(matches!(inner.load(|_| ()), Err(AcquireError::Nested)));
            assert!(matches!(r.unload(|_| ()), Err(AcquireError::Nested)));
            assert!(matches!(inner.permit_loads(|| ()), Err(AcquireError::Nested)));
            assert!(inner.has_share() && r.has_share());
        });
        r.load(|_| ()).expect("the other share is gone");
    });
}

#[test]
fn an_unload_inside_a_load_or_a_permit_block_is_refused() {
    let interlock = Interlock::new();
    interlock.run(|r| {
        let inner = r.load(|_| interlock.run(|r| r.unload(|_| ()))).unwrap();
        assert!(matches!(inner, Err(AcquireError::Nested)));
        let inner = r.permit_loads(|| interlock.run(|r| r.unload(|_| ()))).unwrap();
        assert!(matches!(inner, Err(AcquireError::Nested)));
        let inner = r.load(|_| interlock.run(|r| r.permit_loads(|| ()))).unwrap();
        assert!(matches!(inner, Err(AcquireError::Nested)));
        let inner = r.unload(|_| interlock.run(|r| r.load(|_| 1))).unwrap();
        assert_eq!(inner.unwrap(), 1);
    });
    assert_eq!(interlock.generation(), 1);
}

#[test]
fn a_child_of_a_live_execution_may_not_unload() {
    let interlock = Interlock::new();
    let parent = interlock.enter();
    let mut child = parent.child().enter();
    let mut grandchild = child.child().enter();
    assert!(matches!(child.unload(|_| ()), Err(AcquireError::Child)));
    drop(parent);
    assert!(matches!(grandchild.unload(|_| ()), Err(AcquireError::Child)));
    drop(child);
    grandchild.unload(|_| ()).expect("no ancestor lives");
}

#[test]
fn a_panic_in_a_body_gives_everything_back() {
    let interlock = Interlock::new();
    panics(|| interlock.run(|_| panic!("a body")));
    panics(|| interlock.run(|r| r.load(|_| panic!("a load")).unwrap()));
    panics(|| interlock.unload(|_| panic!("an unload")).unwrap());
    interlock.run(|r| {
        panics(|| r.load(|_| panic!("a load")).unwrap());
        assert!(r.has_share());
        panics(|| r.permit_loads(|| panic!("a permit block")).unwrap());
        assert!(r.has_share());
        panics(|| r.waiting(|| panic!("a wait")).expect("no deadlock"));
        r.load(|_| ()).expect("as before");
    });
    assert!(interlock.dump().owners.is_empty());
    assert_eq!(interlock.generation(), 1);
}

#[test]
fn a_guard_inside_a_section_of_the_same_thread_would_wait_for_itself() {
    let interlock = Interlock::new();
    interlock.run(|r| r.load(|_| panics(|| drop(interlock.enter()))).unwrap());
    interlock.run(|_| panics(|| interlock.unload(|_| ()).unwrap()));
    assert!(interlock.dump().owners.is_empty());
}

#[test]
fn a_guard_inside_a_run_is_a_child() {
    let interlock = Interlock::new();
    interlock.run(|r| {
        let other = interlock.clone();
        let unloads = start(move || other.unload(|_| ()));
        until(&interlock, WaitingToUnload, 1);
        let guard = interlock.enter(); // although an unload waits
        assert_ne!(guard.id(), r.id());
        assert_eq!(interlock.dump().owner(guard.id()).unwrap().parent, Some(r.id()));
        assert!(unloads.is_stuck());
    });
}

#[test]
fn in_the_scope_of_a_guard_a_run_nests() {
    let interlock = Interlock::new();
    let guard = interlock.enter();
    let other = interlock.clone();
    let unloads = start(move || other.unload(|_| ()));
    until(&interlock, WaitingToUnload, 1);
    let id = guard.in_scope(|| interlock.run(|r| r.id()));
    assert_eq!(id, guard.id());
    drop(guard);
    unloads.done().expect("no deadlock");
}

#[test]
fn entering_ends_at_its_deadline() {
    let clock = ManualClock::new();
    let interlock = Interlock::with_clock(clock.clock());
    let sharer = Actor::enter(&interlock);
    let loader = Actor::enter(&interlock);
    let loads = loader.tell_until(WaitingToLoad, |r| r.load(|_| ()));
    let other = interlock.clone();
    let enters = start(move || other.enter_timeout(SECOND).map(drop));
    let other = interlock.clone();
    let runs = start(move || other.run_timeout(SECOND, |_| ()));
    let other = interlock.clone();
    let unloads = start(move || other.unload_timeout(SECOND, |_| ()));
    until(&interlock, Entering, 2);
    until(&interlock, WaitingToUnload, 1);
    clock.advance(SECOND);
    assert!(matches!(enters.done(), Err(AcquireError::TimedOut)));
    assert!(matches!(runs.done(), Err(AcquireError::TimedOut)));
    assert!(matches!(unloads.done(), Err(AcquireError::TimedOut)));
    sharer.leave();
    loads.done().expect("no deadlock");
}

#[test]
fn one_change_is_unloaded_once() {
    let interlock = Interlock::new();
    let actors: Vec<_> = (0..4).map(|_| Actor::enter(&interlock)).collect();
    let seen = interlock.generation();
    let doing: Vec<_> =
        actors.iter().map(|actor| actor.tell(move |r| r.unload_once(seen, |_| ()))).collect();
    let done: Vec<_> = doing.into_iter().map(|one| one.done().expect("no deadlock")).collect();
    assert_eq!(done.iter().flatten().count(), 1);
    assert_eq!(interlock.generation(), seen + 1);
}

/// A wait that can end is not refused: the child has yet to enter, or an owner runs or is in a permit block.
#[test]
fn a_wait_is_not_refused_while_another_owner_can_go_on() {
    let interlock = Interlock::new();
    let (parent, other) = (Actor::enter(&interlock), Actor::enter(&interlock));
    let child = parent.tell(|r| r.child()).done();
    let (end, wait) = channel::<()>();
    let waits = parent.tell_until(WaitingForChildren, move |r| r.waiting(|| wait.recv()));
    let unloads = other.tell_until(WaitingToUnload, |r| r.unload(|_| ()));
    assert!(unloads.is_stuck());
    let (leave, stay) = channel::<()>();
    let runs = start(move || child.run(|_| stay.recv()));
    before_long(|| crate::interlock::actor::count(&interlock, Running) == 1);
    assert!(unloads.is_stuck());
    leave.send(()).unwrap();
    runs.done().unwrap();
    assert!(unloads.is_stuck());
    end.send(()).unwrap();
    waits.done().expect("no deadlock").unwrap();
    assert!(unloads.is_stuck());
    parent.leave();
    unloads.done().expect("no deadlock");
}

#[test]
fn a_share_used_by_another_thread_meanwhile_is_noticed() {
    let interlock = Interlock::new();
    interlock.run(|r| {
        let (loading, ready) = channel();
        let (end, wait) = channel::<()>();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                r.load(|_| {
                    loading.send(()).unwrap();
                    wait.recv().unwrap();
                })
                .unwrap();
            });
            ready.recv().unwrap();
            panics(|| interlock.run(|_| ()));
            end.send(()).unwrap();
        });
    });
}

/// Regression: a run beside a future of the same thread that had given up the share panicked, although it could
/// enter. It is a child, and may not load because its parent waits for it.
#[test]
fn a_run_beside_a_future_that_has_given_the_share_up_is_a_child() {
    let interlock = Interlock::new();
    let sharer = interlock.enter();
    interlock.run(|r| {
        let mut load = std::pin::pin!(r.load_async());
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(load.as_mut().poll(&mut cx).is_pending());
        interlock.run(|child| {
            assert!(child.has_share());
            assert!(matches!(child.load(|_| ()), Err(AcquireError::Nested)));
            assert!(matches!(child.unload(|_| ()), Err(AcquireError::Child)));
            interlock.run(|nested| assert_eq!(nested.id(), child.id()));
        });
        // From here on it holds, and a wait for it would never end.
        drop(sharer);
        assert!(matches!(interlock.try_run(|_| ()), Err(AcquireError::Nested)));
        assert!(matches!(interlock.run_timeout(SECOND, |_| ()), Err(AcquireError::Nested)));
        panics(|| interlock.run(|_| ()));
    });
    assert!(interlock.dump().owners.is_empty(), "{}", interlock.dump());
}

/// A child that gives up waiting for the holder leaves the dump and blocks no owner.
#[test]
fn a_child_that_gives_up_entering_leaves_no_trace() {
    let clock = ManualClock::new();
    let interlock = Interlock::with_clock(clock.clock());
    let (parent, loader) = (Actor::enter(&interlock), Actor::enter(&interlock));
    let (go, told) = channel::<()>();
    let inner = interlock.clone();
    let enters = parent.tell_until(Permitting, move |r| {
        r.permit_loads(|| {
            told.recv().unwrap();
            inner.enter_timeout(SECOND).map(drop)
        })
    });
    let (release, hold) = channel::<()>();
    let loads = loader.tell_until(Loading, move |r| r.load(|_| hold.recv()));
    go.send(()).unwrap();
    until(&interlock, Entering, 1);
    clock.advance(SECOND);
    until(&interlock, Entering, 0);
    assert_eq!(interlock.dump().owners.len(), 2, "{}", interlock.dump());
    release.send(()).unwrap();
    loads.done().expect("no deadlock").unwrap();
    assert!(matches!(enters.done(), Ok(Err(AcquireError::TimedOut))));
    parent.leave();
    loader.leave();
}
