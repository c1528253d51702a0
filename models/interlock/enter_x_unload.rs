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
    explore("interlock_enter_x_unload", &expected, |outcomes| {
        let (interlock, world) = (Interlock::new(), World::new());
        let theirs = (interlock.clone(), world.clone());
        let thread = spawn(move || {
            let (interlock, world) = theirs;
            let run = interlock.run(|_| {
                world.note("run");
                world.runs();
            });
            run.expect("no limit");
        });
        interlock.unload(|_| world.alone("unload")).expect("no limit");
        thread.join().expect("no panic");
        outcomes.note(world.story());
    });
}

/// A request waits for the share of another owner, which ends while a newcomer comes.
fn newcomer_x_request(
    state: OwnerState,
    request: impl for<'a> Fn(&'a mut Running<'_>, &'a World) -> Pin<Box<dyn Future<Output = ()> + 'a>>,
) -> &'static str {
    let (interlock, world) = (Interlock::new(), World::new());
    let (mut asks, runs) = (owner(&interlock), owner(&interlock));
    let theirs = (interlock.clone(), world.clone());
    let thread = spawn(move || {
        let (interlock, world) = theirs;
        let asked = in_state(&interlock, state) == 1;
        let run = interlock.run(|_| {
            world.note("run");
            world.runs();
        });
        run.expect("no limit");
        asked
    });
    let mut request = request(&mut asks, &world);
    assert!(poll_once(request.as_mut()).is_pending(), "another owner runs");
    drop(runs);
    reentry(&interlock).block_on(request);
    drop(asks);
    match (thread.join().expect("no panic"), world.story().as_str()) {
        (_, "request, run") => "after the request",
        (false, "run, request") => "before the request",
        (asked, story) => panic!("{story}, asked: {asked}"),
    }
}

#[test]
fn interlock_newcomer_x_load() {
    let expected = ["after the request", "before the request"];
    explore("interlock_newcomer_x_load", &expected, |outcomes| {
        outcomes.note(newcomer_x_request(OwnerState::WaitingToLoad, |asks, world| {
            Box::pin(async {
                asks.load_async(async |_| world.alone("request")).await.expect("no limit")
            })
        }));
    });
}

#[test]
fn interlock_newcomer_x_unload() {
    let expected = ["after the request", "before the request"];
    explore("interlock_newcomer_x_unload", &expected, |outcomes| {
        outcomes.note(newcomer_x_request(OwnerState::WaitingToUnload, |asks, world| {
            Box::pin(unload_async(asks, || world.alone("request")))
        }));
    });
}
