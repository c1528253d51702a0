//! Idle times, maxima, minima, and queues.

use crate::common::{Rig, SECOND, app};
use cabrank::application_pool::{DetachReason, ProcessState};
use cabrank::in_memory::Spawn;

#[test]
fn an_idle_process_is_shut_down_after_the_idle_time() {
    let rig = Rig::new(|b| b.max_idle_time(SECOND));
    let pids = rig.idle(&app("x"), 1);
    assert_eq!(rig.counts(), (0, 1));
    rig.clock.advance(SECOND);
    rig.eventually(|c| c.count == 0);
    assert_eq!(rig.next_detached(), (pids[0], DetachReason::Idle));
}

#[test]
fn a_group_at_its_own_maximum_shares_its_process() {
    let rig = Rig::new(|b| b.max(3).max_per_app(1));
    rig.spawner.always("/srv/x", Spawn::ready().concurrency(None));
    let (first, second) = (rig.get(&app("x")), rig.get(&app("x")));
    let _y = rig.get(&app("y"));
    assert_eq!(first.pid(), second.pid());
    assert_eq!(rig.counts(), (2, 2));
    assert_eq!(rig.pool.counts().spawning, 0);
    assert_eq!(rig.spawner.begun(), 2);
}

/// Erratum E14: a process gets exactly `max_requests` sessions.
#[test]
fn a_process_is_replaced_after_its_last_request() {
    let rig = Rig::new(|b| b.max(1));
    let x = app("x").with_max_requests(4);
    let pids: Vec<u32> = (0..6).map(|_| rig.get(&x).pid()).collect();
    assert_eq!(pids, [1, 1, 1, 1, 2, 2]);
    assert_eq!(rig.next_detached(), (1, DetachReason::MaxRequests));
}

/// A process takes one session (INV-CONCURRENCY), though it could take more.
#[test]
fn the_global_queue_holds_a_get_back() {
    let rig = Rig::new(|b| b.max(1));
    // Without the global queue the process would take the second session at once.
    rig.spawner.always("/srv/x", Spawn::ready().concurrency(None));
    let x = app("x").with_global_queue(true);
    let first = rig.get(&x);
    let second = rig.queue_get(&x);
    assert_eq!(rig.counts(), (1, 1));
    assert_eq!(rig.group(&x).waiting, 1);
    assert!(second.is_pending());
    drop(first);
    let second = second.session();
    assert_eq!((rig.counts(), rig.pool.counts().waiting), ((1, 1), 0));
    drop(second);
}

#[test]
fn a_new_group_is_brought_to_its_minimum_in_the_background() {
    let rig = Rig::new(|b| b);
    rig.spawner.next(Spawn::ready());
    rig.spawner.always("/srv/x", Spawn::ready().held());
    let session = rig.get(&app("x").with_min_processes(3));
    assert_eq!(rig.counts(), (1, 1));
    rig.spawner.release();
    rig.eventually(|c| c.count == 2);
    rig.spawner.release();
    rig.eventually(|c| c.count == 3);
    assert_eq!(rig.pool.counts().spawning, 0);
    assert_eq!(rig.spawner.begun(), 3);
    drop(session);
}

#[test]
fn a_private_queue_takes_the_second_get_while_others_start() {
    let rig = Rig::new(|b| b.max(3));
    rig.spawner.next(Spawn::ready().concurrency(None));
    rig.spawner.always("/srv/x", Spawn::ready().concurrency(None).held());
    let x = app("x").with_min_processes(3);
    let (first, second) = (rig.get(&x), rig.get(&x));
    assert_eq!(first.pid(), second.pid());
    assert_eq!(rig.counts(), (1, 1));
    rig.spawner.release();
    rig.spawner.release();
    rig.eventually(|c| c.count == 3);
    assert_eq!(rig.counts(), (1, 3));
}

#[test]
fn a_get_waits_until_one_of_three_is_free() {
    let rig = Rig::new(|b| b.max(3));
    let x = app("x").with_global_queue(true);
    let mut sessions: Vec<_> = (0..3).map(|_| rig.get(&x)).collect();
    let waiter = rig.queue_get(&x);
    assert_eq!((rig.counts(), rig.pool.counts().waiting), ((3, 3), 1));
    let freed = sessions.remove(1);
    let pid = freed.pid();
    drop(freed);
    assert_eq!(waiter.session().pid(), pid);
}

#[test]
fn a_raised_maximum_lets_exactly_one_waiter_through() {
    let rig = Rig::new(|b| b.max(3));
    let x = app("x").with_global_queue(true);
    let sessions: Vec<_> = (0..3).map(|_| rig.get(&x)).collect();
    let first = rig.queue_get(&x);
    let second = rig.queue_get(&x);
    rig.pool.set_max(4).expect("four is a valid maximum");
    let served = first.session();
    rig.eventually(|c| c.spawning == 0);
    assert!(second.is_pending());
    assert_eq!((rig.counts(), rig.pool.counts().waiting), ((4, 4), 1));
    assert_eq!(rig.spawner.begun(), 4);
    drop(sessions);
    assert!(second.end().is_ok());
    drop(served);
}

/// Erratum E26: Passenger drops the whole group. Here the healthy process stays, and the snapshot
/// shows the error.
#[test]
fn a_failing_spawn_leaves_the_healthy_process_alone() {
    let rig = Rig::new(|b| b);
    let healthy = rig.get(&app("x"));
    rig.spawner.always("/srv/x", Spawn::fail("syntax error"));
    let second = rig.start_get(&app("x"));
    assert_eq!(rig.next_back_off(), SECOND);
    assert_eq!(rig.counts(), (1, 1));
    let group = rig.group(&app("x"));
    assert_eq!(group.last_error.as_deref(), Some("syntax error"));
    assert_eq!(group.processes[0].state, ProcessState::Busy);

    let pid = healthy.pid();
    assert_eq!(healthy.request("hello"), "hello from /srv/x");
    drop(healthy);
    assert_eq!(second.session().pid(), pid, "it serves the second get, too");
}

#[test]
fn the_idle_time_leaves_the_minimum() {
    let rig = Rig::without_cleaner(|b| b.max_idle_time(10 * SECOND));
    let x = app("x").with_min_processes(2);
    let mut sessions: Vec<_> = (0..3).map(|_| rig.get(&x)).collect();
    rig.eventually(|c| c.spawning == 0);
    sessions.pop();
    assert_eq!(rig.counts(), (2, 3));
    rig.clock.advance(10 * SECOND);
    rig.pool.clean();
    assert_eq!(rig.counts(), (2, 2));
    drop(sessions);
    rig.clock.advance(1000 * SECOND);
    rig.pool.clean();
    assert_eq!(rig.counts(), (0, 2));
}
