//! Restates the tests of the lock below Rails' interlock. A thread there is an execution here. "Exclusive" is a
//! load or an unload, and an owner "upgrades" if it requests from inside an execution.

use crate::common::{SECOND, soon};
use crate::interlock::actor::{
    Actor, count, load_waits, newcomer_waits, start, start_unload, timed_out, unload_waits, until,
};
use crate::polling::{poll, yield_once};
use cabrank::execution::interlock::OwnerState::{
    Draining, Entering, Loading, Permitting, Running, Unloading, WaitingToLoad,
};
use cabrank::execution::interlock::{AcquireError, Running as Share};
use cabrank::{Interlock, ManualClock};
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier, Mutex};
use std::task::Poll;

/// The lock is held as often as it was acquired, and released afterwards (INV-ILK-LOCK-DEPTH).
#[test]
fn nested_shares_and_nested_sections_of_one_thread_do_not_wait() {
    let interlock = Interlock::new();
    let inner = interlock.clone();
    let depth = soon(move || -> Result<i32, AcquireError> {
        inner.run(|_| inner.run(|r| r.load(|_| ())))???;
        let deep = || inner.run(|r| r.load(|_| 3))?;
        let deeper = || inner.run(|r| r.load(|_| deep()))??;
        inner.run(|r| r.load(|_| deeper()))??
    });
    assert_eq!(depth.expect("no deadlock"), 3);
    assert!(interlock.dump().owners.is_empty());
}

#[test]
fn a_second_sharer_does_not_wait() {
    let interlock = Interlock::new();
    let first = Actor::enter(&interlock);
    assert!(!newcomer_waits(&interlock));
    first.leave();
}

#[test]
fn a_sharer_keeps_others_from_holding() {
    let interlock = Interlock::new();
    let sharer = Actor::enter(&interlock);
    let other = Actor::enter(&interlock);
    assert!(other.order(load_waits).done());
    let loads = other.order_until(WaitingToLoad, |r| r.load(|_| ()));
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
    assert!(newcomer_waits(&interlock));
    let sharer = interlock.clone();
    let shares = start(move || sharer.run(|_| ()));
    until(&interlock, Entering, 1);
    assert!(shares.is_stuck());
    release.send(()).expect("the receiver waits");
    holds.done().expect("no deadlock").expect("the sender sends");
    shares.done().expect("no deadlock");
}

#[test]
fn two_exclusives_both_get_through_after_a_sharer() {
    let interlock = Interlock::new();
    let (sharer, loader) = (Actor::enter(&interlock), Actor::enter(&interlock));
    let unloads = start_unload(&interlock, |_| ());
    let loads = loader.order_until(WaitingToLoad, |r| r.load(|_| ()));
    sharer.leave();
    loads.done().expect("no deadlock");
    loader.leave();
    unloads.done().expect("no deadlock");
}

/// The sharer has its share again afterwards (INV-ILK-SHARES).
#[test]
fn a_lone_sharer_upgrades_at_once() {
    let interlock = Interlock::new();
    interlock
        .run(|r| {
            assert!(!load_waits(r));
            assert!(r.has_share());
        })
        .expect("no deadlock");
}

#[test]
fn an_upgrade_waits_for_the_other_sharers() {
    let interlock = Interlock::new();
    let (a, b) = (Actor::enter(&interlock), Actor::enter(&interlock));
    let upgrades = a.order_until(WaitingToLoad, |r| r.load(|_| ()));
    assert!(upgrades.is_stuck());
    b.leave();
    upgrades.done().expect("no deadlock");
    assert_eq!(a.state(), Some(Running));
    a.leave();
}

#[test]
fn two_loads_both_pass() {
    let interlock = Interlock::new();
    let sharer = Actor::enter(&interlock);
    let both = [(); 2].map(|()| Actor::enter(&interlock));
    let doing = both.each_ref().map(|it| it.order_until(WaitingToLoad, |r| r.load(|_| ())));
    sharer.leave();
    for one in doing {
        one.done().expect("no deadlock");
    }
}

/// Rails kills a thread here; this test lets a time limit pass.
#[test]
fn a_waiter_that_gives_up_leaves_no_trace() {
    let clock = ManualClock::new();
    let interlock = Interlock::builder().clock(clock.clock()).acquire_timeout(SECOND).build();
    let sharer = Actor::enter(&interlock);
    let waits = Actor::enter(&interlock);
    let gives_up = waits.order_until(WaitingToLoad, |r| (r.load(|_| ()), r.has_share()));
    clock.advance(SECOND);
    let (result, has_share) = gives_up.done();
    timed_out(result);
    assert!(has_share && !newcomer_waits(&interlock), "its entry is gone");
    waits.leave();
    sharer.leave();
    assert!(interlock.dump().owners.is_empty());
}

/// PROP-ILK-LOADS-FIRST. Rails' purposes are free; here there are two, and both let loads go first. A purpose that
/// accepts no other is the defect `rails-upgrade-deadlock`.
#[test]
fn loads_end_before_unloads_in_any_order_of_arrival() {
    for turns in [[0, 0, 1], [0, 1, 0], [1, 0, 0]] {
        let interlock = Interlock::new();
        let order = Arc::new(Mutex::new(Vec::new()));
        let sharer = Actor::enter(&interlock);
        let actors: Vec<_> = (0..2).map(|_| Actor::enter(&interlock)).collect();
        let (mut loaders, mut unloads, mut doing) = (actors.iter(), Vec::new(), Vec::new());
        for (purpose, order) in turns.map(|purpose| (purpose, order.clone())) {
            if purpose == 0 {
                let loader = loaders.next().expect("two load");
                let load = move |r: &mut Share<'_>| r.load(|_| order.lock().unwrap().push(0));
                doing.push(loader.order_until(WaitingToLoad, load));
            } else {
                unloads.push(start_unload(&interlock, move |_| order.lock().unwrap().push(1)));
            }
        }
        sharer.leave();
        for load in doing {
            load.done().expect("no deadlock");
        }
        actors.into_iter().for_each(Actor::leave);
        for unload in unloads {
            unload.done().expect("no deadlock");
        }
        assert_eq!(*order.lock().unwrap(), [0, 0, 1], "asked in the order {turns:?}");
    }
}

/// PROP-ILK-NEWCOMERS-WAIT.
#[test]
fn a_new_sharer_waits_behind_an_upgrade_until_it_has_released() {
    let interlock = Interlock::new();
    let sharer = Actor::enter(&interlock);
    let upgrader = Actor::enter(&interlock);
    let (release, wait) = channel::<()>();
    let upgrades = upgrader.order_until(WaitingToLoad, move |r| r.load(|_| wait.recv()));
    let newcomer = interlock.clone();
    let enters = start(move || newcomer.run(|_| ()));
    until(&interlock, Entering, 1);
    sharer.leave();
    upgrader.until(Loading);
    assert_eq!(count(&interlock, Entering), 1);
    release.send(()).expect("the receiver waits");
    upgrades.done().expect("no deadlock").expect("the sender sends");
    enters.done().expect("no deadlock");
    upgrader.leave();
}

#[test]
fn a_sharer_may_share_again_while_an_upgrade_waits() {
    let interlock = Interlock::new();
    let sharer = Actor::enter(&interlock);
    let upgrader = Actor::enter(&interlock);
    let upgrades = upgrader.order_until(WaitingToLoad, |r| r.load(|_| ()));
    let inner = interlock.clone();
    assert_eq!(sharer.order(move |_| inner.run(|_| 13)).done().expect("it is nested"), 13);
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
        actor.order(move |r| {
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
    let permits = a.order_until(Permitting, move |r| r.permit_loads(|| wait.recv()));
    b.order(|r| r.load(|_| ())).done().expect("no deadlock");
    end.send(()).expect("the receiver waits");
    permits.done().expect("no deadlock").expect("the sender sends");
}

#[test]
fn a_permit_block_keeps_unloads_out() {
    let interlock = Interlock::new();
    let a = Actor::enter(&interlock);
    let (end, wait) = channel::<()>();
    let permits = a.order_until(Permitting, move |r| r.permit_loads(|| wait.recv()));
    let unloads = start_unload(&interlock, |_| ());
    end.send(()).expect("the receiver waits");
    permits.done().expect("no deadlock").expect("the sender sends");
    assert!(unloads.is_stuck());
    a.leave();
    unloads.done().expect("no deadlock");
}

#[test]
fn a_permit_block_in_a_share_in_a_permit_block() {
    let interlock = Interlock::new();
    let actor = Actor::enter(&interlock);
    let (go, steps) = channel::<()>();
    let (at, place) = channel();
    let inner = interlock.clone();
    let doing = actor.order(move |r| {
        r.permit_loads(|| {
            inner
                .run(|r| {
                    at.send("share").unwrap();
                    steps.recv().unwrap();
                    r.permit_loads(|| {
                        at.send("inner").unwrap();
                        steps.recv().unwrap();
                    })
                    .expect("no deadlock");
                })
                .expect("no deadlock");
            at.send("outer").unwrap();
            steps.recv().unwrap();
        })
    });
    let may = |expected: [bool; 2]| {
        let other = Actor::enter(&interlock);
        let may_load = other.order(|r| !load_waits(r)).done();
        other.leave();
        assert_eq!([may_load, !unload_waits(&interlock)], expected);
    };
    for (wanted, expected) in
        [("share", [false, false]), ("inner", [true, false]), ("outer", [true, false])]
    {
        assert_eq!(place.recv().unwrap(), wanted);
        may(expected);
        go.send(()).unwrap();
    }
    doing.done().expect("no deadlock");
    may([false, false]);
    actor.leave();
    may([true, true]);
}

/// Rails' assertions watch a latch for a while; here the dump shows the state.
#[test]
fn the_dump_shows_which_owner_is_stuck() {
    let interlock = Interlock::new();
    let (a, b) = (Actor::enter(&interlock), Actor::enter(&interlock));
    assert_eq!((a.state(), b.state()), (Some(Running), Some(Running)));
    let stuck = a.order_until(WaitingToLoad, |r| r.load(|_| ()));
    let dump = interlock.dump();
    let wait = dump.owner(a.id).and_then(|owner| owner.wait.as_ref()).expect("it waits");
    let blockers: Vec<_> = dump.blockers(wait.blocked_by).map(|owner| owner.id).collect();
    assert_eq!(blockers, [b.id]);
    assert!(dump.owner(b.id).expect("it runs").wait.is_none());
    let (b_id, a_id) = (b.id, a.id);
    b.leave();
    stuck.done().expect("no deadlock");
    let dump = interlock.dump();
    assert!(dump.owner(b_id).is_none() && dump.owner(a_id).expect("it runs").wait.is_none());
    a.leave();
}

/// Rails' fibers are tasks here. Each is an owner of its own, whichever thread polls it.
#[test]
fn two_tasks_of_one_thread_are_two_owners() {
    let interlock = Interlock::new();
    let task = || {
        Box::pin(interlock.run_async(async |r| {
            yield_once().await;
            load_waits(r)
        }))
    };
    let (mut a, mut b) = (task(), task());
    assert!(poll(&mut a).is_pending() && poll(&mut b).is_pending());
    assert_eq!(interlock.dump().owners.len(), 2);
    assert!(matches!(poll(&mut b), Poll::Ready(Ok(true))));
    assert!(matches!(poll(&mut a), Poll::Ready(Ok(false))));
}

#[test]
fn a_section_of_one_owner_keeps_another_of_the_same_thread_out() {
    let interlock = Interlock::new();
    let mut load =
        Box::pin(interlock.run_async(async |r| r.load_async(async |_| yield_once().await).await));
    assert!(poll(&mut load).is_pending());
    assert!(newcomer_waits(&interlock));
    assert!(matches!(poll(&mut load), Poll::Ready(Ok(Ok(())))));
    assert!(!newcomer_waits(&interlock));
}

#[test]
fn sections_nest_and_upgrade_in_any_owner() {
    let interlock = Interlock::new();
    let deep = interlock.run(|a| a.load(|_| interlock.run(|r| r.load(|_| 29))));
    assert_eq!(deep.expect("alone").expect("alone").expect("it nests").expect("it nests"), 29);
}

#[test]
fn draining_owners_keep_newcomers_out() {
    let interlock = Interlock::new();
    let sharer = Actor::enter(&interlock);
    let (a, b) = (Actor::enter(&interlock), Actor::enter(&interlock));
    let first = a.order_until(WaitingToLoad, |r| r.load(|_| ()));
    let (release, wait) = channel::<()>();
    let second = b.order_until(WaitingToLoad, move |r| r.load(|_| wait.recv()));
    sharer.leave();
    b.until(Loading);
    a.until(Draining);
    assert!(newcomer_waits(&interlock));
    release.send(()).unwrap();
    second.done().expect("no deadlock").expect("the sender sends");
    first.done().expect("no deadlock");
}
