//! Breaks every invariant on purpose, and checks that its assertion fires.
//!
//! Each break starts from a state in which all invariants hold (checked first). It may violate others, too: only its
//! own has to be reported.

use super::invariants::ALL;
use super::modes::{Mode, Purpose};
use super::owner_id::OwnerId;
use super::state::{Holder, State};
use super::{Caller, Interlock};
use crate::clock::Time;
use crate::section::{Guarded, broken, now};
use std::collections::BTreeSet;
use std::pin::Pin;
use std::task::{Context, Waker};

type Break = fn(&mut State);

/// Breaks a state with an owner that runs, one that permits, and one that waits to unload.
fn with_state(spoil: impl FnOnce(&mut State)) -> Vec<String> {
    let interlock = Interlock::new();
    let enter = || now(interlock.enter_by(Caller::task(None))).expect("no other owner holds");
    let (runs, mut permits, mut waits) = (enter(), enter(), enter());
    let pending = |future: Pin<&mut dyn Future<Output = ()>>| {
        assert!(future.poll(&mut Context::from_waker(Waker::noop())).is_pending());
    };
    let block = permits.permit_loads_async(std::future::pending::<()>());
    let mut block = Box::pin(async { drop(block.await) });
    let unload = waits.unload_async(async |_| ());
    let mut unload = Box::pin(async { drop(unload.await) });
    pending(block.as_mut());
    pending(unload.as_mut());

    let broken_now = |state: &State| broken(ALL, state).collect::<Vec<_>>();
    let reported = interlock.inner().state.break_state(|state| {
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
    owner_in(s, Mode::Waiting(Purpose::Unload))
}

/// Every invariant with each way to break it.
fn breaks() -> Vec<(&'static str, Break)> {
    vec![
        ("INV-ILK-ONE-HOLDER", |s| {
            let id = permits(s);
            s.set_mode(id, Mode::Holding);
        }),
        ("INV-ILK-ONE-HOLDER", |s| {
            let owner = permits(s);
            s.holder = Some(Holder { owner, purpose: Purpose::Load, depth: 1 });
        }),
        ("INV-ILK-LOCK-DEPTH", |s| {
            let id = permits(s);
            s.hold(id, Purpose::Load);
            s.holder.as_mut().expect("it holds").depth = 0;
        }),
        // Beside the one that runs.
        ("INV-ILK-ALONE", |s| {
            let id = permits(s);
            s.hold(id, Purpose::Load);
        }),
        ("INV-ILK-NO-PERMIT-IN-UNLOAD", |s| {
            let id = waits(s);
            s.unlink(id);
            s.hold(id, Purpose::Unload);
        }),
        ("INV-ILK-SEES-ONE-WORLD", |s| s.generation += 1),
        ("INV-ILK-SEES-ONE-WORLD", |s| {
            let id = permits(s);
            s.owner_mut(id).sees = None;
        }),
        ("INV-ILK-SHARES", |s| {
            let id = runs(s);
            s.set_permits(id, 1);
        }),
        ("INV-ILK-SHARES", |s| {
            let id = permits(s);
            s.set_permits(id, 0);
        }),
        ("INV-ILK-SHARES", |s| {
            let id = runs(s);
            s.owner_mut(id).views = 0;
        }),
        ("INV-ILK-ENTRY", |s| {
            let id = waits(s);
            s.owner_mut(id).waiter = None;
        }),
        ("INV-ILK-ENTRY", |s| {
            let id = waits(s);
            s.owner_mut(id).waiter.as_mut().expect("it waits").granted = true;
        }),
        ("INV-ILK-ENTRY", |s| {
            let id = runs(s);
            s.await_owner(id, Caller::task(None), Time::default());
        }),
        ("INV-ILK-QUEUED", |s| {
            let id = waits(s);
            s.set_mode(id, Mode::Waiting(Purpose::Load));
        }),
        ("INV-ILK-QUEUED", |s| {
            let id = runs(s);
            s.set_mode(id, Mode::Resuming);
        }),
        ("INV-ILK-EXACT-WAKE-UP", |s| {
            let id = permits(s);
            s.set_permits(id, 0);
            s.enqueue(id, Mode::Resuming);
        }),
        ("INV-ILK-EXACT-WAKE-UP", |s| {
            let id = runs(s);
            s.enqueue(id, Mode::Entering);
        }),
        ("INV-ILK-TALLY", |s| s.running += 1),
        ("INV-ILK-TALLY", |s| s.permitting = 0),
        ("INV-ILK-TALLY", |s| s.entered = 0),
        ("INV-ILK-DEADLINES", |s| {
            let id = waits(s);
            s.owner_mut(id).waiter.as_mut().expect("it waits").deadline = Some(Time::END);
        }),
        ("INV-ILK-DEADLINES", |s| {
            let id = permits(s);
            s.deadlines.insert((Time::END, id));
        }),
    ]
}

#[test]
fn a_break_of_each_invariant_is_reported_by_its_name() {
    for (name, spoil) in breaks() {
        let broken = with_state(spoil);
        let reported = broken.iter().any(|text| text.starts_with(&format!("{name} ")));
        assert!(reported, "{name} was broken, but reported was: {broken:#?}");
    }
}

#[test]
fn every_invariant_has_its_break() {
    let broken: BTreeSet<_> = breaks().into_iter().map(|(name, _)| name).collect();
    let named: BTreeSet<_> = ALL.iter().map(|i| i.name).collect();
    assert_eq!(broken, named);
}

/// Other builds check no invariant.
#[cfg(debug_assertions)]
#[test]
#[should_panic(expected = "INV-ILK-TALLY does not hold")]
fn a_critical_section_that_breaks_an_invariant_panics_with_its_name() {
    let interlock = Interlock::new();
    let _running = std::mem::ManuallyDrop::new(interlock.enter().expect("no other owner holds"));
    interlock.inner().critical(|state, _| state.permitting = 1);
}
