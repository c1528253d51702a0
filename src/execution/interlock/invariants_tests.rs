//! Breaks every invariant on purpose, and checks that its assertion fires.
//!
//! Each break starts from a state in which all invariants hold (checked first). It may violate others, too: only its
//! own has to be reported.

use super::invariants::ALL;
use super::modes::Purpose::{Load, Unload};
use super::modes::{Mode, Waiter};
use super::owner_id::OwnerId;
use super::state::{Holder, State};
use super::{Caller, Interlock};
use crate::clock::Time;
use crate::section::{Guarded, broken, now};
use std::collections::BTreeSet;
use std::task::{Context, Waker};

/// Breaks a state with an owner that runs, one that permits, and one that waits to unload.
fn with_state(spoil: impl FnOnce(&mut State)) -> Vec<String> {
    let interlock = Interlock::new();
    let enter = || now(interlock.enter_by(Caller::task(None))).expect("no other owner holds");
    let (runs, mut permits, mut waits) = (enter(), enter(), enter());
    let mut block = Box::pin(permits.permit_loads_async(std::future::pending::<()>()));
    let mut unload = Box::pin(waits.hold(Unload, Caller::task(None)));
    let mut cx = Context::from_waker(Waker::noop());
    assert!(block.as_mut().poll(&mut cx).is_pending());
    assert!(unload.as_mut().poll(&mut cx).is_pending());

    let broken_now = |state: &State| broken(ALL, state).collect::<Vec<_>>();
    let reported = interlock.0.state.break_state(|state| {
        assert_eq!(broken_now(state), Vec::<String>::new(), "before the break");
        assert_eq!((state.running, state.permitting, state.entered), (1, 1, 3));
        spoil(state);
        broken_now(state)
    });
    // Leaked, because the broken state must not be used again.
    std::mem::forget((block, unload));
    std::mem::forget((runs, permits, waits, interlock));
    reported
}

fn owner_in(s: &State, mode: Mode) -> OwnerId {
    let found = s.all().find(|owner| owner.mode == mode);
    found.expect("an owner in this mode").id
}
fn runs(s: &State) -> OwnerId {
    owner_in(s, Mode::Running)
}
fn permits(s: &State) -> OwnerId {
    owner_in(s, Mode::Yielded)
}
fn waits(s: &State) -> OwnerId {
    owner_in(s, Mode::Waiting(Unload))
}

fn waiter(s: &mut State) -> &mut Waiter {
    let id = waits(s);
    s.owner_mut(id).waiter.as_mut().expect("it waits")
}

type Break = fn(&mut State);

/// Every invariant with each way to break it.
const BREAKS: &[(&str, Break)] = &[
    ("INV-ILK-ONE-HOLDER", |s| s.set_mode(permits(s), Mode::Holding)),
    ("INV-ILK-ONE-HOLDER", |s| {
        s.holder = Some(Holder { owner: permits(s), purpose: Load, depth: 1 });
    }),
    ("INV-ILK-LOCK-DEPTH", |s| {
        s.hold(permits(s), Load);
        s.holder.as_mut().expect("it holds").depth = 0;
    }),
    // Beside the one that runs.
    ("INV-ILK-ALONE", |s| s.hold(permits(s), Load)),
    ("INV-ILK-NO-PERMIT-IN-UNLOAD", |s| {
        let id = waits(s);
        s.unlink(id);
        s.hold(id, Unload);
    }),
    ("INV-ILK-SEES-ONE-WORLD", |s| s.generation += 1),
    ("INV-ILK-SEES-ONE-WORLD", |s| s.owner_mut(permits(s)).sees = None),
    ("INV-ILK-SHARES", |s| s.set_permits(runs(s), 1)),
    ("INV-ILK-SHARES", |s| s.set_permits(permits(s), 0)),
    ("INV-ILK-SHARES", |s| s.owner_mut(runs(s)).views = 0),
    ("INV-ILK-ENTRY", |s| s.owner_mut(waits(s)).waiter = None),
    ("INV-ILK-ENTRY", |s| waiter(s).granted = true),
    ("INV-ILK-ENTRY", |s| s.await_owner(runs(s), Caller::task(None), Time::default())),
    ("INV-ILK-QUEUED", |s| s.set_mode(waits(s), Mode::Waiting(Load))),
    ("INV-ILK-QUEUED", |s| s.set_mode(runs(s), Mode::Resuming)),
    ("INV-ILK-EXACT-WAKE-UP", |s| {
        let id = permits(s);
        s.set_permits(id, 0);
        s.enqueue(id, Mode::Resuming);
    }),
    ("INV-ILK-EXACT-WAKE-UP", |s| s.enqueue(runs(s), Mode::Entering)),
    ("INV-ILK-TALLY", |s| s.running += 1),
    ("INV-ILK-TALLY", |s| s.permitting = 0),
    ("INV-ILK-TALLY", |s| s.entered = 0),
    ("INV-ILK-DEADLINES", |s| waiter(s).deadline = Some(Time::END)),
    ("INV-ILK-DEADLINES", |s| {
        s.deadlines.insert((Time::END, permits(s)));
    }),
];

#[test]
fn a_break_of_each_invariant_is_reported_by_its_name() {
    for (name, spoil) in BREAKS {
        let broken = with_state(spoil);
        let reported = broken.iter().any(|text| text.starts_with(&format!("{name} ")));
        assert!(reported, "{name} was broken, but reported was: {broken:#?}");
    }
}

#[test]
fn every_invariant_has_its_break() {
    let broken: BTreeSet<_> = BREAKS.iter().map(|(name, _)| *name).collect();
    let named: BTreeSet<_> = ALL.iter().map(|i| i.name).collect();
    assert_eq!(broken, named);
}

/// Other builds check no invariant.
#[cfg(debug_assertions)]
#[test]
#[should_panic(expected = "INV-ILK-TALLY does not hold")]
fn a_critical_section_that_breaks_an_invariant_panics_with_its_name() {
    let interlock = Interlock::new();
    interlock.0.critical(|state, _| state.permitting = 1);
}
