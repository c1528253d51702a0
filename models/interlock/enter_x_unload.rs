//! An execution begins while another owner unloads, or asks to load or unload.
//!
//! Guards the newcomer's guard (`State::may_enter`) and the unload's (`State::may_hold`). Without them an execution
//! runs beside an unload, or overtakes an owner that waits (PROP-ILK-NEWCOMERS-WAIT). Asserted: the unload is alone
//! (INV-ILK-ALONE), and an execution that comes after a request begins after it.

use crate::models::interlock::rig::*;
use std::pin::Pin;

#[test]
fn interlock_enter_x_unload() {
    let expected = ["run, unload", "unload, run"];
    explore(Model("interlock_enter_x_unload", 64), &expected, |outcomes| {
        let (interlock, code) = (Interlock::new(), LoadedCode::new());
        let theirs = (interlock.clone(), code.clone());
        let thread = spawn(move || {
            let (interlock, code) = theirs;
            let run = interlock.run(|_| {
                code.note("run");
                code.runs();
            });
            run.expect("no limit");
        });
        interlock.unload(|_| code.alone("unload")).expect("no limit");
        thread.join().expect("no panic");
        outcomes.note(code.log());
    });
}

/// A request waits for the share of another owner, which ends while a newcomer comes.
fn newcomer_x_request(
    state: OwnerState,
    request: impl for<'a> Fn(
        &'a mut Running<'_>,
        &'a LoadedCode,
    ) -> Pin<Box<dyn Future<Output = ()> + 'a>>,
) -> &'static str {
    let (interlock, code) = (Interlock::new(), LoadedCode::new());
    let (mut asks, runs) = (owner(&interlock), owner(&interlock));
    let theirs = (interlock.clone(), code.clone());
    let thread = spawn(move || {
        let (interlock, code) = theirs;
        let asked = in_state(&interlock, state) == 1;
        let run = interlock.run(|_| {
            code.note("run");
            code.runs();
        });
        run.expect("no limit");
        asked
    });
    let mut request = request(&mut asks, &code);
    assert!(poll_once(request.as_mut()).is_pending(), "another owner runs");
    drop(runs);
    reentry(&interlock).block_on(request);
    drop(asks);
    match (thread.join().expect("no panic"), code.log().as_str()) {
        (_, "request, run") => "after the request",
        (false, "run, request") => "before the request",
        (asked, log) => panic!("{log}, asked: {asked}"),
    }
}

#[test]
fn interlock_newcomer_x_load() {
    let expected = ["after the request", "before the request"];
    explore(Model("interlock_newcomer_x_load", 1_493), &expected, |outcomes| {
        outcomes.note(newcomer_x_request(OwnerState::WaitingToLoad, |asks, code| {
            Box::pin(async {
                asks.load_async(async |_| code.alone("request")).await.expect("no limit")
            })
        }));
    });
}

#[test]
fn interlock_newcomer_x_unload() {
    let expected = ["after the request", "before the request"];
    explore(Model("interlock_newcomer_x_unload", 1_493), &expected, |outcomes| {
        outcomes.note(newcomer_x_request(OwnerState::WaitingToUnload, |asks, code| {
            Box::pin(unload_async(asks, || code.alone("request")))
        }));
    });
}
