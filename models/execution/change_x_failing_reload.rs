//! Two executions have found one change. After the first has reloaded, the second has its turn and fails.
//!
//! The second reload is due because the source has changed once more. A child notes that change: it was let in
//! between the two because its parent waits to unload, too.
//!
//! Guards the loop in `Execution::start`: a body begins once its share is back and the world is whole, not once its
//! own reload has succeeded. Without it, the first body runs on a world that the second has half reloaded. Asserted:
//! every body sees a whole world, and at most one execution fails.
//!
//! Random schedules only: loom would need too many steps.

use crate::models::rig::*;
use crate::models::world::{World, execute};

#[test]
fn change_x_failing_reload() {
    let ways = ["all succeed", "one fails"];
    explore("change_x_failing_reload", &ways, move |outcomes| {
        let (world, builder) = World::new(2);
        let reloader = builder.build().expect("valid");
        let interlock = reloader.executor().interlock().expect("it has one").clone();
        let mut parent = interlock.enter();
        let child = parent.child();
        world.fail_second();
        let both = [(); 2].map(|()| {
            let (reloader, world) = (reloader.clone(), world.clone());
            spawn(move || execute(&reloader, &world).is_err())
        });
        let notes = spawn(move || {
            child.run(|_| {
                world.edit(3);
                // It notes the change, and its own reload is refused.
                let _ = reloader.wrap(|_| Ok(()));
            });
        });
        parent.unload(|_| ()).expect("no deadlock");
        drop(parent);
        notes.join().expect("no panic");
        let failed = both.map(|thread| thread.join().expect("no panic"));
        outcomes.note(ways[failed.into_iter().filter(|failed| *failed).count()]);
    });
}
