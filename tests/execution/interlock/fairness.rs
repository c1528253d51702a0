//! An unbounded stream of requests without a share starves no owner. Such requests are served in the order of their
//! arrival, after all owners that must go on.

use crate::interlock::actor::{Actor, start, until};
use cabrank::Interlock;
use cabrank::execution::interlock::OwnerState::{
    Draining, Entering, Loading, Permitting, Resuming, Unloading, WaitingToLoad, WaitingToUnload,
};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};

/// The events, in order.
#[derive(Clone, Default)]
struct Story(Arc<Mutex<Vec<&'static str>>>);

impl Story {
    fn note(&self, what: &'static str) {
        self.0.lock().unwrap().push(what);
    }
    fn told(&self) -> Vec<&'static str> {
        self.0.lock().unwrap().clone()
    }
}

/// Unloads without a share, until the sender is dropped.
fn holder(interlock: &Interlock) -> Sender<()> {
    let (release, hold) = channel::<()>();
    let theirs = interlock.clone();
    start(move || theirs.unload(|_| hold.recv().is_err()));
    until(interlock, Unloading, 1);
    release
}

#[test]
fn requests_without_a_share_are_served_in_order_of_arrival() {
    for loads_first in [true, false] {
        let (interlock, story) = (Interlock::new(), Story::default());
        let release = holder(&interlock);
        let requests: Vec<_> = (0..4)
            .map(|n| {
                let (theirs, there) = (interlock.clone(), story.clone());
                let load = (n % 2 == 0) == loads_first;
                let request = start(move || match load {
                    true => theirs.load(|_| there.note("load")),
                    false => theirs.unload(|_| there.note("unload")),
                });
                let state = if load { WaitingToLoad } else { WaitingToUnload };
                until(&interlock, state, n / 2 + 1);
                request
            })
            .collect();
        drop(release);
        for request in requests {
            request.done().expect("no deadlock");
        }
        let turns = if loads_first { ["load", "unload"] } else { ["unload", "load"] };
        assert_eq!(story.told(), turns.repeat(2));
    }
}

/// A newcomer enters before later requests. Earlier requests hold first (PROP-ILK-ENTERS).
#[test]
fn newcomers_and_requests_without_a_share_are_one_line() {
    let (interlock, story) = (Interlock::new(), Story::default());
    let release = holder(&interlock);
    let request = |n| {
        let (theirs, there) = (interlock.clone(), story.clone());
        let request = start(move || theirs.load(|_| there.note("load")));
        until(&interlock, WaitingToLoad, n);
        request
    };
    let newcomer = |n| {
        let (theirs, there) = (interlock.clone(), story.clone());
        let newcomer = start(move || theirs.run(|_| there.note("run")));
        until(&interlock, Entering, n);
        newcomer
    };
    let (a, b, c, d) = (request(1), newcomer(1), request(2), newcomer(2));
    drop(release);
    a.done().expect("no deadlock");
    b.done();
    c.done().expect("no deadlock");
    d.done();
    assert_eq!(story.told(), ["load", "run", "load", "run"]);
    assert!(interlock.dump().owners.is_empty());
}

/// A load that waited for an earlier newcomer does not block it, and the dump agrees.
#[test]
fn a_later_request_does_not_block_a_newcomer() {
    let interlock = Interlock::new();
    let release = holder(&interlock);
    let theirs = interlock.clone();
    let enters = start(move || theirs.run(|_| ()));
    until(&interlock, Entering, 1);
    let theirs = interlock.clone();
    let loads = start(move || theirs.load(|_| ()));
    until(&interlock, WaitingToLoad, 1);
    let dump = interlock.dump();
    let of = |state| dump.owners.iter().find(|owner| owner.state == state).unwrap();
    assert_eq!(of(Entering).blocked_by, [of(Unloading).id]);
    drop(release);
    enters.done();
    loads.done().expect("no deadlock");
}

/// The end of a permit block has its turn between two holders (PROP-ILK-PERMIT-ENDS).
#[test]
fn the_end_of_a_permit_block_goes_before_requests_without_a_share() {
    let (interlock, story) = (Interlock::new(), Story::default());
    let permits = Actor::enter(&interlock);
    let (end, permit) = channel::<()>();
    let there = story.clone();
    let ends = permits.tell_until(Permitting, move |r| {
        r.permit_loads(|| permit.recv()).expect("the only share").expect("the sender sends");
        there.note("resumed");
    });
    let (release, hold) = channel::<()>();
    let theirs = interlock.clone();
    let first = start(move || theirs.load(|_| hold.recv()));
    until(&interlock, Loading, 1);
    let (theirs, there) = (interlock.clone(), story.clone());
    let next = start(move || theirs.load(|_| there.note("load")));
    until(&interlock, WaitingToLoad, 1);
    end.send(()).unwrap();
    permits.until(Resuming);
    release.send(()).unwrap();
    first.done().expect("no deadlock").unwrap();
    ends.done();
    permits.leave();
    next.done().expect("no deadlock");
    assert_eq!(story.told(), ["resumed", "load"]);
}

/// An owner that has unloaded drains only requests that gave up a share (PROP-ILK-RESUMES).
#[test]
fn a_draining_owner_does_not_wait_for_requests_without_a_share() {
    let interlock = Interlock::new();
    let actor = Actor::enter(&interlock);
    let release = {
        let (release, hold) = channel::<()>();
        let unloads = actor.tell_until(Unloading, move |r| r.unload(|_| hold.recv().is_err()));
        (release, unloads)
    };
    let theirs = interlock.clone();
    let unloads = start(move || theirs.unload(|_| ()));
    until(&interlock, WaitingToUnload, 1);
    drop(release.0);
    release.1.done().expect("no deadlock");
    assert_eq!(crate::interlock::actor::count(&interlock, Draining), 0);
    assert!(unloads.is_stuck());
    actor.leave();
    unloads.done().expect("no deadlock");
}

/// Unloads that upgrade go before earlier requests without a share.
#[test]
fn an_unload_that_upgrades_goes_before_requests_without_a_share() {
    let (interlock, story) = (Interlock::new(), Story::default());
    let actors = [Actor::enter(&interlock), Actor::enter(&interlock)];
    let pending = [true, false].map(|load| {
        let (theirs, there) = (interlock.clone(), story.clone());
        let request = start(move || match load {
            true => theirs.load(|_| there.note("load")),
            false => theirs.unload(|_| there.note("unload")),
        });
        until(&interlock, if load { WaitingToLoad } else { WaitingToUnload }, 1);
        request
    });
    let there = story.clone();
    let [sharer, upgrader] = actors;
    let upgrades = upgrader.tell(move |r| r.unload(|_| there.note("upgrade")));
    until(&interlock, WaitingToUnload, 2);
    sharer.leave();
    upgrades.done().expect("no deadlock");
    upgrader.leave();
    for request in pending {
        request.done().expect("no deadlock");
    }
    assert_eq!(story.told(), ["upgrade", "load", "unload"]);
}
