//! Breaks every invariant of a good state on purpose, and checks that its assertion fires. Others may fire, too.

use super::caller::OwnerId;
use super::invariants::ALL;
use super::modes::Purpose::{Load, Unload};
use super::modes::{Mode, Waiter};
use super::state::{Holder, State};
use super::{Caller, Interlock};
use crate::kernel::clock::Time;
use crate::kernel::section::{broken, check_breaks, now};
use std::task::{Context, Waker};

/// Breaks a state with an owner that runs, one that permits, and one that waits to unload.
fn with_state(spoil: Break) -> Vec<String> {
    let interlock = Interlock::new();
    let enter = || now(interlock.enter_by(Caller::task(None))).expect("no other owner holds");
    let (runs, mut permits, mut waits) = (enter(), enter(), enter());
    let owners = [runs.id, permits.id, waits.id];
    let mut block = Box::pin(permits.permit_loads_async(std::future::pending::<()>()));
    let mut unload = Box::pin(waits.hold(Unload, Caller::task(None)));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(block.as_mut().poll(&mut cx).is_pending());
    assert!(unload.as_mut().poll(&mut cx).is_pending());

    let broken_now = |state: &State| broken(ALL, state).collect::<Vec<_>>();
    let reported = interlock.0.state.break_state(|state| {
        assert_eq!(broken_now(state), Vec::<String>::new(), "before the break");
        assert_eq!((state.running, state.permitting, state.entered), (1, 1, 3));
        spoil(state, owners);
        broken_now(state)
    });
    // Leaked, because the broken state must not be used again.
    std::mem::forget((block, unload));
    std::mem::forget((runs, permits, waits, interlock));
    reported
}

fn waiter(s: &mut State, waits: OwnerId) -> &mut Waiter {
    s.owner_mut(waits).waiter.as_mut().expect("it waits")
}

/// Gets the owner that runs, the one that permits, and the one that waits.
type Break = fn(&mut State, [OwnerId; 3]);

/// Every invariant with each way to break it.
const BREAKS: &[(&str, Break)] = &[
    ("INV-ILK-ONE-HOLDER", |s, [_, permits, _]| s.set_mode(permits, Mode::Holding)),
    ("INV-ILK-ONE-HOLDER", |s, [_, permits, _]| {
        s.holder = Some(Holder { owner: permits, purpose: Load, depth: 1 });
    }),
    ("INV-ILK-LOCK-DEPTH", |s, [_, permits, _]| {
        s.hold(permits, Load);
        s.holder.as_mut().expect("it holds").depth = 0;
    }),
    // Beside the one that runs.
    ("INV-ILK-ALONE", |s, [_, permits, _]| s.hold(permits, Load)),
    ("INV-ILK-NO-PERMIT-IN-UNLOAD", |s, [_, _, waits]| {
        s.unlink(waits);
        s.hold(waits, Unload);
    }),
    ("INV-ILK-ONE-GENERATION", |s, _| s.generation += 1),
    ("INV-ILK-ONE-GENERATION", |s, [_, permits, _]| s.owner_mut(permits).sees = None),
    ("INV-ILK-SHARES", |s, [runs, _, _]| s.set_permits(runs, 1)),
    ("INV-ILK-SHARES", |s, [_, permits, _]| s.set_permits(permits, 0)),
    ("INV-ILK-SHARES", |s, [runs, _, _]| s.owner_mut(runs).views = 0),
    ("INV-ILK-ENTRY", |s, [_, _, waits]| s.owner_mut(waits).waiter = None),
    ("INV-ILK-ENTRY", |s, [_, _, waits]| waiter(s, waits).granted = true),
    ("INV-ILK-ENTRY", |s, [runs, _, _]| s.await_owner(runs, Caller::task(None), Time::default())),
    ("INV-ILK-QUEUED", |s, [_, _, waits]| s.set_mode(waits, Mode::Waiting(Load))),
    ("INV-ILK-QUEUED", |s, [runs, _, _]| s.set_mode(runs, Mode::Resuming)),
    ("INV-ILK-EXACT-WAKE-UP", |s, [_, permits, _]| {
        s.set_permits(permits, 0);
        s.enqueue(permits, Mode::Resuming);
    }),
    ("INV-ILK-EXACT-WAKE-UP", |s, [runs, _, _]| s.enqueue(runs, Mode::Entering)),
    ("INV-ILK-TALLY", |s, _| s.running += 1),
    ("INV-ILK-TALLY", |s, _| s.permitting = 0),
    ("INV-ILK-TALLY", |s, _| s.entered = 0),
    ("INV-ILK-DEADLINES", |s, [_, _, waits]| waiter(s, waits).deadline = Some(Time::END)),
    ("INV-ILK-DEADLINES", |s, [_, permits, _]| {
        s.deadlines.insert((Time::END, permits));
    }),
];

#[test]
fn a_break_of_each_invariant_is_reported_by_its_name() {
    check_breaks(ALL, BREAKS.iter().copied(), with_state);
}
