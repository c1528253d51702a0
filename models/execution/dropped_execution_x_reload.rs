//! An execution is dropped on another thread than its own while the reloader reloads.
//!
//! Guards that a drop completes the hooks, and the order of `Execution::end`: hooks are completed under the share,
//! which is left last. Otherwise a hook is completed during a reload, or never. Asserted: both executions are
//! completed once, and their hooks see a whole world that stays the same.

use crate::models::rig::*;
use crate::models::world::{World, execute};

#[test]
fn dropped_execution_x_reload() {
    explore("dropped_execution_x_reload", &["completed"], |outcomes| {
        let (world, builder) = World::reentrant(1);
        let reloader = builder.build().expect("valid");
        let execution = reloader.run().expect("it runs");
        world.edit(2);
        let dropper = spawn(move || drop(execution));
        assert_eq!(execute(&reloader, &world).expect("it succeeds"), 2);
        dropper.join().expect("no panic");
        assert_eq!((world.unloads(), world.completed()), (1, 2));
        outcomes.note("completed");
    });
}
