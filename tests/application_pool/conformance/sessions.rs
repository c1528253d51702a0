//! Sessions with one group and with two, and the life of their processes.

use crate::common::{Rig, SECOND, app, eager};
use cabrank::Session;
use cabrank::application_pool::{DetachReason, ProcessState, ShutDown};
use cabrank::in_memory::Spawn;

#[test]
fn a_process_serves_a_session_and_is_kept_for_the_next() {
    let rig = Rig::new(|b| b);
    let session = rig.get(&app("x"));
    assert_eq!(session.request("hello"), "hello from /srv/x");
    assert_eq!(rig.counts(), (1, 1));
    let pid = session.pid();
    drop(session);
    assert_eq!(rig.counts(), (0, 1));
    let session = rig.get(&app("x"));
    assert_eq!((session.pid(), rig.counts(), rig.spawner.begun()), (pid, (1, 1), 1));
}

/// With a private queue the second get does not wait for the process that it causes.
#[test]
fn a_busy_process_is_joined_by_another_in_the_background() {
    let rig = Rig::new(|b| b);
    rig.spawner.always("/srv/x", Spawn::ready().concurrency(None));
    let first = rig.get(&eager("x"));
    let second = rig.get(&eager("x"));
    assert_eq!(first.pid(), second.pid());
    rig.eventually(|c| c.count == 2);
    assert_eq!(rig.counts(), (1, 2));
}

#[test]
fn a_get_waits_for_the_second_process_where_each_takes_one_session() {
    let rig = Rig::new(|b| b);
    let first = rig.get(&app("x"));
    let second = rig.get(&app("x"));
    assert_ne!(first.pid(), second.pid());
    assert_eq!(rig.counts(), (2, 2));
}

#[test]
fn two_groups_have_their_own_processes_which_are_kept() {
    let rig = Rig::new(|b| b);
    let (x, y) = (rig.get(&app("x")), rig.get(&app("y")));
    assert_eq!(rig.counts(), (2, 2));
    assert_eq!(x.request("hello"), "hello from /srv/x");
    assert_eq!(y.request("hello"), "hello from /srv/y");
    drop((x, y));
    assert_eq!(rig.counts(), (0, 2));
}

/// In Passenger's suite this is a comment without code.
#[test]
fn a_get_waits_for_the_only_process_to_become_idle() {
    let rig = Rig::new(|b| b.max(1));
    let first = rig.get(&app("x"));
    let pid = first.pid();
    let second = rig.queue_get(&app("x"));
    assert_eq!(rig.counts(), (1, 1));
    drop(first);
    assert_eq!(second.session().pid(), pid);
    assert_eq!(rig.spawner.begun(), 1);
}

#[test]
fn a_dead_process_is_replaced_without_an_error() {
    let rig = Rig::new(|b| b);
    let session = rig.get(&app("x"));
    let dead = session.pid();
    rig.spawner.processes()[0].kill();
    drop(session);
    let session = rig.get(&app("x"));
    assert_ne!(session.pid(), dead);
    assert_eq!(rig.counts(), (1, 1));
    assert_eq!(rig.next_detached(), (dead, DetachReason::Failed));
}

#[test]
fn full_pool_makes_the_other_group_wait() {
    let rig = Rig::new(|b| b.max(2));
    let (first, second) = (rig.get(&app("x")), rig.get(&app("x")));
    let y = rig.queue_get(&app("y"));
    rig.clock.advance(30 * SECOND);
    rig.pool.clean();
    assert_eq!((rig.counts(), rig.pool.counts().waiting), ((2, 2), 1));
    assert_eq!(rig.pool.counts().spawning, 0, "there is no room to spawn in");
    assert!(y.is_pending());

    drop(first);
    let y = y.session();
    assert_eq!(y.request("hello"), "hello from /srv/y");
    assert_eq!(rig.counts(), (2, 2));
    drop(second);
}

#[test]
fn an_idle_process_makes_room_for_another_group() {
    let rig = Rig::new(|b| b.max(2));
    let pids = rig.idle(&app("x"), 2);
    let y = rig.get(&app("y"));
    assert_eq!(y.request("hello"), "hello from /srv/y");
    assert_eq!(rig.counts(), (1, 2));
    assert_eq!(rig.next_detached(), (pids[0], DetachReason::Evicted), "idle for longest");
    assert_eq!(rig.pids(&app("x")), [pids[1]]);
}

/// Passenger's `clear` is `detach_group` of each group.
#[test]
fn a_session_outlives_the_pool() {
    let rig = Rig::new(|b| b);
    let session = rig.get(&app("x"));
    assert!(rig.pool.detach_group("/srv/x"));
    let Rig { pool, spawner, .. } = rig;
    drop(pool);
    assert_eq!(session.request("hello"), "hello from /srv/x");
    assert_eq!(spawner.shut_down(), []);
    let pid = session.pid();
    drop(session);
    assert_eq!(spawner.shut_down(), [(pid, ShutDown::Drained)]);
}

/// By erratum E13 the busy process drains, and its identifier finds it no longer (INV-IDENTIFIER).
#[test]
fn a_process_can_be_detached_once_busy_or_idle() {
    let rig = Rig::new(|b| b);
    let (busy, idle) = (rig.get(&app("x")), rig.get(&app("x")));
    let (busy_id, idle_id) = (Session::identifier(&busy), Session::identifier(&idle));
    drop(idle);
    assert_eq!(rig.counts(), (1, 2));

    assert!(rig.pool.detach(busy_id));
    assert_eq!(rig.counts(), (0, 1));
    assert_eq!(rig.pool.counts().draining, 1);
    assert!(!rig.pool.detach(busy_id));
    assert_eq!(rig.counts(), (0, 1));

    assert!(rig.pool.detach(idle_id));
    assert_eq!(rig.counts(), (0, 0));
    let states: Vec<_> = rig.group(&app("x")).processes.iter().map(|p| p.state).collect();
    assert_eq!(states, [ProcessState::Draining]);
    drop(busy);
    assert_eq!(rig.pool.counts().draining, 0);
}
