//! Something changes while a reload is under way.
//!
//! Guards the place of `Changes::take_up`: before anything is unloaded. What changes from then on
//! is a new change. If it were taken up afterwards, a change that came while the old source was
//! being loaded would be forgotten. Asserted: the next execution runs on the newest world, after
//! one reload or two.

use crate::models::rig::*;
use crate::models::world::{World, execute};

#[test]
fn change_x_reload() {
    let ways = ["the newest at once", "the newest at once and again", "the newest by the second"];
    explore("change_x_reload", &ways, move |outcomes| {
        let (world, builder) = World::reentrant(2);
        let reloader = builder.build().expect("valid");
        let edited = world.clone();
        let editor = spawn(move || edited.edit(3));
        let first = execute(&reloader, &world).expect("it succeeds");
        editor.join().expect("no panic");
        assert_eq!(execute(&reloader, &world).expect("it succeeds"), 3);
        outcomes.note(match (first, world.unloads()) {
            (3, 1) => ways[0],
            // It was looked at before, and loaded after the change.
            (3, 2) => ways[1],
            (2, 2) => ways[2],
            unexpected => panic!("{unexpected:?}"),
        });
    });
}
