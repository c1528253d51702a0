//! A reload fails in the middle, beside an execution of the executor alone, or another one of the reloader.
//!
//! Guards `World::half_reloaded`: the executor refuses to run on a world that is neither old nor new. The reloader's
//! next execution reloads although the change was taken up. Asserted: one execution fails, and every body sees a
//! whole world. In the end that is the new one, after one more reload.

use crate::execution::{HalfReloaded, Stage};
use crate::models::rig::*;
use crate::models::world::{World, execute};

#[test]
fn failed_reload_x_execution() {
    let ways = ["on the old world", "refused"];
    explore("failed_reload_x_execution", &ways, move |outcomes| {
        let (world, builder) = World::new(2);
        let reloader = builder.build().expect("valid");
        world.fail_once();
        let (executor, seen) = (reloader.executor().clone(), world.clone());
        let other = spawn(move || executor.wrap(|_| Ok(seen.look())));
        let error = execute(&reloader, &world).expect_err("it fails");
        assert_eq!(error.stage(), Stage::Unload);
        outcomes.note(match other.join().expect("no panic") {
            Ok(1) => ways[0],
            Ok(other) => panic!("version {other}"),
            Err(error) => {
                assert!(error.cause().is::<HalfReloaded>(), "{error}");
                ways[1]
            }
        });
        assert_eq!(execute(&reloader, &world).expect("it is retried"), 2);
        assert_eq!(world.unloads(), 1);
    });
}

#[test]
fn failed_reload_x_second_execution() {
    let ways = ["the first fails", "the second fails"];
    explore("failed_reload_x_second_execution", &ways, move |outcomes| {
        let (world, builder) = World::new(2);
        let reloader = builder.build().expect("valid");
        world.fail_once();
        let (theirs, seen) = (reloader.clone(), world.clone());
        let other = spawn(move || execute(&theirs, &seen));
        let mine = execute(&reloader, &world);
        let other = other.join().expect("no panic");
        assert_eq!(world.unloads(), 1);
        outcomes.note(match (mine, other) {
            (Err(_), Ok(2)) => ways[0],
            (Ok(2), Err(_)) => ways[1],
            unexpected => panic!("{unexpected:?}"),
        });
    });
}
