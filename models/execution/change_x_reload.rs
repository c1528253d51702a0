//! The source changes while a reload is under way.
//!
//! Guards the place of `Changes::take_up`, which is before the unload: a change from then on is a new change. If the
//! reload took it up afterwards, it would forget a change that came while it loaded the old source. Asserted: the
//! next execution runs on the newest world, after one reload or two.

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
            // The reload looked at the source before the change, and loaded it afterwards.
            (3, 2) => ways[1],
            (2, 2) => ways[2],
            unexpected => panic!("{unexpected:?}"),
        });
    });
}
