//! Two executions each use their value, and one is dropped on another thread than its own.
//!
//! Guards that each execution finds its own value (`PerExecution::with`), and that the hook drops it. Both hold no
//! lock, because the value's making and its drop call the library. Asserted: each value is made and dropped once, and
//! both are gone before an unload.

use crate::execution::{Executor, PerExecution};
use crate::models::interlock::rig::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

struct Value {
    uses: usize,
    reentry: Reentry,
    dropped: Arc<AtomicUsize>,
}

impl Drop for Value {
    fn drop(&mut self) {
        self.reentry.enter();
        self.dropped.fetch_add(1, SeqCst);
    }
}

#[test]
fn per_execution_x_end() {
    let expected = ["dropped before", "dropped later"];
    explore(Model("per_execution_x_end", 4_752), &expected, move |outcomes| {
        let interlock = Interlock::new();
        let (reentry, dropped) = (Reentry::default(), Arc::new(AtomicUsize::new(0)));
        let (theirs, counted) = (reentry.clone(), dropped.clone());
        let make = move || {
            theirs.enter();
            Ok(Value { uses: 0, reentry: theirs.clone(), dropped: counted.clone() })
        };
        let value = PerExecution::new(make);
        let calls = value.clone();
        let refused = "the value is being made, or is gone";
        reentry.enable(move || assert!(calls.with(|_| ()).is_err(), "{refused}"));
        let executor = Executor::builder().interlock(interlock.clone()).hook(value.clone()).build();
        let used = || {
            value.with(|value| {
                value.uses += 1;
                value.uses
            })
        };
        let mut other = block_on(executor.run_async()).expect("it runs");
        assert_eq!(other.within(|_| used()).expect("there is a value"), 1);
        let thread = spawn(move || drop(other));
        let uses = executor.wrap(|_| {
            outcomes.note(expected[1 - dropped.load(SeqCst)]);
            Ok([used()?, used()?])
        });
        assert_eq!(uses.expect("it runs"), [1, 2], "one value for this execution");
        interlock.unload(|_| assert_eq!(dropped.load(SeqCst), 2)).expect("no limit");
        thread.join().expect("no panic");
    });
}
