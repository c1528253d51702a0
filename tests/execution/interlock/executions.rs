//! The operations that an execution may use, and the state after panics.

use crate::interlock::actor::{Actor, newcomer_waits};
use cabrank::Interlock;
use cabrank::execution::interlock::AcquireError;
use cabrank::execution::interlock::OwnerState::{Loading, WaitingToLoad};
use std::panic::{AssertUnwindSafe, catch_unwind};

fn panics(f: impl FnOnce()) {
    assert!(catch_unwind(AssertUnwindSafe(f)).is_err(), "it panics");
}

#[test]
fn a_nested_execution_is_the_same_owner_and_may_load_and_permit() -> Result<(), AcquireError> {
    let interlock = Interlock::new();
    interlock.run(|r| {
        interlock.run(|inner| {
            assert_eq!(inner.id(), r.id());
            inner.load(|_| ())?;
            inner.permit_loads(|| ())?;
            assert!(inner.has_share() && r.has_share());
            assert_eq!(interlock.dump().owners[0].views, 2);
            Ok(())
        })?
    })??;
    assert!(interlock.dump().owners.is_empty());
    Ok(())
}

/// While the execution around a block has given its share up, another one begins there, and may do as it likes.
#[test]
fn an_execution_in_a_permit_block_is_another_owner() -> Result<(), AcquireError> {
    let interlock = Interlock::new();
    interlock.run(|r| {
        let outer = r.id();
        r.permit_loads(|| {
            interlock.run(|inner| {
                assert_ne!(inner.id(), outer);
                inner.load(|_| ())?;
                inner.permit_loads(|| interlock.run(|innermost| innermost.load(|_| ())))??
            })?
        })?
    })?
}

#[test]
fn a_panic_in_a_body_gives_everything_back() -> Result<(), AcquireError> {
    let interlock = Interlock::new();
    panics(|| drop(interlock.run(|_| panic!("a body"))));
    panics(|| drop(interlock.run(|r| r.load(|_| panic!("a load")))));
    panics(|| drop(interlock.unload(|_| panic!("an unload"))));
    interlock.run(|r| {
        panics(|| drop(r.load(|_| panic!("a load"))));
        assert!(r.has_share());
        panics(|| drop(r.permit_loads(|| panic!("a permit block"))));
        assert!(r.has_share());
        panics(|| drop(interlock.run(|_| panic!("a nested body"))));
        r.load(|_| ())
    })??;
    assert!(interlock.dump().owners.is_empty());
    assert_eq!(interlock.generation(), 1);
    Ok(())
}

/// A panic may come while another owner holds. The share then comes back later.
#[test]
fn a_panic_in_a_permit_block_waits_for_no_holder() -> Result<(), AcquireError> {
    let interlock = Interlock::new();
    let loader = Actor::enter(&interlock);
    let (release, hold) = std::sync::mpsc::channel::<()>();
    interlock.run(|r| {
        let mut loads = None;
        panics(|| {
            let permitted = r.permit_loads(|| {
                loads = Some(loader.order_until(Loading, move |r| r.load(|_| hold.recv())));
                panic!("a permit block")
            });
            drop(permitted);
        });
        assert!(!r.has_share());
        drop(release);
        let loaded = loads.expect("it was ordered").done()?;
        assert!(loaded.is_err() && r.has_share());
        loader.leave();
        r.load(|_| ())
    })?
}

/// Each of two interlocks has its own executions.
#[test]
fn two_interlocks_do_not_meet() -> Result<(), AcquireError> {
    let (a, b) = (Interlock::new(), Interlock::new());
    a.run(|_| b.unload(|_| a.run(|r| r.load(|_| ()))))????;
    let loader = Actor::enter(&a);
    let sharer = Actor::enter(&a);
    let loads = loader.order_until(WaitingToLoad, |r| r.load(|_| ()));
    assert!(newcomer_waits(&a) && !newcomer_waits(&b));
    sharer.leave();
    loads.done()
}
