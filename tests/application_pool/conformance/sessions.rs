//! Sessions with one group and with two, and what becomes of processes.

use crate::common::{Rig, SECOND, app};
use cabrank::in_memory::Spawn;
use cabrank::{DetachReason, ProcessState, ShutDown};

#[test]
fn o01_a_session_reaches_the_application() {
    let rig = Rig::new(|b| b);
    let session = rig.get(&app("x"));
    assert_eq!(session.request("hello"), "hello from /srv/x");
}

#[test]
fn o02_a_process_is_kept_after_its_session() {
    let rig = Rig::new(|b| b);
    let session = rig.get(&app("x"));
    assert_eq!(rig.counts(), (1, 1));
    session.close();
    assert_eq!(rig.counts(), (0, 1));
}

#[test]
fn o03_an_idle_process_is_used_again() {
    let rig = Rig::new(|b| b);
    let pids = rig.idle(&app("x"), 1);
    let session = rig.get(&app("x"));
    assert_eq!(session.pid(), pids[0]);
    assert_eq!(rig.counts(), (1, 1));
    assert_eq!(rig.spawner.begun(), 1);
}

/// The text's private queue: the second get need not wait for the process that it causes.
#[test]
fn o04_a_busy_process_is_joined_by_another_in_the_background() {
    let rig = Rig::new(|b| b);
    rig.spawner.always("/srv/x", Spawn::ready().concurrency(0));
    let first = rig.get(&app("x"));
    let second = rig.get(&app("x"));
    assert_eq!(first.pid(), second.pid());
    rig.eventually(|c| c.count == 2);
    assert_eq!(rig.counts(), (1, 2));
}

#[test]
fn o04_a_get_waits_for_the_second_process_where_each_takes_one_session() {
    let rig = Rig::new(|b| b);
    let first = rig.get(&app("x"));
    let second = rig.get(&app("x"));
    assert_ne!(first.pid(), second.pid());
    assert_eq!(rig.counts(), (2, 2));
}

#[test]
fn o05_two_groups_are_served_by_their_own_processes() {
    let rig = Rig::new(|b| b);
    let (x, y) = (rig.get(&app("x")), rig.get(&app("y")));
    assert_eq!(rig.counts(), (2, 2));
    assert_eq!(x.request("hello"), "hello from /srv/x");
    assert_eq!(y.request("hello"), "hello from /srv/y");
}

#[test]
fn o06_the_processes_of_two_groups_are_kept() {
    let rig = Rig::new(|b| b);
    let (x, y) = (rig.get(&app("x")), rig.get(&app("y")));
    x.close();
    y.close();
    assert_eq!(rig.counts(), (0, 2));
}

/// A note in the original, with nothing to run.
#[test]
fn o07_a_get_waits_for_the_only_process_to_become_idle() {
    let rig = Rig::new(|b| b.max(1));
    let first = rig.get(&app("x"));
    let pid = first.pid();
    let second = rig.queue_get(&app("x"));
    assert_eq!(rig.counts(), (1, 1));
    first.close();
    assert_eq!(second.session().pid(), pid);
    assert_eq!(rig.spawner.begun(), 1);
}

#[test]
fn o08_a_dead_process_is_replaced_without_an_error() {
    let rig = Rig::new(|b| b);
    let session = rig.get(&app("x"));
    let dead = session.pid();
    rig.spawner.processes()[0].kill();
    session.close();
    let session = rig.get(&app("x"));
    assert_ne!(session.pid(), dead);
    assert_eq!(rig.counts(), (1, 1));
    assert_eq!(rig.next_detached(), (dead, DetachReason::Failed));
}

#[test]
fn o09_full_pool_makes_the_other_group_wait() {
    let rig = Rig::new(|b| b.max(2));
    let (first, second) = (rig.get(&app("x")), rig.get(&app("x")));
    let y = rig.queue_get(&app("y"));
    rig.clock.advance(30 * SECOND);
    rig.pool.clean();
    assert_eq!((rig.counts(), rig.pool.counts().waiting), ((2, 2), 1));
    assert_eq!(rig.pool.counts().spawning, 0, "there is no room to spawn in");
    assert!(y.is_pending());

    first.close();
    let y = y.session();
    assert_eq!(y.request("hello"), "hello from /srv/y");
    assert_eq!(rig.counts(), (2, 2));
    drop(second);
}

#[test]
fn o10_an_idle_process_makes_room_for_another_group() {
    let rig = Rig::new(|b| b.max(2));
    let pids = rig.idle(&app("x"), 2);
    let y = rig.get(&app("y"));
    assert_eq!(y.request("hello"), "hello from /srv/y");
    assert_eq!(rig.counts(), (1, 2));
    assert_eq!(rig.next_detached(), (pids[0], DetachReason::Evicted), "idle for longest");
    assert_eq!(rig.pids(&app("x")), [pids[1]]);
}

/// To clear the original's pool is to detach its groups.
#[test]
fn o11_a_session_outlives_the_pool() {
    let rig = Rig::new(|b| b);
    let session = rig.get(&app("x"));
    assert!(rig.pool.detach_group("/srv/x"));
    let Rig { pool, spawner, .. } = rig;
    drop(pool);
    assert_eq!(session.request("hello"), "hello from /srv/x");
    assert_eq!(spawner.shut_down(), []);
    let pid = session.pid();
    session.close();
    assert_eq!(spawner.shut_down(), [(pid, ShutDown::Drained)]);
}

/// Erratum E13 says what becomes of the busy one: it drains, and is found no more (INV-IDENTIFIER).
#[test]
fn o30_a_process_can_be_detached_once_busy_or_idle() {
    let rig = Rig::new(|b| b);
    let (busy, idle) = (rig.get(&app("x")), rig.get(&app("x")));
    let (busy_id, idle_id) = (busy.identifier(), idle.identifier());
    idle.close();
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
    busy.close();
    assert_eq!(rig.pool.counts().draining, 0);
}
