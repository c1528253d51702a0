//! An executor wraps a body inside an execution whose load was dropped, while another owner loads.
//!
//! Guards `Inner::view`: a nested execution waits for the share of its owner. Without that wait, its body runs beside
//! the load (INV-ILK-ALONE, PROP-ILK-USE-UNDER-SHARE). Asserted: the body runs with a share, before or after the load.

use crate::execution::Executor;
use crate::models::interlock::rig::*;
use std::pin::pin;

fn executor(interlock: &Interlock) -> Executor {
    Executor::builder().interlock(interlock.clone()).build()
}

#[test]
fn nested_wrap_x_load() {
    let orders = ["load, nested", "nested, load"];
    explore(Model("nested_wrap_x_load", 119), &orders, |outcomes| {
        let (interlock, code) = (Interlock::new(), LoadedCode::new());
        let (outer, inner) = (executor(&interlock), executor(&interlock));
        let mut other = owner(&interlock);
        let theirs = code.clone();
        let ended = outer.wrap(|execution| {
            let thread = {
                let running = execution.running().expect("there is an interlock");
                let mut load = pin!(running.load_async(async |_| ()));
                assert!(poll_once(load.as_mut()).is_pending());
                spawn(move || other.load(|_| theirs.alone("load")).expect("no limit"))
            };
            inner.wrap(|_| {
                code.note("nested");
                code.runs();
                Ok(())
            })?;
            Ok(thread)
        });
        ended.expect("it runs").join().expect("no panic");
        outcomes.note(code.log());
    });
}

/// An execution that began in a task's load goes to another thread, and loads there.
///
/// Guards `Running::in_section`: only code inside a section takes part in it. Otherwise two loads run at once
/// (INV-ILK-ONE-HOLDER). Asserted: the execution's load is refused, or comes after the section.
#[test]
fn escaped_execution_x_load() {
    explore(Model("escaped_execution_x_load", 7), &["load", "load, escaped"], |outcomes| {
        let (interlock, code) = (Interlock::new(), LoadedCode::new());
        let (executor, mut task) = (executor(&interlock), owner(&interlock));
        let theirs = code.clone();
        let load = task.load_async(async |_| {
            let mut escaped = executor.run_async().await.expect("it is a view");
            let thread = spawn(move || {
                let running = escaped.running().expect("there is an interlock");
                drop(running.load(|_| theirs.alone("escaped")));
            });
            code.alone("load");
            thread
        });
        block_on(load).expect("no limit").join().expect("no panic");
        outcomes.note(code.log());
    });
}

/// A nested execution outlives the one around it, and is dropped on another thread.
///
/// Guards the count of views (`State::leave`): the last view takes the owner out, on any thread. Asserted: an unload
/// waits for it, and comes after its hook.
#[test]
fn nested_execution_x_unload() {
    let ways = ["it had ended", "it had not ended"];
    explore(Model("nested_execution_x_unload", 32), &ways, move |outcomes| {
        let (interlock, code) = (Interlock::new(), LoadedCode::new());
        let completed = code.clone();
        let complete = move || {
            completed.note("hook");
            completed.runs();
            Ok(())
        };
        let inner = Executor::builder().interlock(interlock.clone()).to_complete(complete).build();
        let outer = executor(&interlock);
        let nested = outer.wrap(|_| Ok(block_on(inner.run_async())?)).expect("it runs");
        let thread = spawn(move || drop(nested));
        let had_ended = interlock.dump().owners.is_empty();
        interlock.unload(|_| code.alone("unload")).expect("no limit");
        thread.join().expect("no panic");
        assert_eq!(code.log(), "hook, unload");
        outcomes.note(ways[usize::from(!had_ended)]);
    });
}
