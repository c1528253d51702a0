//! Restates the tests of the lock below Rails' interlock. A thread there is an execution here. "Exclusive" is a
//! load or an unload, and an owner "upgrades" if it requests from inside an execution.

use crate::common::{SECOND, soon};
use crate::interlock::actor::{Actor, count, start, until};
use cabrank::execution::interlock::AcquireError;
use cabrank::execution::interlock::OwnerState::{
    Draining, Entering, Loading, Permitting, Running, Unloading, WaitingToLoad, WaitingToUnload,
};
use cabrank::{Interlock, ManualClock};
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier, Mutex};

/// The lock is held as often as it was acquired, and released afterwards (INV-ILK-LOCK-DEPTH).
#[test]
fn nested_shares_and_nested_sections_of_one_thread_do_not_wait() {
    let interlock = Interlock::new();
    let inner = interlock.clone();
    let depth = soon(move || {
        inner.run(|_| {
            inner.run(|r| {
                // With a second share it may not load; see `nested_shares_may_not_load`.
                assert!(matches!(r.load(|_| ()), Err(AcquireError::Nested)));
            });
        });
        inner.run(|r| {
            r.load(|_| inner.run(|r| r.load(|_| inner.run(|r| r.load(|_| 3))))).map(|r| r.unwrap())
        })
    });
    assert_eq!(depth.unwrap().unwrap(), 3);
    assert!(interlock.dump().owners.is_empty());
}

#[test]
fn a_second_sharer_does_not_wait() {
    let interlock = Interlock::new();
    let first = Actor::enter(&interlock);
    interlock.try_run(|_| ()).expect("no owner is in the way");
    first.leave();
}

#[test]
fn a_sharer_keeps_others_from_holding() {
    let interlock = Interlock::new();
    let sharer = Actor::enter(&interlock);
    let other = Actor::enter(&interlock);
    let polled = other.tell(|r| r.try_load(|_| ())).done();
    assert!(matches!(polled, Err(AcquireError::WouldBlock)));
    let loads = other.tell_until(WaitingToLoad, |r| r.load(|_| ()));
    sharer.leave();
    loads.done().expect("no deadlock");
}

#[test]
fn a_holder_keeps_sharers_out_until_it_has_released() {
    let interlock = Interlock::new();
    let (release, wait) = channel::<()>();
    let holder = interlock.clone();
    let holds = start(move || holder.unload(|_| wait.recv()));
    until(&interlock, Unloading, 1);
    assert!(matches!(interlock.try_run(|_| ()), Err(AcquireError::WouldBlock)));
    let sharer = interlock.clone();
    let shares = start(move || sharer.run(|_| ()));
    until(&interlock, Entering, 1);
    assert!(shares.is_stuck());
    release.send(()).expect("the receiver waits");
    holds.done().expect("no deadlock").expect("the sender sends");
    shares.done();
}

#[test]
fn two_exclusives_both_get_through_after_a_sharer() {
    let interlock = Interlock::new();
    let sharer = Actor::enter(&interlock);
    let both: Vec<_> = (0..2)
        .map(|n| {
            let interlock = interlock.clone();
            start(move || if n == 0 { interlock.load(|_| ()) } else { interlock.unload(|_| ()) })
        })
        .collect();
    until(&interlock, WaitingToLoad, 1);
    until(&interlock, WaitingToUnload, 1);
    sharer.leave();
    for one in both {
        one.done().expect("no deadlock");
    }
}

/// The sharer has its share again afterwards (INV-ILK-SHARES).
#[test]
fn a_lone_sharer_upgrades_at_once() {
    let interlock = Interlock::new();
    interlock.run(|r| {
        r.try_load(|_| ()).expect("no other owner runs");
        r.try_unload(|_| ()).expect("no other owner runs");
        assert!(r.has_share());
    });
}

#[test]
fn an_upgrade_waits_for_the_other_sharers() {
    let interlock = Interlock::new();
    let (a, b) = (Actor::enter(&interlock), Actor::enter(&interlock));
    let upgrades = a.tell_until(WaitingToUnload, |r| r.unload(|_| ()));
    assert!(upgrades.is_stuck());
    b.leave();
    upgrades.done().expect("no deadlock");
    assert_eq!(a.state(), Some(Running));
    a.leave();
}

#[test]
fn two_of_one_purpose_pass_with_and_without_upgrading() {
    for upgrading in 0..3 {
        let interlock = Interlock::new();
        let sharer = Actor::enter(&interlock);
        // Enter before the first wait begins: afterwards no newcomer enters.
        let shares: Vec<_> = (0..2).map(|n| (n < upgrading).then(|| interlock.enter())).collect();
        let both: Vec<_> = shares
            .into_iter()
            .map(|share| {
                let interlock = interlock.clone();
                start(move || match share {
                    Some(mut share) => share.load(|_| ()),
                    None => interlock.load(|_| ()),
                })
            })
            .collect();
        until(&interlock, WaitingToLoad, 2);
        sharer.leave();
        for one in both {
            one.done().expect("no deadlock");
        }
    }
}

/// Rails kills a thread here; this test lets a deadline pass.
#[test]
fn a_waiter_that_gives_up_leaves_no_trace() {
    let clock = ManualClock::new();
    let interlock = Interlock::with_clock(clock.clock());
    let sharer = Actor::enter(&interlock);
    let waits = Actor::enter(&interlock);
    let gives_up = waits.tell_until(WaitingToUnload, |r| {
        let loaded = r.unload_timeout(SECOND, |_| ());
        (loaded, r.has_share())
    });
    clock.advance(SECOND);
    let (result, has_share) = gives_up.done();
    assert!(matches!(result, Err(AcquireError::TimedOut)) && has_share);
    interlock.try_run(|_| ()).expect("its entry is gone");
    waits.leave();
    sharer.leave();
    assert!(interlock.dump().owners.is_empty());
}

/// Rails' purposes are free; here there are two, and both entries accept loads. A purpose that accepts no other is
/// the defect `rails-upgrade-deadlock`.
#[test]
fn a_request_that_all_entries_accept_goes_first() {
    for upgrading in [false, true] {
        let interlock = Interlock::new();
        let sharer = Actor::enter(&interlock);
        let order = Arc::new(Mutex::new(Vec::new()));
        let shares = [(); 2].map(|()| upgrading.then(|| interlock.enter()));
        let unloads = shares.map(|share| {
            let (interlock, order) = (interlock.clone(), order.clone());
            start(move || {
                let note = || order.lock().unwrap().push("unload");
                match share {
                    Some(mut share) => share.unload(|_| note()),
                    None => interlock.unload(|_| note()),
                }
            })
        });
        until(&interlock, WaitingToUnload, 2);
        let green = sharer.tell({
            let order = order.clone();
            move |r| r.load(|_| order.lock().unwrap().push("load"))
        });
        green.done().expect("no deadlock");
        assert_eq!(*order.lock().unwrap(), ["load"]);
        sharer.leave();
        for unload in unloads {
            unload.done().expect("no deadlock");
        }
        assert_eq!(*order.lock().unwrap(), ["load", "unload", "unload"]);
    }
}

/// PROP-ILK-LOADS-FIRST.
#[test]
fn loads_end_before_unloads_in_any_order_of_arrival() {
    for turns in
        [[0, 0, 1, 1], [0, 1, 0, 1], [0, 1, 1, 0], [1, 0, 0, 1], [1, 0, 1, 0], [1, 1, 0, 0]]
    {
        let interlock = Interlock::new();
        let order = Arc::new(Mutex::new(Vec::new()));
        let sharer = Actor::enter(&interlock);
        let actors: Vec<_> = turns.iter().map(|_| Actor::enter(&interlock)).collect();
        let mut doing = Vec::new();
        for (actor, purpose) in actors.iter().zip(turns) {
            let order = order.clone();
            let state = [WaitingToLoad, WaitingToUnload][purpose];
            doing.push(actor.tell_until(state, move |r| match purpose {
                0 => r.load(|_| order.lock().unwrap().push(0)),
                _ => r.unload(|_| order.lock().unwrap().push(1)),
            }));
        }
        sharer.leave();
        // An owner that has loaded runs on, and the unloads wait for it.
        for (actor, doing) in actors.into_iter().zip(doing).collect::<Vec<_>>().into_iter().rev() {
            start(move || {
                doing.done().expect("no deadlock");
                actor.leave();
            });
        }
        crate::common::before_long(|| order.lock().unwrap().len() == 4);
        assert_eq!(*order.lock().unwrap(), [0, 0, 1, 1], "asked in the order {turns:?}");
    }
}

/// PROP-ILK-NEWCOMERS-WAIT.
#[test]
fn a_new_sharer_waits_behind_an_upgrade_until_it_has_released() {
    let interlock = Interlock::new();
    let sharer = Actor::enter(&interlock);
    let upgrader = Actor::enter(&interlock);
    let (release, wait) = channel::<()>();
    let upgrades = upgrader.tell_until(WaitingToLoad, move |r| r.load(|_| wait.recv()));
    let newcomer = interlock.clone();
    let enters = start(move || newcomer.run(|_| ()));
    until(&interlock, Entering, 1);
    sharer.leave();
    upgrader.until(Loading);
    assert_eq!(count(&interlock, Entering), 1);
    release.send(()).expect("the receiver waits");
    upgrades.done().expect("no deadlock").expect("the sender sends");
    enters.done();
    upgrader.leave();
}

#[test]
fn a_sharer_may_share_again_while_an_upgrade_waits() {
    let interlock = Interlock::new();
    let sharer = Actor::enter(&interlock);
    let upgrader = Actor::enter(&interlock);
    let upgrades = upgrader.tell_until(WaitingToLoad, |r| r.load(|_| ()));
    let inner = interlock.clone();
    assert_eq!(sharer.tell(move |_| inner.run(|_| 13)).done(), 13);
    sharer.leave();
    upgrades.done().expect("no deadlock");
}

#[test]
fn two_loaders_meet_afterwards() {
    let interlock = Interlock::new();
    let (a, b) = (Actor::enter(&interlock), Actor::enter(&interlock));
    let barrier = Arc::new(Barrier::new(2));
    let both = [&a, &b].map(|actor| {
        let barrier = barrier.clone();
        actor.tell(move |r| {
            r.load(|_| ()).expect("no deadlock");
            barrier.wait();
        })
    });
    for one in both {
        one.done();
    }
}

#[test]
fn a_permit_block_lets_a_load_in() {
    let interlock = Interlock::new();
    let (a, b) = (Actor::enter(&interlock), Actor::enter(&interlock));
    let (end, wait) = channel::<()>();
    let permits = a.tell_until(Permitting, move |r| r.permit_loads(|| wait.recv()));
    b.tell(|r| r.load(|_| ())).done().expect("no deadlock");
    end.send(()).expect("the receiver waits");
    permits.done().expect("the only share").expect("the sender sends");
}

#[test]
fn a_permit_block_keeps_unloads_out() {
    let interlock = Interlock::new();
    let (a, b) = (Actor::enter(&interlock), Actor::enter(&interlock));
    let (end, wait) = channel::<()>();
    let permits = a.tell_until(Permitting, move |r| r.permit_loads(|| wait.recv()));
    let refused = b.tell(|r| r.try_unload(|_| ())).done();
    assert!(matches!(refused, Err(AcquireError::WouldBlock)));
    let unloads = b.tell_until(WaitingToUnload, |r| r.unload(|_| ()));
    end.send(()).expect("the receiver waits");
    permits.done().expect("the only share").expect("the sender sends");
    assert!(unloads.is_stuck());
    a.leave();
    unloads.done().expect("no deadlock");
}

#[test]
fn a_permit_block_in_a_share_in_a_permit_block() {
    let interlock = Interlock::new();
    let (actor, other) = (Actor::enter(&interlock), Actor::enter(&interlock));
    let (go, steps) = channel::<()>();
    let (at, place) = channel();
    let inner = interlock.clone();
    let doing = actor.tell(move |r| {
        r.permit_loads(|| {
            inner.run(|r| {
                at.send("share").unwrap();
                steps.recv().unwrap();
                r.permit_loads(|| {
                    at.send("inner").unwrap();
                    steps.recv().unwrap();
                })
                .expect("the only share of its frame");
            });
            at.send("outer").unwrap();
            steps.recv().unwrap();
        })
    });
    let may = |expected: [bool; 2]| {
        let [load, unload] = expected;
        assert_eq!(other.tell(|r| r.try_load(|_| ()).is_ok()).done(), load);
        assert_eq!(other.tell(|r| r.try_unload(|_| ()).is_ok()).done(), unload);
    };
    for (wanted, expected) in
        [("share", [false, false]), ("inner", [true, false]), ("outer", [true, false])]
    {
        assert_eq!(place.recv().unwrap(), wanted);
        may(expected);
        go.send(()).unwrap();
    }
    doing.done().expect("the only share");
    may([false, false]);
    actor.leave();
    may([true, true]);
}

#[test]
fn an_unload_without_a_share_does_not_overtake_a_load_with_one() {
    let interlock = Interlock::new();
    let order = Arc::new(Mutex::new(Vec::new()));
    let sharer = Actor::enter(&interlock);
    let loader = Actor::enter(&interlock);
    let (theirs, ilk) = (order.clone(), interlock.clone());
    let unloads = start(move || ilk.unload(|_| theirs.lock().unwrap().push("unload")));
    until(&interlock, WaitingToUnload, 1);
    let theirs = order.clone();
    let loads =
        loader.tell_until(WaitingToLoad, move |r| r.load(|_| theirs.lock().unwrap().push("load")));
    sharer.leave();
    loads.done().expect("no deadlock");
    loader.leave();
    unloads.done().expect("no deadlock");
    assert_eq!(*order.lock().unwrap(), ["load", "unload"]);
}

/// Rails' assertions watch a latch for a while; here the dump shows the state.
#[test]
fn the_dump_shows_which_owner_is_stuck() {
    let interlock = Interlock::new();
    let (a, b) = (Actor::enter(&interlock), Actor::enter(&interlock));
    assert_eq!((a.state(), b.state()), (Some(Running), Some(Running)));
    let stuck = a.tell_until(WaitingToLoad, |r| r.load(|_| ()));
    let dump = interlock.dump();
    assert_eq!(dump.owner(a.id).unwrap().blocked_by, [b.id]);
    assert_eq!(dump.owner(b.id).unwrap().blocking, [a.id]);
    assert!(dump.owner(b.id).unwrap().blocked_by.is_empty());
    let (b_id, a_id) = (b.id, a.id);
    b.leave();
    stuck.done().expect("no deadlock");
    let dump = interlock.dump();
    assert!(dump.owner(b_id).is_none() && dump.owner(a_id).unwrap().blocked_by.is_empty());
    a.leave();
}

/// Rails' fibers are tasks here. Each is an owner of its own, whichever thread polls it.
#[test]
fn two_guards_of_one_thread_are_two_owners() {
    let interlock = Interlock::new();
    let (a, mut b) = (interlock.enter(), interlock.enter());
    assert_ne!(a.id(), b.id());
    let dump = interlock.dump();
    assert!(dump.owner(a.id()).is_some() && dump.owner(b.id()).is_some());
    assert!(matches!(b.try_load(|_| ()), Err(AcquireError::WouldBlock)));
}

#[test]
fn a_section_of_one_owner_keeps_another_of_the_same_thread_out() {
    let interlock = Interlock::new();
    let mut a = interlock.enter();
    a.load(|_| assert!(matches!(interlock.try_enter(), Err(AcquireError::WouldBlock)))).unwrap();
    drop(interlock.try_enter().expect("it has released"));
}

#[test]
fn sections_nest_and_upgrade_in_any_owner() {
    let interlock = Interlock::new();
    let mut a = interlock.enter();
    let deep = a.load(|_| interlock.run(|r| r.load(|_| 29).unwrap()));
    assert_eq!(deep.unwrap(), 29);
}

#[test]
fn draining_owners_keep_newcomers_out() {
    let interlock = Interlock::new();
    let sharer = Actor::enter(&interlock);
    let (a, b) = (Actor::enter(&interlock), Actor::enter(&interlock));
    let first = a.tell_until(WaitingToLoad, |r| r.load(|_| ()));
    let (release, wait) = channel::<()>();
    let second = b.tell_until(WaitingToLoad, move |r| r.load(|_| wait.recv()));
    sharer.leave();
    b.until(Loading);
    a.until(Draining);
    assert!(matches!(interlock.try_run(|_| ()), Err(AcquireError::WouldBlock)));
    release.send(()).unwrap();
    second.done().expect("no deadlock").expect("the sender sends");
    first.done().expect("no deadlock");
}
