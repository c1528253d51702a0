//! A reload fails in the middle, beside another execution.
//!
//! Guards the failure that the interlock keeps: no execution begins on code that is neither old nor new. The
//! reloader tries again once its pause has passed. Asserted: one reload fails, and every body sees whole code. In
//! the end that is the new one, after one more reload.

use crate::execution::{ExecutionError, Refused, Reloader, Stage};
use crate::models::loaded_code::{LoadedCode, execute};
use crate::models::rig::*;
use std::time::Duration;

const PAUSE: Duration = Duration::from_millis(100);

fn is_refused(error: &ExecutionError) -> bool {
    matches!(error.first().cause().downcast_ref(), Some(Refused::ReloadFailed(_)))
}

/// Asserts that the pause is kept, and that the next reload succeeds.
fn end(reloader: &Reloader, code: &LoadedCode) {
    assert!(is_refused(&execute(reloader, code).expect_err("it is refused")));
    assert_eq!(code.unloads(), 0);
    code.clock().advance(PAUSE);
    assert_eq!(execute(reloader, code).expect("it is tried again"), 2);
    assert_eq!(code.unloads(), 1);
}

/// The other execution is one of the executor alone.
#[test]
fn failed_reload_x_execution() {
    let ways = ["on the old code", "refused"];
    explore(Model("failed_reload_x_execution", 5_036), &ways, move |outcomes| {
        let (code, builder) = LoadedCode::new(2);
        let reloader = builder.build().expect("valid");
        code.fail(1);
        let (executor, seen) = (reloader.executor().clone(), code.clone());
        let other = spawn(move || executor.wrap(|_| Ok(seen.look())));
        let error = execute(&reloader, &code).expect_err("it fails");
        assert_eq!(error.first().stage(), Stage::Unload);
        outcomes.note(match other.join().expect("no panic") {
            Ok(version) => {
                assert_eq!(version, 1);
                ways[0]
            }
            Err(error) => {
                assert!(is_refused(&error), "{error}");
                ways[1]
            }
        });
        end(&reloader, &code);
    });
}

/// The other execution is one of the reloader. It may have found the same change, and wait to unload, too.
#[test]
fn failed_reload_x_second_execution() {
    let ways = ["the first fails", "the second fails"];
    explore(Model("failed_reload_x_second_execution", 97), &ways, move |outcomes| {
        let (code, builder) = LoadedCode::without_steps(2);
        let reloader = builder.build().expect("valid");
        code.fail(1);
        let (theirs, seen) = (reloader.clone(), code.clone());
        let other = spawn(move || execute(&theirs, &seen).expect_err("it fails"));
        let mine = execute(&reloader, &code).expect_err("it fails");
        let other = other.join().expect("no panic");
        assert!(is_refused(&mine) != is_refused(&other), "one reload fails: {mine}; {other}");
        outcomes.note(ways[usize::from(is_refused(&mine))]);
        end(&reloader, &code);
    });
}

/// The pause passes while the next execution begins.
#[test]
fn failed_reload_x_pause() {
    let ways = ["refused", "tried again"];
    explore(Model("failed_reload_x_pause", 64), &ways, move |outcomes| {
        let (code, builder) = LoadedCode::new(2);
        let reloader = builder.build().expect("valid");
        code.fail(1);
        assert!(execute(&reloader, &code).is_err());
        let there = code.clone();
        let clock = spawn(move || there.clock().advance(PAUSE));
        outcomes.note(match execute(&reloader, &code) {
            Ok(version) => {
                assert_eq!(version, 2);
                ways[1]
            }
            Err(error) => {
                assert!(is_refused(&error), "{error}");
                ways[0]
            }
        });
        clock.join().expect("no panic");
        assert_eq!(execute(&reloader, &code).expect("the pause has passed"), 2);
        assert_eq!(code.unloads(), 1);
    });
}
