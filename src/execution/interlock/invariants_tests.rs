//! Breaks every invariant on purpose, and checks that its assertion fires.
//!
//! Each break starts from a state in which all invariants hold (checked first). It may violate others, too:
//! only its own has to be reported.

use super::invariants::ALL;
use super::modes::{Asker, Mode, Parent, Purpose};
use super::state::{Holder, State};
use super::vitals::Context;
use super::{Interlock, Running};
use crate::collections::slab_list::Key;
use crate::collections::wait_queue::Wake;
use crate::section::broken;
use std::collections::BTreeSet;
use std::pin::Pin;
use std::task::{Context as TaskContext, Waker};

type Break = fn(&mut State);

/// A share, a permit block, and an unload that waits for both.
struct Rig {
    interlock: Interlock,
    shares: [Running<'static>; 3],
}

fn with_state(spoil: impl FnOnce(&mut State)) -> Vec<String> {
    let interlock = Interlock::new();
    let mut rig = Rig { shares: [(); 3].map(|()| interlock.enter()), interlock };
    let [_runs, permits, waits] = &mut rig.shares;
    let permit = permits.permit_loads_async(std::future::pending::<()>());
    let pending = |future: Pin<&mut dyn Future<Output = ()>>| {
        let polled = future.poll(&mut TaskContext::from_waker(Waker::noop()));
        assert!(polled.is_pending());
    };
    let mut permit = Box::pin(async { drop(permit.await) });
    let mut unload = Box::pin(async { drop(waits.unload_async().await) });
    pending(permit.as_mut());
    pending(unload.as_mut());

    let inner = rig.interlock.inner().clone();
    let broken_now = |state: &State| broken(ALL, state).collect::<Vec<_>>();
    let reported = inner.state.break_state(|state| {
        assert_eq!(broken_now(state), Vec::<String>::new(), "before the break");
        assert_eq!((state.running(), state.tally.yielded, state.tally.reject_share), (1, 1, 1));
        spoil(state);
        broken_now(state)
    });
    // Leaked, because the broken state must not be used again.
    std::mem::forget((permit, unload));
    std::mem::forget(rig);
    reported
}

fn key_of(s: &State, wanted: impl Fn(Mode) -> bool) -> Key {
    let found = s.owners.iter().find(|(_, owner)| owner.epoch == s.epoch && wanted(owner.mode));
    Key::new(found.expect("an owner in this mode").0)
}
/// Adopts the owner that entered through the word.
fn runs(s: &mut State) -> Key {
    let anonymous = s.owners.iter().find(|(_, owner)| owner.epoch != s.epoch);
    let key = Key::new(anonymous.expect("an owner that is not adopted").0);
    s.adopt(key);
    key
}
fn permits(s: &State) -> Key {
    key_of(s, |mode| mode == Mode::Yielded)
}
fn waits(s: &State) -> Key {
    key_of(s, |mode| matches!(mode, Mode::Waiting { .. }))
}
fn hold(s: &mut State, key: Key, purpose: Purpose) {
    s.set_mode(key, Mode::Holding);
    s.holder = Some(Holder { key, purpose, depth: 1, upgraded: true });
}

/// Every invariant with each way to break it.
fn breaks() -> Vec<(&'static str, Break)> {
    vec![
        ("INV-ILK-ONE-HOLDER", |s| {
            let key = permits(s);
            s.set_mode(key, Mode::Holding);
        }),
        ("INV-ILK-ALONE", |s| {
            let key = permits(s);
            hold(s, key, Purpose::Load); // beside the one that runs
        }),
        ("INV-ILK-NO-PERMIT-IN-UNLOAD", |s| {
            let key = waits(s);
            s.unlink(key);
            hold(s, key, Purpose::Unload);
        }),
        ("INV-ILK-SEES-ONE-WORLD", |s| s.generation += 1),
        ("INV-ILK-SEES-ONE-WORLD", |s| {
            let key = permits(s);
            s.change(key, |owner| owner.sees = None);
        }),
        ("INV-ILK-OUT-IS-EMPTY", |s| {
            let key = permits(s);
            s.set_mode(key, Mode::Out);
        }),
        ("INV-ILK-SHARE-GIVEN-UP", |s| {
            let key = permits(s);
            let vitals = &s.owner(key).vitals;
            assert!(vitals.exchange(vitals.context(), Context::BASE));
        }),
        ("INV-ILK-FRAMES", |s| {
            let key = permits(s);
            s.change(key, |owner| owner.permits += 2);
        }),
        ("INV-ILK-FRAMES", |s| {
            let key = waits(s);
            let vitals = &s.owner(key).vitals;
            assert!(vitals.exchange(vitals.context(), Context::BASE));
        }),
        ("INV-ILK-FRAMES", |s| {
            let key = permits(s);
            s.change(key, |owner| owner.awaits.push(2));
        }),
        ("INV-ILK-ENTRY", |s| {
            let key = permits(s);
            s.change(key, |owner| owner.permits = 0);
        }),
        // Later transitions neither remove nor lose the entry of a permit block.
        ("INV-ILK-ENTRY", |s| {
            let key = permits(s);
            s.change(key, |owner| owner.entry = None);
        }),
        ("INV-ILK-ENTRY", |s| {
            let key = waits(s);
            s.change(key, |owner| owner.restore());
        }),
        ("INV-ILK-ENTRY", |s| {
            let key = waits(s);
            s.change(key, |owner| owner.publish(Purpose::Load, true));
        }),
        ("INV-ILK-QUEUED", |s| {
            let key = waits(s);
            s.set_mode(key, Mode::Running);
        }),
        ("INV-ILK-EXACT-WAKE-UP", |s| {
            let key = permits(s);
            let _ = s.enqueue(key, Mode::Resuming { ends_permit: true }, Asker::Task);
        }),
        ("INV-ILK-WATCHED", |s| {
            let key = permits(s);
            s.watch(key, Wake::Task(None), false);
        }),
        ("INV-ILK-TALLY", |s| s.tally.reject_share += 1),
        ("INV-ILK-DEADLOCK-REPORTED", |s| {
            s.tally.blocked = 1;
        }),
        // The counter is zero although a parent has declared a wait for its waiting child.
        ("INV-ILK-DEADLOCK-REPORTED", |s| {
            let (parent, child) = (permits(s), waits(s));
            let (of, id) = (s.owner(child).id(), s.owner(parent).id());
            s.owners[child.index()].parent = Some(Parent { of, id });
            s.owners[parent.index()].declared = 1;
            assert_eq!(s.tally.blocked, 0);
        }),
        // The grandchild drains: it lets an owner go first that waits for every share.
        ("INV-ILK-DEADLOCK-REPORTED", |s| {
            let (parent, child, waits) = (runs(s), permits(s), waits(s));
            let id = |key| s.owner(key).id();
            let (above, below) = ((id(child), id(parent)), (id(waits), id(child)));
            for (key, (of, id)) in [(child, above), (waits, below)] {
                s.owners[key.index()].parent = Some(Parent { of, id });
            }
            s.owners[parent.index()].declared = 1;
            s.owners[child.index()].awaits.push(1);
            s.owners[waits.index()].mode = Mode::Draining(Purpose::Unload);
            s.tally.reject_unload = 0; // so it lets one go first: itself
            assert_eq!(s.tally.blocked, 0);
        }),
        ("INV-ILK-FAST-IS-EMPTY", |s| s.slow = false),
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
    let _running = std::mem::ManuallyDrop::new(interlock.enter());
    interlock.inner().slowly(|state| {
        state.tally.declared = 1;
    });
}
