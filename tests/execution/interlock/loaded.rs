//! `Loaded` values: loaded once, and dropped outside the lock.

use crate::interlock::actor::{Actor, start};
use cabrank::Interlock;
use cabrank::execution::interlock::{AcquireError, LoadError, Loaded, Running};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

#[test]
fn concurrent_requests_load_once() {
    let interlock = Interlock::new();
    let user = Arc::new(Loaded::new());
    let loads = Arc::new(AtomicUsize::new(0));
    let actors: Vec<_> = (0..4).map(|_| Actor::enter(&interlock)).collect();
    let doing: Vec<_> = actors
        .iter()
        .map(|actor| {
            let (user, loads) = (user.clone(), loads.clone());
            actor.tell(move |r| {
                let load = || Ok::<_, ()>(loads.fetch_add(1, SeqCst));
                let handle = user.get_or_load(r, load).expect("no deadlock");
                *handle
            })
        })
        .collect();
    for one in doing {
        assert_eq!(one.done(), 0);
    }
    assert_eq!(loads.load(SeqCst), 1);
}

#[test]
fn a_failed_load_is_returned_and_retried_by_the_next() {
    let (interlock, user) = (Interlock::new(), Loaded::new());
    interlock.run(|r| {
        let failed = user.get_or_load(r, || Err("syntax error")).expect_err("it fails");
        assert!(matches!(failed, LoadError::Load("syntax error")));
        assert!(user.get(r).is_none());
        assert_eq!(*user.get_or_load(r, || Ok::<_, ()>(2)).expect("it works"), 2);
    });
}

#[test]
fn an_unload_waits_for_handles_and_drops_the_value() {
    let (interlock, user) = (Interlock::new(), Arc::new(Loaded::new()));
    interlock.load(|w| user.set(1, w)).expect("no deadlock");
    let reader = interlock.enter();
    let handle = user.get(&reader).expect("it is loaded");
    let (other, theirs) = (interlock.clone(), user.clone());
    let unloads = start(move || other.unload(|w| theirs.clear(w)));
    crate::interlock::actor::until(
        &interlock,
        cabrank::execution::interlock::OwnerState::WaitingToUnload,
        1,
    );
    assert_eq!(*handle, 1);
    assert!(unloads.is_stuck());
    drop(reader);
    unloads.done().expect("no deadlock");
    interlock.run(|r| assert!(user.get(r).is_none()));
}

#[test]
fn without_a_share_there_is_no_handle() {
    let (interlock, user) = (Interlock::new(), Loaded::new());
    interlock.load(|w| user.set(1, w)).expect("no deadlock");
    let mut lost = interlock.enter();
    interlock.forfeit(lost.id());
    assert!(user.get(&lost).is_none());
    let refused = user.get_or_load(&mut lost, || Ok::<_, ()>(2));
    assert!(matches!(refused, Err(LoadError::Acquire(AcquireError::Forfeited))));
}

/// The drop enters the interlock, and would block under its lock.
#[test]
fn an_unloaded_value_is_dropped_without_a_lock_and_its_panic_is_contained() {
    struct Calls(Interlock, Arc<AtomicUsize>);
    impl Drop for Calls {
        fn drop(&mut self) {
            self.0.dump();
            self.1.fetch_add(1, SeqCst);
            panic!("a drop that panics");
        }
    }
    let (interlock, drops) = (Interlock::new(), Arc::new(AtomicUsize::new(0)));
    let user = Loaded::new();
    interlock.load(|w| user.set(Calls(interlock.clone(), drops.clone()), w)).unwrap();
    interlock.unload(|w| user.clear(w)).unwrap();
    assert_eq!(drops.load(SeqCst), 1);
    interlock.run(|_| ());
}

/// The failed load has left no value that a share of that interlock could use.
#[test]
fn a_failed_load_does_not_bind_it_to_its_interlock() {
    let (interlock, other, user) = (Interlock::new(), Interlock::new(), Loaded::new());
    interlock.run(|r| assert!(user.get_or_load(r, || Err::<i32, _>("syntax error")).is_err()));
    other.run(|r| assert_eq!(*user.get_or_load(r, || Ok::<_, ()>(2)).expect("it works"), 2));
    let loads = || interlock.run(|r| user.get_or_load(r, || Ok::<_, ()>(1)).map(|user| *user));
    assert!(catch_unwind(AssertUnwindSafe(loads)).is_err());
}

/// The value was first loaded under the other interlock, while this one loaded it, too.
#[test]
fn the_first_of_two_interlocks_that_load_a_value_owns_it() {
    let (interlock, other, user) = (Interlock::new(), Interlock::new(), Loaded::new());
    let loads = || {
        interlock.run(|r| {
            let load = || {
                other.load(|loading| user.set(2, loading)).expect("no owner runs there");
                Ok::<_, ()>(1)
            };
            user.get_or_load(r, load).map(|user| *user)
        })
    };
    assert!(catch_unwind(AssertUnwindSafe(loads)).is_err());
    other.run(|r| assert_eq!(user.get(r).map(|user| *user), Some(2)));
}

/// An execution may use its handle in its own section.
#[test]
fn a_handle_from_inside_an_unload_keeps_the_old_value() {
    let (interlock, user) = (Interlock::new(), Loaded::new());
    interlock.load(|loading| user.set(1, loading)).expect("no owner runs");
    let unload = |r: &mut Running<'_>| {
        r.unload(|unloading| {
            interlock.run(|nested| {
                let former = user.get(nested).expect("it is loaded");
                user.clear(unloading);
                assert!(user.get(nested).is_none());
                unloading.load(|loading| user.set(2, loading));
                assert_eq!((*former, user.get(nested).map(|now| *now)), (1, Some(2)));
            });
        })
    };
    interlock.run(unload).expect("no other owner runs");
}

/// A second interlock does not keep the executions of the first from running. A value that was loaded under one is
/// neither unloaded nor used under the other.
#[test]
fn a_loaded_value_belongs_to_one_interlock() {
    let (interlock, other) = (Interlock::new(), Interlock::new());
    let user = Loaded::new();
    interlock.run(|r| {
        r.load(|loading| user.set(1, loading)).expect("no other owner runs");
        let handle = user.get(r).expect("it is loaded");
        let cleared = catch_unwind(AssertUnwindSafe(|| other.unload(|u| user.clear(u))));
        let set = catch_unwind(AssertUnwindSafe(|| other.load(|l| user.set(2, l))));
        assert!(cleared.is_err() && set.is_err());
        other.run(|r| assert!(user.get(r).is_none()));
        assert_eq!((*handle, user.get(r).map(|handle| *handle)), (1, Some(1)));
    });
    other.unload(|_| ()).expect("the panic has ended its section");
}
