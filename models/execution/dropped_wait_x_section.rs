//! A `wrap_async` is dropped while its body waits to load or to unload, and another owner does.
//!
//! Guards the drop of an `Execution`: it completes the hooks at once, on the dropping thread, though the share may be
//! missing. A hook that begins an execution then fails (`State::regain`), because the holder may be a task of the same
//! thread. Without that, it would run beside the other owner's section (PROP-ILK-USE-UNDER-SHARE), or hang. Asserted:
//! the drop completes the hook once, and the execution leaves.

use crate::execution::Executor;
use crate::models::interlock::rig::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

fn dropped_beside(
    waits: impl AsyncFnOnce(&mut Running<'_>),
    section: fn(&mut Running<'_>, &LoadedCode),
) -> String {
    let (interlock, code) = (Interlock::new(), LoadedCode::new());
    let completed = Arc::new(AtomicUsize::new(0));
    let (ilk, there, counted) = (interlock.clone(), code.clone(), completed.clone());
    let complete = move || {
        counted.fetch_add(1, SeqCst);
        ilk.run(|_| {
            there.note("hook");
            there.runs();
        })?;
        Ok(())
    };
    let executor = Executor::builder().interlock(interlock.clone()).to_complete(complete).build();
    let mut other = owner(&interlock);
    let mut task = Box::pin(executor.wrap_async(async |execution| {
        waits(execution.running().expect("there is an interlock")).await;
        Ok(())
    }));
    assert!(poll_once(task.as_mut()).is_pending());
    let theirs = code.clone();
    let thread = spawn(move || section(&mut other, &theirs));
    drop(task);
    assert_eq!(completed.load(SeqCst), 1, "the drop completes");
    thread.join().expect("no panic");
    let log = code.log();
    assert_free(&interlock, &code);
    log
}

#[test]
fn dropped_wrap_async_x_load() {
    let orders = ["hook, load", "load", "load, hook"];
    explore(Model("dropped_wrap_async_x_load", 112), &orders, |outcomes| {
        outcomes.note(dropped_beside(
            async |running| running.load_async(async |_| ()).await.expect("it is dropped"),
            |other, code| other.load(|_| code.alone("load")).expect("no limit"),
        ));
    });
}

#[test]
fn dropped_wrap_async_x_unload() {
    let orders = ["hook, unload", "unload", "unload, hook"];
    explore(Model("dropped_wrap_async_x_unload", 112), &orders, |outcomes| {
        outcomes.note(dropped_beside(
            async |running| unload_async(running, || ()).await,
            |other, code| unload(other, || code.alone("unload")),
        ));
    });
}
