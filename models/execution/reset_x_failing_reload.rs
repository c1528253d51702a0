//! The body of an execution unloads by its own share, which lets a waiting reload go first. That reload fails, and
//! the execution is reset.
//!
//! Guards the look at the world in `Execution::begin_anew`: the share was given up, so the world need not be whole.
//! Without it, the hooks and the body of the new execution run on a half reloaded world. Asserted: code after a
//! successful reset sees a whole world, and a failed reset returns the reason.

use crate::execution::{Executor, HalfReloaded};
use crate::models::rig::*;
use crate::models::world::World;
use crate::sync::has_failed;

#[test]
fn reset_x_failing_reload() {
    let ways = ["it begins again", "half reloaded"];
    explore("reset_x_failing_reload", &ways, move |outcomes| {
        let (world, builder) = World::reentrant(2);
        let reloader = builder.build().expect("valid");
        let interlock = reloader.executor().interlock().expect("it has one").clone();
        let hook = world.clone();
        let run = move || {
            if !has_failed() {
                hook.look();
            }
            Ok(())
        };
        let executor = Executor::builder().interlock(interlock).to_run(run).build();
        world.fail_once();
        let mut execution = executor.run().expect("the world is whole");
        let reloads = spawn(move || reloader.wrap(|_| Ok(())).is_err());
        let running = execution.running().expect("there is an interlock");
        running.unload(|_| ()).expect("no deadlock");
        let reset = execution.reset();
        outcomes.note(ways[usize::from(reset.is_err())]);
        match reset {
            Ok(()) => _ = execution.within(|_| world.look()),
            Err(refused) => assert!(refused.cause().is::<HalfReloaded>(), "{refused}"),
        }
        drop(execution);
        assert!(reloads.join().expect("no panic"), "its reload fails on purpose");
    });
}
