//! The order of grants, and that no stream of others starves an owner.

use crate::interlock::actor::{Actor, newcomer_waits, start, start_unload, until};
use cabrank::Interlock;
use cabrank::execution::interlock::OwnerState::{
    Entering, Loading, Permitting, Resuming, WaitingToLoad,
};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

/// The events, in order.
#[derive(Clone, Default)]
struct Story(Arc<Mutex<Vec<&'static str>>>);

impl Story {
    fn note(&self, what: &'static str) {
        self.0.lock().unwrap().push(what);
    }
    fn read(&self) -> Vec<&'static str> {
        self.0.lock().unwrap().clone()
    }
}

/// Loads go one after the other, then all owners resume together, the end of a permit block among them
/// (PROP-ILK-PROGRAMS-END, PROP-ILK-RESUMES).
#[test]
fn loads_in_a_row_then_all_resume() {
    let (interlock, story) = (Interlock::new(), Story::default());
    let [first, second, permits] = [(); 3].map(|()| Actor::enter(&interlock));
    let (end, block) = channel::<()>();
    let there = story.clone();
    let ends = permits.order_until(Permitting, move |r| {
        r.permit_loads(|| block.recv()).expect("no deadlock").expect("the test sends");
        there.note("resumed");
    });
    let sharer = Actor::enter(&interlock);
    let (release, hold) = channel::<()>();
    let loads = first.order_until(WaitingToLoad, move |r| r.load(|_| hold.recv().is_ok()));
    let there = story.clone();
    let next = second.order_until(WaitingToLoad, move |r| r.load(|_| there.note("load")));
    sharer.leave();
    first.until(Loading);
    end.send(()).unwrap();
    permits.until(Resuming);
    release.send(()).unwrap();
    assert!(loads.done().expect("no deadlock"));
    next.done().expect("no deadlock");
    ends.done();
    assert_eq!(story.read(), ["load", "resumed"]);
}

/// A newcomer enters after the loads that wait, and after the unloads that wait unless a permit block is open
/// (PROP-ILK-ENTERS, PROP-ILK-NEWCOMERS-WAIT).
#[test]
fn a_newcomer_passes_an_unload_only_while_a_permit_block_is_open() {
    let interlock = Interlock::new();
    let (sharer, permits) = (Actor::enter(&interlock), Actor::enter(&interlock));
    let unloads = start_unload(&interlock, |_| ());
    assert!(newcomer_waits(&interlock));
    let newcomer = interlock.clone();
    let enters = start(move || newcomer.run(|_| ()));
    until(&interlock, Entering, 1);
    let (end, block) = channel::<()>();
    let ends = permits.order_until(Permitting, move |r| r.permit_loads(|| block.recv().is_ok()));
    enters.done().expect("the block may wait for it");
    assert!(!newcomer_waits(&interlock));
    let loader = Actor::enter(&interlock);
    let loads = loader.order_until(WaitingToLoad, |r| r.load(|_| ()));
    assert!(newcomer_waits(&interlock), "loads come first");
    sharer.leave();
    loads.done().expect("no deadlock");
    loader.leave();
    end.send(()).unwrap();
    assert!(ends.done().expect("no deadlock"));
    assert!(newcomer_waits(&interlock) && unloads.is_stuck());
    permits.leave();
    unloads.done().expect("no deadlock");
}

/// An owner that has loaded lets other loads go first, and no unload.
#[test]
fn a_draining_owner_does_not_wait_for_an_unload() {
    let interlock = Interlock::new();
    let (first, sharer) = (Actor::enter(&interlock), Actor::enter(&interlock));
    let loads = first.order_until(WaitingToLoad, |r| r.load(|_| ()));
    let unloads = start_unload(&interlock, |_| ());
    sharer.leave();
    loads.done().expect("no deadlock");
    assert!(unloads.is_stuck());
    first.leave();
    unloads.done().expect("no deadlock");
}
