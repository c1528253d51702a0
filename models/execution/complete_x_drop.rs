//! Two threads race to end one execution, by completing or dropping it, while a reload waits for its end.
//!
//! Guards that an execution is a value with one owner, and that its drop completes it. Guards also the order of
//! `Execution::end`: hooks are completed under the share, which is left last. Otherwise a hook is completed during a
//! reload, or never. Asserted: each execution is completed once, this one by either thread, before the reload.

use crate::kernel::sync::Mutex;
use crate::models::loaded_code::{LoadedCode, execute};
use crate::models::rig::*;
use std::sync::Arc;

#[test]
fn complete_x_drop() {
    explore(Model("complete_x_drop", 146), &["completed", "dropped"], |outcomes| {
        let (code, builder) = LoadedCode::new(1);
        let reloader = builder.build().expect("valid");
        let execution = block_on(reloader.run_async()).expect("it runs");
        code.edit(2);
        let shared = Arc::new(Mutex::new(Some(execution)));
        let theirs = shared.clone();
        let completer = spawn(move || {
            let execution = theirs.lock().take();
            execution.is_some_and(|execution| execution.complete().is_ok())
        });
        let execution = shared.lock().take();
        drop(execution);
        assert_eq!(execute(&reloader, &code).expect("it succeeds"), 2);
        let by_completer = completer.join().expect("no panic");
        assert_eq!((code.unloads(), code.completed()), (1, 2));
        outcomes.note(if by_completer { "completed" } else { "dropped" });
    });
}

/// The execution must unload at its end, and the future that completes it is dropped while it waits for that.
///
/// Guards that the reload is noted before the wait (`Execution::reload_last`). Asserted: the execution is completed
/// once, and the next one reloads.
#[test]
fn dropped_complete_x_unload() {
    let expected = ["granted", "waiting"];
    explore(Model("dropped_complete_x_unload", 25), &expected, move |outcomes| {
        let (code, builder) = LoadedCode::new(1);
        let reloader = builder.always().build().expect("valid");
        let execution = block_on(reloader.run_async()).expect("it runs");
        let other = crate::models::interlock::rig::owner(code.interlock());
        code.edit(2);
        let mut completes = Box::pin(execution.complete_async());
        assert!(poll_once(completes.as_mut()).is_pending(), "another owner runs");
        let leaver = spawn(move || drop(other));
        let granted = code.interlock().dump().owners.len() == 1;
        drop(completes);
        outcomes.note(expected[usize::from(!granted)]);
        assert_eq!((code.unloads(), code.completed()), (0, 1));
        leaver.join().expect("no panic");
        assert_eq!(execute(&reloader, &code).expect("it succeeds"), 2);
        assert_eq!((code.unloads(), code.completed()), (2, 2), "before its body, and after it");
    });
}
