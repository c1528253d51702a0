//! Two threads race to end one execution, by completing or dropping it, while a reload waits for its end.
//!
//! Guards that an execution is a value with one owner, and that its drop completes it. Either way it is completed
//! once and gives its share back once. Without the drop, a hook that has run is never completed. Asserted: each
//! execution is completed once, this one by either thread, before the reload.

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
