//! Two executions meet one change.
//!
//! Guards `Changes::take_up`: the reload takes up the change that caused it. An execution that found the same change
//! and waited then has no reload left to make. Without it, both reload, the second under the first one's body.
//! Asserted: one reload, and both bodies run on the new world, which stays the same.

use crate::models::rig::*;
use crate::models::world::{World, execute};

#[test]
fn change_x_two_executions() {
    explore("change_x_two_executions", &["one reload"], |outcomes| {
        let (world, builder) = World::new(2);
        let reloader = builder.build().expect("valid");
        let (theirs, seen) = (reloader.clone(), world.clone());
        let other = spawn(move || execute(&theirs, &seen).expect("it succeeds"));
        assert_eq!(execute(&reloader, &world).expect("it succeeds"), 2);
        assert_eq!(other.join().expect("no panic"), 2);
        assert_eq!(world.unloads(), 1);
        outcomes.note("one reload");
    });
}
