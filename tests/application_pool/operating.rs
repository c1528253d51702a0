//! The operator's calls: restarts by name, a minimum before the first get, a close with a deadline.

use crate::common::{Rig, SECOND, app, soon};
use cabrank::application_pool::{
    CloseTimedOut, DetachReason, Event, GetError, GroupSnapshot, Identifier, ProcessSnapshot,
    ProcessState, RestartMode, Snapshot, SpawnError, SpawnRequest, Spawner,
};
use cabrank::in_memory::{Call, InMemorySpawner, Spawn};
use std::time::Duration;

#[test]
fn a_group_restarts_at_once_by_its_name() {
    let rig = Rig::new(|b| b.max(3));
    let busy = rig.get(&app("x"));
    assert!(rig.pool.restart_group("/srv/x", RestartMode::Immediate));
    assert!(rig.group(&app("x")).restarting);
    assert_eq!(rig.next_detached(), (busy.pid(), DetachReason::Restarted));
    assert_eq!(rig.get(&app("x")).pid(), 2);
    assert_eq!(rig.spawner.reloaded(), ["/srv/x"]);
    assert!(!rig.pool.restart_group("/srv/unknown", RestartMode::Immediate));
    rig.pool.close();
    assert!(!rig.pool.restart_group("/srv/x", RestartMode::Immediate), "it is closed");
}

#[test]
fn a_detached_group_that_drains_is_not_restarted() {
    let rig = Rig::new(|b| b);
    let busy = rig.get(&app("x"));
    assert!(rig.pool.detach_group("/srv/x"));
    assert_eq!(rig.pool.counts().draining, 1);
    assert!(!rig.pool.restart_group("/srv/x", RestartMode::Immediate), "it is gone");
    drop(busy);
}

#[test]
fn a_group_restarts_one_by_one_by_its_name() {
    let rig = Rig::new(|b| b.max(3));
    rig.idle(&app("x"), 2);
    rig.spawner.next(Spawn::ready().held());
    assert!(rig.pool.restart_group("/srv/x", RestartMode::Rolling));
    assert_eq!(rig.pids(&app("x")), [1, 2], "the old ones serve until a new one is ready");
    rig.spawner.release();
    rig.until(|| rig.pids(&app("x")) == [3, 4]);
    assert!(!rig.group(&app("x")).restarting);
}

#[test]
fn a_restart_by_name_ends_the_back_off() {
    let rig = Rig::new(|b| b.max(3));
    rig.spawner.next(Spawn::fail("no database"));
    assert!(matches!(rig.start_get(&app("x")).error(), GetError::Spawn(_)));
    assert!(rig.pool.restart_group("/srv/x", RestartMode::Immediate));
    drop(rig.get(&app("x")));
}

#[test]
fn a_minimum_is_spawned_before_the_first_get_and_kept() {
    let rig = Rig::watching(|b| b.max(3));
    let options = app("x").with_min_processes(2);
    rig.pool.pre_start(&options).expect("an open pool");
    rig.eventually(|c| c.count == 2 && c.spawning == 0);
    assert_eq!(rig.group(&options).waiting, 0);
    // Each lost one is replaced.
    assert!(rig.pool.detach(rig.group(&options).processes[0].identifier));
    rig.eventually(|c| c.count == 2 && c.spawning == 0);
    // A touch after it was started restarts the group: it has looked at the file.
    rig.touch(&options);
    assert_eq!(rig.get(&options).pid(), 4);
}

#[test]
fn a_minimum_takes_no_other_groups_place() {
    let rig = Rig::new(|b| b.max(2));
    rig.idle(&app("x"), 2);
    rig.pool.pre_start(&app("y").with_min_processes(1)).expect("an open pool");
    assert_eq!((rig.counts(), rig.pool.counts().spawning), ((0, 2), 0));
    rig.pool.set_max(3).expect("not zero");
    rig.eventually(|c| c.count == 3);
    rig.pool.close();
    assert!(matches!(rig.pool.pre_start(&app("y")), Err(GetError::Closed)));
}

#[test]
fn a_close_with_a_deadline_says_what_is_left() {
    let rig = Rig::new(|b| b.max(4));
    rig.spawner.always("/srv/x", Spawn::ready().concurrency(None));
    rig.idle(&app("z"), 1);
    let sessions = [rig.get(&app("x")), rig.get(&app("x")), rig.get(&app("y"))];
    let gate = rig.gate_at(Call::ShutDown);
    let pool = rig.pool.clone();
    let closing = std::thread::spawn(move || pool.close_timeout(10 * SECOND));
    gate.await_arrivals(1);
    let error = rig.pool.close_timeout(Duration::ZERO).expect_err("sessions are open");
    assert_eq!((error.groups(), error.processes(), error.sessions()), (2, 2, 3));
    assert_eq!((error.spawning(), error.shutting_down()), (0, 1));
    let says = "the pool still has 2 groups, 2 processes, 3 sessions, 1 process that shuts down";
    assert_eq!(error.to_string(), says);
    assert_eq!(error.left().groups[0].name, "/srv/x");
    gate.open();
    drop(sessions);
    soon(move || closing.join().expect("no panic")).expect("it has ended in time");
    rig.pool.close_timeout(Duration::ZERO).expect("it has ended");
}

/// A close from within user code of the pool does not wait for that very code.
#[test]
fn a_wait_for_the_end_in_a_callback_does_not_wait() {
    let rig = Rig::new(|b| b);
    rig.idle(&app("x"), 1);
    let (pool, (sender, answer)) = (rig.pool.downgrade(), std::sync::mpsc::channel());
    rig.spawner.on_call(move |call| {
        if call == Call::ShutDown
            && let Some(pool) = pool.upgrade()
        {
            let has_ended = pool.wait_closed(100 * SECOND);
            let closed = pool.close_timeout(100 * SECOND).map_err(|e| e.shutting_down());
            let _ = sender.send((has_ended, closed));
        }
    });
    let pool = rig.pool.clone();
    assert!(soon(move || pool.detach_group("/srv/x")));
    assert_eq!(answer.recv(), Ok((false, Err(1))));
}

/// A user's test makes what its own code reads: snapshots, events, errors and requests.
#[test]
fn a_users_test_makes_snapshots_and_errors() {
    let mut process = ProcessSnapshot::default();
    process.identifier = Identifier::from_u64(7);
    process.state = ProcessState::Draining;
    process.sessions = 2;
    let mut group = GroupSnapshot::default();
    group.name = "/srv/x".into();
    group.processes = vec![process];
    let mut snapshot = Snapshot::default();
    snapshot.groups = vec![group, GroupSnapshot::default()];
    let error = CloseTimedOut::new(snapshot);
    assert_eq!((error.groups(), error.sessions()), (1, 2));
    let event = Event::Detached {
        group: "/srv/x".into(),
        identifier: Identifier::from_u64(7),
        pid: None,
        reason: DetachReason::Idle,
    };
    assert!(matches!(event, Event::Detached { reason: DetachReason::Idle, .. }));
    let errors = [GetError::QueueFull { max_queue: 3 }, GetError::Spawn(SpawnError::new("none"))];
    assert_eq!(errors[1].to_string(), "no process could be spawned");
    let request = SpawnRequest::new(Identifier::from_u64(1), app("x"));
    let spawner = InMemorySpawner::new();
    spawner.next(Spawn::hang());
    request.cancel().cancel();
    assert!(spawner.spawn(&request).is_err(), "a cancelled spawn gives up");
}

/// PROP-DISABLED, INV-DISABLED.
#[test]
fn a_disabled_process_finishes_its_session_and_is_given_no_more() {
    let rig = Rig::watching(|b| b.max(3));
    let session = rig.get(&app("x"));
    let process = rig.group(&app("x")).processes[0].identifier;
    assert!(rig.pool.disable(process) && rig.pool.disable(process), "twice is once");
    assert_eq!(rig.get(&app("x")).pid(), 2, "another one serves");
    drop(session);
    let disabled = || rig.group(&app("x")).processes[0].clone();
    assert_eq!((disabled().state, disabled().sessions), (ProcessState::Disabled, 0));
    assert_eq!(rig.counts(), (1, 2), "it counts as active");
    // It is neither due nor evicted, however long it is idle.
    rig.pool.set_max_idle_time(SECOND).expect("not zero");
    rig.clock.advance(2 * SECOND);
    rig.until(|| rig.pids(&app("x")) == [1]);
    assert!(rig.pool.enable(process) && rig.pool.enable(process), "twice is once");
    rig.clock.advance(2 * SECOND);
    rig.until(|| rig.pids(&app("x")).is_empty());
    assert!(!rig.pool.disable(process) && !rig.pool.enable(process), "it is gone");
}

#[test]
fn a_disabled_process_does_not_count_for_the_minimum() {
    let rig = Rig::new(|b| b.max(3));
    let options = app("x").with_min_processes(1);
    drop(rig.get(&options));
    assert!(rig.pool.disable(rig.group(&options).processes[0].identifier));
    rig.until(|| rig.pids(&options) == [1, 2]);
}

#[test]
fn a_get_waits_for_a_disabled_process_if_there_can_be_no_other() {
    for max_per_app in [Some(1), None] {
        let rig =
            Rig::new(|b| b.max(if max_per_app.is_some() { 2 } else { 1 }).max_per_app(max_per_app));
        drop(rig.get(&app("x")));
        let process = rig.group(&app("x")).processes[0].identifier;
        assert!(rig.pool.disable(process));
        let waits = rig.queue_get(&app("x"));
        assert!(rig.pool.enable(process));
        assert_eq!(waits.session().pid(), 1);
    }
}

/// Processes of other groups make room, and the disabled one stays.
#[test]
fn a_group_whose_processes_are_disabled_gets_another_one() {
    let rig = Rig::new(|b| b.max(2));
    drop((rig.get(&app("x")), rig.get(&app("y"))));
    let process = rig.group(&app("x")).processes[0].identifier;
    assert!(rig.pool.disable(process));
    assert_eq!(rig.get(&app("x")).pid(), 3);
    assert_eq!((rig.pids(&app("x")), rig.gone()), (vec![1, 3], vec![2]));
    assert!(rig.pool.detach(process), "it is detached as any other");
    assert_eq!(rig.pids(&app("x")), [3]);
}

/// Its wait makes another process ready to leave. Under the new limit, that process could not help it.
#[test]
fn a_lowered_limit_counts_disabled_processes() {
    let rig = Rig::new(|b| b.max(2));
    drop(rig.get(&app("x")));
    let y = rig.get(&app("y"));
    let process = rig.group(&app("x")).processes[0].identifier;
    assert!(rig.pool.disable(process));
    let waits = rig.queue_get(&app("x"));
    rig.pool.set_max_per_app(Some(1)).expect("not zero");
    drop(y);
    assert_eq!(rig.pids(&app("y")), [2], "it makes no room");
    assert!(rig.pool.enable(process));
    assert_eq!(waits.session().pid(), 1);
}

#[test]
fn a_closed_pool_has_no_disabled_process() {
    let rig = Rig::new(|b| b.max(2));
    let session = rig.get(&app("x"));
    let process = rig.group(&app("x")).processes[0].identifier;
    assert!(rig.pool.disable(process));
    rig.pool.close();
    assert!(!rig.pool.enable(process));
    drop(session);
    rig.until(|| rig.gone() == [1]);
}

#[test]
fn a_restart_replaces_a_disabled_process() {
    let rig = Rig::new(|b| b.max(2));
    drop(rig.get(&app("x")));
    assert!(rig.pool.disable(rig.group(&app("x")).processes[0].identifier));
    assert!(rig.pool.restart_group("/srv/x", RestartMode::Rolling));
    rig.until(|| rig.pids(&app("x")) == [2]);
}
