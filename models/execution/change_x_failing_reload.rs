//! Two executions have found one change; when the first has reloaded, the second has its turn, and something
//! has changed once more: a child of somebody who waits to unload, too, was let in between the two and noted
//! it. The second reload fails.
//!
//! Guards the loop in `Execution::start`: a body begins when the world is whole after its share has come back,
//! not when its own reload has succeeded. Without it the first one's body runs on what the second has half
//! reloaded. Asserted: whoever runs sees a whole world, and one fails at most.
//!
//! Random schedules: so many are too many steps for loom.

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
                // It notes the change, and is refused the reload.
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
