//! An executor wraps a body inside an execution whose share is given up, while another owner loads. The share was
//! given up by a dropped load, or beside a permit block or a load of the same task.
//!
//! Guards `Interlock::share`: an execution inside another has a share of its own, either one more of the same owner
//! or a child's. Without it, the body runs beside the load (INV-ILK-ALONE, PROP-ILK-USE-UNDER-SHARE).
//!
//! Guards too that `Running::beside` refuses to wait for a holder beside a load of its own thread: that load's future
//! is not polled meanwhile. Asserted: the body runs alone, or is refused where it would have to wait beside such a
//! load. Every execution ends.

use crate::execution::{BoxError, Executor};
use crate::models::interlock::rig::*;
use std::future::pending;
use std::pin::pin;

fn executors(interlock: &Interlock) -> [Executor; 2] {
    [(); 2].map(|()| Executor::builder().interlock(interlock.clone()).build())
}

/// The nested execution waits until the other owner has loaded.
#[test]
fn nested_wrap_x_load() {
    let orders = ["load, nested", "nested, load"];
    explore("nested_wrap_x_load", &orders, |outcomes| {
        let (interlock, world) = (Interlock::new(), World::new());
        let [outer, inner] = executors(&interlock);
        let mut other = interlock.enter();
        let theirs = world.clone();
        let ended = outer.wrap(|execution| {
            let thread = {
                let running = execution.running().expect("there is an interlock");
                let mut load = pin!(running.load_async());
                assert!(poll_once(load.as_mut()).is_pending());
                spawn(move || other.load(|_| theirs.alone("load")).expect("no deadlock"))
            };
            inner.wrap(|_| {
                world.note("nested");
                world.runs();
                Ok(())
            })?;
            Ok(thread)
        });
        ended.expect("it runs").join().expect("no panic");
        outcomes.note(world.story());
    });
}

/// The same, beside a permit block that goes on.
#[test]
fn nested_wrap_x_sibling_permit_x_load() {
    let orders = ["load, nested", "nested, load"];
    explore("nested_wrap_x_sibling_permit_x_load", &orders, |outcomes| {
        let (interlock, world) = (Interlock::new(), World::new());
        let [outer, inner] = executors(&interlock);
        let mut other = interlock.enter();
        let theirs = world.clone();
        let ended = outer.wrap(|execution| {
            let running = execution.running().expect("there is an interlock");
            let mut permits = pin!(running.permit_loads_async(pending::<()>()));
            assert!(poll_once(permits.as_mut()).is_pending());
            let thread = spawn(move || other.load(|_| theirs.alone("load")).expect("no deadlock"));
            inner.wrap(|_| {
                world.note("nested");
                world.runs();
                Ok(())
            })?;
            Ok(thread)
        });
        ended.expect("it runs").join().expect("no panic");
        outcomes.note(world.story());
    });
}

/// Beside a load that waits, and may have been granted, the nested execution does not wait.
#[test]
fn nested_wrap_x_sibling_load_x_load() {
    let orders = ["load", "nested, load"];
    explore("nested_wrap_x_sibling_load_x_load", &orders, |outcomes| {
        let (interlock, world) = (Interlock::new(), World::new());
        let [outer, inner] = executors(&interlock);
        let mut other = interlock.enter();
        let theirs = world.clone();
        let ended = outer.wrap(|execution| {
            let running = execution.running().expect("there is an interlock");
            let mut load = pin!(running.load_async());
            assert!(poll_once(load.as_mut()).is_pending());
            let thread = spawn(move || other.load(|_| theirs.alone("load")).expect("no deadlock"));
            let nested = inner.wrap(|_| {
                world.note("nested");
                world.runs();
                Ok(())
            });
            if let Err(refused) = nested {
                let refused = refused.into_cause();
                assert!(matches!(refused.downcast_ref(), Some(AcquireError::Nested)), "{refused}");
            }
            Ok(thread)
        });
        ended.expect("it runs").join().expect("no panic");
        outcomes.note(world.story());
    });
}

/// A future that has begun inside an execution outlives it: an unload waits for the future, too.
#[test]
fn nested_wrap_async_x_unload() {
    explore("nested_wrap_async_x_unload", &["completed, unload"], |outcomes| {
        let (interlock, world) = (Interlock::new(), World::new());
        let [outer, _] = executors(&interlock);
        let completed = world.clone();
        let complete = move || {
            completed.note("completed");
            completed.runs();
            Ok(())
        };
        let inner = Executor::builder().interlock(interlock.clone()).to_complete(complete).build();
        let mut nested =
            Box::pin(inner.wrap_async(async |_| pending::<Result<(), BoxError>>().await));
        let begun = outer.wrap(|_| Ok(poll_once(nested.as_mut()).is_pending()));
        assert!(begun.expect("it runs"));
        let theirs = world.clone();
        let thread = spawn(move || interlock.unload(|_| theirs.alone("unload")));
        drop(nested);
        thread.join().expect("no panic").expect("no deadlock");
        outcomes.note(world.story());
    });
}
