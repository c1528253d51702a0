//! A `wrap_async` is dropped while its body waits to load and another owner loads.
//!
//! Guards the drop of an `Execution`. It first takes back its share; during another owner's load, the execution is
//! completed after that load (`guard/late.rs`). Without it, the hook is completed beside the load
//! (PROP-ILK-USE-UNDER-SHARE). Asserted: the hook is completed once, under a share, and the execution leaves, both by
//! the drop itself and by the loading thread.
//!
//! In the second model that thread is in an execution of its own, to which the hook does not belong (`Outside`). An
//! executor that both run is therefore nested in neither.

use crate::execution::Executor;
use crate::models::interlock::rig::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

#[test]
fn dropped_wrap_async_x_load() {
    let expected = ["completed by the drop", "completed by the load"];
    explore("dropped_wrap_async_x_load", &expected, move |outcomes| {
        let (interlock, world) = (Interlock::new(), World::new());
        let completed = Arc::new(AtomicUsize::new(0));
        let executor = {
            let (world, completed) = (world.clone(), completed.clone());
            let complete = move || {
                world.runs();
                completed.fetch_add(1, SeqCst);
                Ok(())
            };
            Executor::builder().interlock(interlock.clone()).to_complete(complete).build()
        };
        let mut other = interlock.enter();
        let mut task = Box::pin(executor.wrap_async(async |execution| {
            let running = execution.running().expect("there is an interlock");
            drop(running.load_async().await?);
            Ok(())
        }));
        assert!(poll_once(task.as_mut()).is_pending());
        let theirs = world.clone();
        let thread = spawn(move || other.load(|_| theirs.alone("load")).expect("no deadlock"));
        drop(task);
        let by_the_drop = completed.load(SeqCst) == 1;
        thread.join().expect("no panic");
        assert_eq!(completed.load(SeqCst), 1);
        outcomes.note(if by_the_drop { expected[0] } else { expected[1] });
        interlock.unload(|_| ()).expect("no execution is left");
    });
}

#[test]
fn dropped_wrap_async_x_load_in_an_execution() {
    let expected = ["completed by the drop", "completed by the load"];
    explore("dropped_wrap_async_x_load_in_an_execution", &expected, move |outcomes| {
        let (interlock, world) = (Interlock::new(), World::new());
        let begun = Arc::new(AtomicUsize::new(0));
        let counted = begun.clone();
        let inner = Executor::builder()
            .interlock(interlock.clone())
            .to_run(move || {
                counted.fetch_add(1, SeqCst);
                Ok(())
            })
            .build();
        let executor = {
            let (world, inner) = (world.clone(), inner.clone());
            let complete = move || {
                inner.wrap(|_| {
                    world.runs();
                    Ok(())
                })?;
                Ok(())
            };
            Executor::builder().interlock(interlock.clone()).to_complete(complete).build()
        };
        let mut theirs = inner.run().expect("it runs");
        let mut task = Box::pin(executor.wrap_async(async |execution| {
            let running = execution.running().expect("there is an interlock");
            drop(running.load_async().await?);
            Ok(())
        }));
        assert!(poll_once(task.as_mut()).is_pending());
        let thread = spawn(move || {
            theirs.within(|execution| {
                let running = execution.running().expect("there is an interlock");
                running.load(|_| world.alone("load")).expect("no deadlock");
            });
        });
        drop(task);
        let by_the_drop = begun.load(SeqCst) == 2;
        thread.join().expect("no panic");
        assert_eq!(begun.load(SeqCst), 2, "its hooks run for each of its executions");
        outcomes.note(if by_the_drop { expected[0] } else { expected[1] });
    });
}
