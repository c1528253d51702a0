//! A task completes an execution whose load was given up, while another owner loads.
//!
//! Guards the waits of `Execution::complete_async` and `reset_async`: hooks are completed under the share, without
//! blocking the thread. Without them, hooks are completed beside the load (PROP-ILK-USE-UNDER-SHARE). Asserted: the
//! hooks and the load never run side by side, and each happens. Dropping the future instead of polling it completes
//! the hook once, too.

use crate::execution::{Execution, Executor};
use crate::models::interlock::rig::*;
use crate::models::rig::block_on;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// Ends an execution whose load was given up, beside another thread's load. Returns their order and the number of
/// completions.
fn race(ends: impl FnOnce(Execution<'static>)) -> (String, usize) {
    let (interlock, world) = (Interlock::new(), World::new());
    let completed = Arc::new(AtomicUsize::new(0));
    let executor = {
        let (world, completed) = (world.clone(), completed.clone());
        let complete = move || {
            if completed.fetch_add(1, SeqCst) == 0 {
                world.note("completed");
            }
            world.runs();
            Ok(())
        };
        Executor::builder().interlock(interlock.clone()).to_complete(complete).build()
    };
    let mut other = interlock.enter();
    let mut execution = block_on(executor.run_async()).expect("it runs");
    let thread = {
        let running = execution.running().expect("there is an interlock");
        let mut load = pin!(running.load_async());
        assert!(poll_once(load.as_mut()).is_pending());
        let theirs = world.clone();
        spawn(move || other.load(|_| theirs.alone("load")).expect("no deadlock"))
    };
    ends(execution);
    thread.join().expect("no panic");
    interlock.unload(|_| ()).expect("no execution is left");
    (world.story(), completed.load(SeqCst))
}

#[test]
fn complete_async_x_load() {
    let orders = ["completed, load", "load, completed"];
    explore("complete_async_x_load", &orders, |outcomes| {
        let (order, completed) =
            race(|execution| block_on(execution.complete_async()).expect("it completes"));
        assert_eq!(completed, 1);
        outcomes.note(&order);
    });
}

#[test]
fn reset_async_x_load() {
    let orders = ["completed, load", "load, completed"];
    explore("reset_async_x_load", &orders, |outcomes| {
        let (order, completed) = race(|mut execution| {
            block_on(execution.reset_async()).expect("it completes, and runs again");
            execution.complete().expect("it completes");
        });
        assert_eq!(completed, 2);
        outcomes.note(&order);
    });
}

#[test]
fn dropped_complete_async_x_load() {
    let orders = ["completed, load", "load, completed"];
    explore("dropped_complete_async_x_load", &orders, |outcomes| {
        let (order, completed) = race(|execution| {
            let mut completes = Box::pin(execution.complete_async());
            let _ = poll_once(completes.as_mut());
        });
        assert_eq!(completed, 1);
        outcomes.note(&order);
    });
}
