//! An execution that two may end: whoever finds it completes it, or drops it, while a reload waits
//! for its end.
//!
//! Guards that an execution is a value, and that its drop completes it: it has one owner, so it is
//! completed once and gives its share back once, by either way. Without the drop's half a hook that
//! has run would never be completed. Asserted: each execution is completed once, this one by the
//! one or the other, before the reload.

use crate::models::rig::*;
use crate::models::world::{World, execute};
use crate::sync::Mutex;
use std::sync::Arc;

#[test]
fn complete_x_drop() {
    explore("complete_x_drop", &["completed", "dropped"], |outcomes| {
        let (world, builder) = World::reentrant(1);
        let reloader = builder.build().expect("valid");
        let execution = reloader.run().expect("it runs");
        world.edit(2);
        let shared = Arc::new(Mutex::new(Some(execution)));
        let theirs = shared.clone();
        let completer = spawn(move || {
            let execution = theirs.lock().take();
            execution.is_some_and(|execution| execution.complete().is_ok())
        });
        let execution = shared.lock().take();
        drop(execution);
        assert_eq!(execute(&reloader, &world).expect("it succeeds"), 2);
        let by_completer = completer.join().expect("no panic");
        assert_eq!((world.unloads(), world.completed()), (1, 2));
        outcomes.note(if by_completer { "completed" } else { "dropped" });
    });
}
