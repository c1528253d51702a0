//! `Loaded` values: loaded once, and dropped outside the lock.

use crate::interlock::actor::{Actor, start_unload};
use crate::polling::{poll, yield_once};
use cabrank::Interlock;
use cabrank::execution::BoxError;
use cabrank::execution::interlock::{AcquireError, Loaded, Loading};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::Weak;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{Sender, channel};
use std::task::Poll;
use std::time::Duration;

fn load<T>(interlock: &Interlock, value: &Loaded<T>, to: T) {
    let loaded = interlock.run(|r| r.load(|loading| value.set(to, loading)));
    loaded.expect("no deadlock").expect("no deadlock");
}

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
            actor.order(move |r| {
                let load = || Ok::<_, AcquireError>(loads.fetch_add(1, SeqCst));
                user.get_or_load(r, load).map(|user| *user).expect("no deadlock")
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
    let ran = interlock.run(|r| {
        let failed = user.get_or_load(r, || Err(BoxError::from("syntax error")));
        assert_eq!(failed.map(drop).expect_err("it fails").to_string(), "syntax error");
        assert!(user.get(r).is_none());
        assert_eq!(*user.get_or_load(r, || Ok::<_, AcquireError>(2)).expect("it works"), 2);
    });
    ran.expect("no deadlock");
}

#[test]
fn an_unload_waits_for_handles_and_drops_the_value() {
    let (interlock, user) = (Interlock::new(), Arc::new(Loaded::new()));
    load(&interlock, &user, 1);
    let read = interlock.run(|reader| {
        let handle = user.get(reader).expect("it is loaded");
        let theirs = user.clone();
        let unloads = start_unload(&interlock, move |unloading| theirs.clear(unloading));
        assert_eq!(*handle, 1);
        assert!(unloads.is_stuck());
        unloads
    });
    read.expect("no other owner holds").done().expect("no deadlock");
    interlock.run(|r| assert!(user.get(r).is_none())).expect("no deadlock");
}

/// A concurrent branch of the same task permits loads, so the whole task does.
#[test]
fn without_a_share_there_is_no_handle() {
    let (interlock, user) = (Interlock::new(), Loaded::new());
    load(&interlock, &user, 1);
    let branches = interlock.run_async(async |r| {
        let mut view = Box::pin(interlock.run_async(async |view| {
            assert!(user.get(view).is_some());
            yield_once().await;
            assert!(!view.has_share() && user.get(view).is_none());
            let missing = user.get_or_load(view, || Ok::<_, AcquireError>(2)).map(drop);
            assert!(matches!(missing, Err(AcquireError::Deadlock(_))));
        }));
        assert!(poll(&mut view).is_pending());
        let other = async { assert!(poll(&mut view).is_ready()) };
        r.permit_loads_async(other).await.expect("no other owner holds");
        drop(view);
        assert!(user.get(r).is_some());
    });
    assert!(matches!(poll(branches), Poll::Ready(Ok(()))));
}

/// A concurrent branch of the same task loads, so the rest of the task has no share.
#[test]
fn beside_a_load_of_its_own_task_there_is_no_handle() {
    let (interlock, user) = (Interlock::new(), Loaded::new());
    load(&interlock, &user, 1);
    let branches = interlock.run_async(async |r| {
        let pends = async |_: &mut Loading<'_>| std::future::pending::<()>().await;
        let mut loads = Box::pin(interlock.run_async(async |view| view.load_async(pends).await));
        assert!(poll(&mut loads).is_pending());
        assert!(!r.has_share() && user.get(r).is_none());
        drop(loads);
        assert!(r.has_share() && user.get(r).is_some());
    });
    assert!(matches!(poll(branches), Poll::Ready(Ok(()))));
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
    load(&interlock, &user, Calls(interlock.clone(), drops.clone()));
    interlock.unload(|w| user.clear(w)).unwrap();
    assert_eq!(drops.load(SeqCst), 1);
    interlock.run(|_| ()).expect("no other owner holds");
}

/// The failed load has left no value that a share of that interlock could use.
#[test]
fn a_failed_load_does_not_bind_it_to_its_interlock() {
    let (interlock, other, user) = (Interlock::new(), Interlock::new(), Loaded::new());
    let fails = interlock
        .run(|r| user.get_or_load(r, || Err::<i32, _>(BoxError::from("syntax error"))).is_err());
    assert!(fails.expect("no other owner holds"));
    let works = other.run(|r| user.get_or_load(r, || Ok::<_, AcquireError>(2)).map(|user| *user));
    assert_eq!(works.expect("no other owner holds").expect("it works"), 2);
    let loads =
        || interlock.run(|r| user.get_or_load(r, || Ok::<_, AcquireError>(1)).map(|user| *user));
    assert!(catch_unwind(AssertUnwindSafe(loads)).is_err());
}

/// The value was first loaded under the other interlock, while this one loaded it, too.
#[test]
fn the_first_of_two_interlocks_that_load_a_value_owns_it() {
    let (interlock, other, user) = (Interlock::new(), Interlock::new(), Loaded::new());
    let loads = || {
        interlock.run(|r| {
            let load = || {
                load(&other, &user, 2);
                Ok::<_, AcquireError>(1)
            };
            user.get_or_load(r, load).map(|user| *user)
        })
    };
    assert!(catch_unwind(AssertUnwindSafe(loads)).is_err());
    let value = other.run(|r| user.get(r).map(|user| *user));
    assert_eq!(value.expect("no other owner holds"), Some(2));
}

/// No handle keeps a value that was cleared.
#[test]
fn a_clear_beside_a_handle_of_a_nested_execution_panics() {
    let (interlock, user) = (Interlock::new(), Loaded::new());
    load(&interlock, &user, 1);
    let clears = || {
        interlock.unload(|unloading| {
            interlock.run(|nested| {
                let handle = user.get(nested).expect("it is loaded");
                user.clear(unloading);
                *handle
            })
        })
    };
    assert!(catch_unwind(AssertUnwindSafe(clears)).is_err());
    interlock.run(|r| assert!(user.get(r).is_none())).expect("no other owner holds");
    load(&interlock, &user, 2);
    interlock.unload(|unloading| user.clear(unloading)).expect("no other owner holds");
}

/// A second interlock does not keep the executions of the first from running. A value that was loaded under one is
/// neither unloaded nor used under the other.
#[test]
fn a_loaded_value_belongs_to_one_interlock() {
    let (interlock, other) = (Interlock::new(), Interlock::new());
    let user = Loaded::new();
    let ran = interlock.run(|r| {
        r.load(|loading| user.set(1, loading)).expect("no other owner runs");
        let handle = user.get(r).expect("it is loaded");
        let cleared = catch_unwind(AssertUnwindSafe(|| other.unload(|u| user.clear(u))));
        let set = catch_unwind(AssertUnwindSafe(|| load(&other, &user, 2)));
        assert!(cleared.is_err() && set.is_err());
        assert!(other.run(|r| user.get(r).is_none()).expect("no other owner holds"));
        assert_eq!((*handle, user.get(r).map(|handle| *handle)), (1, Some(1)));
    });
    ran.expect("no other owner holds");
    other.unload(|_| ()).expect("the panic has ended its section");
}

/// A value whose drop uses the value that has replaced it.
struct Replaced {
    interlock: Interlock,
    loaded: Weak<Loaded<Replaced>>,
    saw: Sender<bool>,
}

impl Drop for Replaced {
    fn drop(&mut self) {
        if let Some(loaded) = self.loaded.upgrade() {
            let found = self.interlock.run(|running| loaded.get(running).is_some());
            let _ = self.saw.send(found.unwrap_or(false));
        }
    }
}

/// The drop of a value is user code: it runs without the lock of the value, whichever call drops it.
#[test]
fn the_drop_of_a_value_that_is_replaced_finds_the_new_one() {
    let (interlock, loaded, (saw, seen)) = (Interlock::new(), Arc::new(Loaded::new()), channel());
    std::thread::spawn(move || {
        let value = || Replaced {
            interlock: interlock.clone(),
            loaded: Arc::downgrade(&loaded),
            saw: saw.clone(),
        };
        for _ in 0..2 {
            interlock.run(|r| r.load(|l| loaded.set(value(), l)).expect("alone")).expect("alone");
        }
        interlock.unload(|unloading| loaded.clear(unloading)).expect("alone");
    });
    // The second is removed, and nothing has replaced it.
    for found in [true, false] {
        assert_eq!(seen.recv_timeout(Duration::from_secs(60)), Ok(found));
    }
}
