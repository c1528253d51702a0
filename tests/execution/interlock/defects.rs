//! The defects of Rails' interlock are absent here. `spec/` shows each of them on a model of Rails' rules.

use crate::interlock::actor::{Actor, start, until};
use cabrank::Interlock;
use cabrank::execution::interlock::AcquireError;
use cabrank::execution::interlock::OwnerState::{
    Entering, Permitting, Running, WaitingForChildren, WaitingToLoad, WaitingToUnload,
};
use std::sync::mpsc::channel;

/// Defect `rails-permit-erased`: in Rails a load inside a permit block erases the block's entry. An unload then
/// enters although only loads were permitted.
#[test]
fn a_load_inside_a_permit_block_does_not_end_it() {
    let interlock = Interlock::new();
    let (actor, other) = (Actor::enter(&interlock), Actor::enter(&interlock));
    let (go, steps) = channel::<()>();
    let inner = interlock.clone();
    let permits = actor.tell_until(Permitting, move |r| {
        r.permit_loads(|| {
            steps.recv().unwrap();
            // Contended: the other has a share.
            inner.run(|r| r.load(|_| ()).expect("no deadlock"));
            steps.recv().unwrap();
            inner.run(|r| r.permit_loads(|| ()).expect("the only share of its frame"));
            steps.recv().unwrap();
        })
    });
    let refused = || {
        let unloaded = other.tell(|r| r.try_unload(|_| ())).done();
        assert!(matches!(unloaded, Err(AcquireError::WouldBlock)));
    };
    refused();
    go.send(()).unwrap();
    actor.until(WaitingToLoad);
    other.tell(|r| r.permit_loads(|| ()).expect("the only share")).done();
    actor.until(Permitting);
    refused();
    go.send(()).unwrap();
    actor.until(Permitting);
    refused();
    go.send(()).unwrap();
    permits.done().expect("the only share");
    actor.until(Running);
}

/// Defect `rails-starved-request`: in Rails a request without a share publishes no entry, and starves under a
/// stream of sharers.
#[test]
fn a_request_without_a_share_keeps_newcomers_out() {
    let interlock = Interlock::new();
    let sharer = Actor::enter(&interlock);
    let other = interlock.clone();
    let unloads = start(move || other.unload(|_| ()));
    until(&interlock, WaitingToUnload, 1);
    assert!(matches!(interlock.try_run(|_| ()), Err(AcquireError::WouldBlock)));
    sharer.leave();
    unloads.done().expect("no deadlock");
}

/// Defect `rails-upgrade-deadlock`: in Rails two owners that upgrade without a purpose block each other for ever.
#[test]
fn two_upgrades_to_unload_both_pass() {
    let interlock = Interlock::new();
    let actors = [Actor::enter(&interlock), Actor::enter(&interlock)];
    let unloads = actors.each_ref().map(|actor| actor.tell(|r| r.unload(|_| ())));
    for unload in unloads {
        unload.done().expect("no deadlock");
    }
    assert_eq!(interlock.generation(), 2);
}

/// Defect `rails-child-behind-unload`: in Rails the guide's own remedy hangs when an unload is queued before
/// the child enters.
#[test]
fn a_child_enters_although_an_unload_waits_for_its_parent() {
    let interlock = Interlock::new();
    let parent = Actor::enter(&interlock);
    let child = parent.tell(|r| r.child()).done();
    let other = interlock.clone();
    let unloads = start(move || other.unload(|_| ()));
    until(&interlock, WaitingToUnload, 1);
    let joined = parent.tell(|r| {
        r.join(std::thread::spawn(move || child.run(|r| r.load(|_| 4)))).expect("the only share")
    });
    assert_eq!(joined.done().expect("no panic").expect("no deadlock"), 4);
    assert!(unloads.is_stuck());
    parent.leave();
    unloads.done().expect("no deadlock");
}

/// Without the token it is a newcomer like any other. The dump shows the wait, and a time limit helps.
#[test]
fn without_a_token_the_dump_shows_the_wait() {
    let interlock = Interlock::new();
    let parent = Actor::enter(&interlock);
    let other = interlock.clone();
    let unloads = start(move || other.unload(|_| ()));
    until(&interlock, WaitingToUnload, 1);
    let unload = interlock.dump().owners.iter().find(|o| o.state == WaitingToUnload).unwrap().id;
    let stranger = interlock.clone();
    let enters = start(move || stranger.run(|_| ()));
    until(&interlock, Entering, 1);
    let dump = interlock.dump();
    let newcomer = dump.owners.iter().find(|o| o.state == Entering).unwrap();
    assert_eq!(newcomer.blocked_by, [unload]);
    assert_eq!(dump.owner(unload).unwrap().blocked_by, [parent.id]);
    parent.leave();
    unloads.done().expect("no deadlock");
    enters.done();
}

/// Defect `rails-leaked-share`: in Rails a thread that died with a share blocks unloads for ever.
#[test]
fn an_operator_can_forfeit_a_leaked_share() {
    let interlock = Interlock::new();
    std::mem::forget(interlock.enter());
    let other = interlock.clone();
    let unloads = start(move || other.unload(|_| ()));
    until(&interlock, WaitingToUnload, 1);
    let dump = interlock.dump();
    let lost = dump.owners.iter().find(|owner| owner.state == Running).expect("it is shown");
    assert!(interlock.forfeit(lost.id));
    assert!(!interlock.forfeit(lost.id), "once");
    unloads.done().expect("no deadlock");
}

/// Regression: a forfeited execution stayed a child until its guard was dropped. Holders were refused a wait for
/// it, and the dump showed other owners waiting for it.
#[test]
fn a_forfeited_child_ends_the_waits_for_it() {
    let interlock = Interlock::new();
    let parent = Actor::enter(&interlock);
    let waits_in_its_section = || {
        let inside = interlock.clone();
        let loads = parent.tell(move |r| r.load(|_| inside.run(|r| r.waiting(|| ()))));
        loads.done().expect("no other owner has a share")
    };
    let lost = parent.tell(|r| r.child().enter()).done();
    let (end, wait) = channel::<()>();
    let waits = parent.tell_until(WaitingForChildren, move |r| r.waiting(|| wait.recv()));
    let waits_for =
        || interlock.dump().owner(parent.id).expect("the receiver waits").blocked_by.clone();
    assert_eq!(waits_for(), [lost.id()]);
    assert!(interlock.forfeit(lost.id()));
    assert_eq!(waits_for(), []);
    drop(end);
    waits.done().expect("the wait is not refused").expect_err("the sender is dropped");
    waits_in_its_section().expect("it has no children");

    // Dropping its guard later removes one child, and only one.
    let next = parent.tell(|r| r.child()).done();
    drop(lost);
    assert!(matches!(waits_in_its_section(), Err(AcquireError::Nested)));
    drop(next);
    waits_in_its_section().expect("it has no children any more");
    parent.leave();
    assert!(interlock.dump().owners.is_empty());
}

/// The guard is dropped later.
#[test]
fn a_forfeited_execution_is_refused() {
    let interlock = Interlock::new();
    let mut late = interlock.enter();
    assert!(interlock.forfeit(late.id()));
    assert!(!late.has_share());
    assert!(matches!(late.load(|_| ()), Err(AcquireError::Forfeited)));
    assert!(matches!(late.permit_loads(|| ()), Err(AcquireError::Forfeited)));
    interlock.unload(|_| ()).expect("a forfeited execution does not count");
    drop(late);
    assert!(interlock.dump().owners.is_empty());
    interlock.run(|r| r.load(|_| ())).expect("everything is as before");
}
#[test]
fn a_forfeited_wait_ends() {
    let interlock = Interlock::new();
    let (sharer, waits) = (Actor::enter(&interlock), Actor::enter(&interlock));
    let loads = waits.tell_until(WaitingToLoad, |r| r.load(|_| ()));
    assert!(interlock.forfeit(waits.id));
    assert!(matches!(loads.done(), Err(AcquireError::Forfeited)));
    waits.leave();
    sharer.leave();
    assert!(interlock.dump().owners.is_empty());
}
