//! Detaching while spawns and sessions are under way (E2, E12, E13).

use crate::common::{Rig, SECOND, app, eager};
use cabrank::Session;
use cabrank::application_pool::{DetachReason, ProcessState, ShutDown};
use cabrank::in_memory::{Call, Spawn};

/// The pseudocode joins the spawner's thread under the lock that this thread needs to end.
#[test] // E2
fn a_restart_while_spawning_is_no_deadlock() {
    let rig = Rig::watching(|b| b.max(2));
    let first = rig.get(&app("x"));
    rig.spawner.next(Spawn::hang());
    let second = rig.queue_get(&app("x"));
    rig.await_spawns(2);
    rig.touch(&app("x"));
    let third = rig.start_get(&app("x"));
    let (second, third) = (second.session(), third.session());
    assert!(second.pid() != first.pid() && third.pid() != first.pid());
    assert_eq!((rig.counts(), rig.pool.counts().draining), ((2, 2), 1));
}

#[test] // E2
fn an_idle_process_is_reaped_while_its_group_spawns() {
    let rig = Rig::without_cleaner(|b| b.max_idle_time(10 * SECOND));
    rig.spawner.next(Spawn::ready().concurrency(None));
    rig.spawner.next(Spawn::ready().held());
    drop((rig.get(&eager("x")), rig.get(&eager("x"))));
    assert_eq!((rig.counts(), rig.pool.counts().spawning), ((0, 1), 1));
    rig.clock.advance(10 * SECOND);
    rig.pool.clean();
    assert_eq!(rig.counts(), (0, 0));
    rig.spawner.release();
    rig.eventually(|c| c.count == 1 && c.spawning == 0);
}

#[test] // E2
fn an_idle_process_is_evicted_while_its_group_spawns() {
    let rig = Rig::new(|b| b.max(2));
    rig.spawner.next(Spawn::ready().concurrency(None));
    rig.spawner.next(Spawn::hang());
    drop((rig.get(&eager("x")), rig.get(&eager("x"))));
    assert_eq!((rig.counts(), rig.pool.counts().spawning), ((0, 1), 1));
    rig.await_spawns(2);
    let y = rig.get(&app("y"));
    assert_eq!(y.request("hello"), "hello from /srv/y");
    assert_eq!(rig.next_detached(), (1, DetachReason::Evicted));
    assert_eq!((rig.counts(), rig.pool.counts().spawning), ((1, 1), 1));
}

/// The spawner ignores its cancellation and returns a process.
#[test] // E12
fn a_process_spawned_for_a_group_that_is_gone_is_shut_down() {
    let rig = Rig::new(|b| b);
    let gate = rig.gate_at(Call::Spawn);
    // No get waits, so the pool spawns no replacement.
    assert!(rig.pool.try_get(&app("x")).is_err());
    gate.await_arrivals(1);
    assert!(rig.pool.detach_group("/srv/x"));
    assert_eq!(rig.pool.counts().spawning, 1, "it counts until it has ended");
    gate.open();
    rig.until(|| rig.spawner.shut_down() == [(1, ShutDown::Drained)]);
    assert_eq!((rig.counts(), rig.pool.counts().spawning), ((0, 0), 0));
    rig.until(|| rig.spawner.processes().is_empty());
}

/// The pseudocode leaves its fate open: here the pool counts it until its last session ends
/// (INV-DRAINING).
#[test] // E13
fn a_detached_process_finishes_its_sessions_and_gets_no_more() {
    let rig = Rig::new(|b| b.max(2));
    rig.spawner.next(Spawn::ready().concurrency(None));
    let (first, second) = (rig.get(&app("x")), rig.get(&app("x")));
    assert_eq!(first.pid(), second.pid());
    rig.eventually(|c| c.spawning == 0);
    assert!(rig.pool.detach(Session::identifier(&first)));
    assert_eq!(rig.next_detached(), (1, DetachReason::Requested));
    assert_ne!(rig.get(&app("x")).pid(), 1);
    drop(first);
    assert_eq!(second.request("hello"), "hello from /srv/x");
    assert_eq!(rig.spawner.shut_down(), []);
    drop(second);
    assert_eq!(rig.spawner.shut_down(), [(1, ShutDown::Drained)]);
}

/// The deadline holds whether its sessions are closed or not (PROP-DRAIN-ENDS).
#[test] // E13
fn a_drain_ends_at_its_deadline() {
    let rig = Rig::without_cleaner(|b| b.drain_timeout(60 * SECOND));
    let session = rig.get(&app("x"));
    rig.pool.detach(Session::identifier(&session));
    rig.clock.advance(59 * SECOND);
    rig.pool.clean();
    assert_eq!(rig.group(&app("x")).processes[0].state, ProcessState::Draining);
    assert_eq!(rig.spawner.shut_down(), []);
    rig.clock.advance(SECOND);
    rig.pool.clean();
    assert_eq!(rig.spawner.shut_down(), [(1, ShutDown::DeadlinePassed)]);
    assert_eq!(rig.pool.counts().draining, 0);
    // Closing the session after that changes no count.
    let before = rig.pool.snapshot();
    drop(session);
    assert_eq!(rig.pool.snapshot(), before);
    assert_eq!(rig.spawner.shut_down().len(), 1);
}

/// The default deadline. The cleaner's own thread keeps it.
#[test] // E13
fn a_drain_ends_by_itself_after_a_minute() {
    let rig = Rig::new(|b| b);
    let session = rig.get(&app("x"));
    rig.pool.detach(Session::identifier(&session));
    rig.clock.advance(60 * SECOND);
    rig.until(|| rig.spawner.shut_down() == [(1, ShutDown::DeadlinePassed)]);
    rig.eventually(|c| c.draining == 0);
}

#[test] // E13
fn a_process_that_broke_its_session_is_detached() {
    let rig = Rig::new(|b| b);
    Session::fail(rig.get(&app("x")));
    assert_eq!(rig.next_detached(), (1, DetachReason::Failed));
    assert_eq!(rig.spawner.shut_down(), [(1, ShutDown::Drained)]);
    assert_eq!(rig.pool.snapshot().totals.processed, 0);
}
