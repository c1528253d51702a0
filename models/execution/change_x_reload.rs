//! The source changes while a reload is under way, or two executions meet one change.

use crate::models::loaded_code::{LoadedCode, execute};
use crate::models::rig::*;

/// Guards the place of `Changes::take_up`, which is before the unload: a change from then on is a new change. If the
/// reload took it up afterwards, it would forget a change that came while it loaded the old source. Asserted: the
/// next execution runs on the newest code, after one reload or two.
#[test]
fn change_x_reload() {
    let ways = ["the newest at once", "the newest at once and again", "the newest by the second"];
    explore(Model("change_x_reload", 1_855), &ways, move |outcomes| {
        let (code, builder) = LoadedCode::new(2);
        let reloader = builder.build().expect("valid");
        let edited = code.clone();
        let editor = spawn(move || edited.edit(3));
        let first = execute(&reloader, &code).expect("it succeeds");
        editor.join().expect("no panic");
        assert_eq!(execute(&reloader, &code).expect("it succeeds"), 3);
        outcomes.note(match (first, code.unloads()) {
            (3, 1) => ways[0],
            // The reload looked at the source before the change, and loaded it afterwards.
            (3, 2) => ways[1],
            (2, 2) => ways[2],
            unexpected => panic!("{unexpected:?}"),
        });
    });
}

/// Guards that the reload takes up the change that caused it. An execution that found the same change, and waited,
/// then has no reload left to make. Otherwise both reload, the second under the first one's body. Asserted: one
/// reload, and both bodies run on the new code, which stays the same.
#[test]
fn change_x_two_executions() {
    let ways = ["its execution completed first", "the other's completed first"];
    explore(Model("change_x_two_executions", 502), &ways, move |outcomes| {
        let (code, builder) = LoadedCode::without_steps(2);
        let reloader = builder.build().expect("valid");
        let (theirs, seen) = (reloader.clone(), code.clone());
        let other = spawn(move || execute(&theirs, &seen).expect("it succeeds"));
        assert_eq!(execute(&reloader, &code).expect("it succeeds"), 2);
        let completed = code.completed();
        assert_eq!(other.join().expect("no panic"), 2);
        assert_eq!((code.unloads(), code.completed()), (1, 2));
        outcomes.note(ways[completed - 1]);
    });
}
