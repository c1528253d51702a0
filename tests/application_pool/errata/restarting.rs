//! When a group restarts, and the state after a failed restart (E22, E23, E24, E34 immediate).

use crate::common::{Rig, SECOND, app, before_long};
use cabrank::application_pool::{DetachReason, Event, GetError, RestartMode};
use cabrank::in_memory::{Call, Spawn};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// In the pseudocode looking at the change consumes it.
#[test] // E22
fn a_restart_whose_spawn_fails_is_not_forgotten() {
    let rig = Rig::watching(|b| b);
    rig.idle(&app("x"), 1);
    rig.touch(&app("x"));
    rig.spawner.next(Spawn::fail("syntax error"));
    assert!(matches!(rig.start_get(&app("x")).error(), GetError::Spawn(_)));
    assert!(rig.group(&app("x")).restarting);
    rig.clock.advance(SECOND);
    assert_eq!(rig.get(&app("x")).pid(), 2);
    assert_eq!(rig.spawner.reloaded(), ["/srv/x", "/srv/x"], "reloaded before each attempt");
    assert!(!rig.group(&app("x")).restarting);
    rig.pool.detach_group("/srv/x");
    rig.idle(&app("x"), 1);
    assert_eq!(rig.spawner.reloaded().len(), 2, "once is enough when it has been carried out");
}

#[test] // E22
fn a_restart_whose_reload_fails_is_not_forgotten() {
    let rig = Rig::watching(|b| b);
    rig.idle(&app("x"), 1);
    rig.touch(&app("x"));
    rig.spawner.on_call(|call| assert_ne!(call, Call::Reload, "the spawn server is down"));
    let error = rig.start_get(&app("x")).error();
    let why = error.source().map(ToString::to_string).unwrap_or_default();
    assert!(why.contains("the spawn server is down"), "{why}");
    rig.spawner.on_call(|_| {});
    rig.clock.advance(SECOND);
    assert_eq!(rig.get(&app("x")).pid(), 2);
    assert_eq!(rig.spawner.reloaded().len(), 2);
}

#[test] // E22
fn two_groups_that_share_a_directory_both_restart() {
    let rig = Rig::watching(|b| b);
    let apps = ["x", "y"].map(|name| app(name).with_restart_dir("/run/restart"));
    apps.iter().for_each(|app| drop(rig.idle(app, 1)));
    rig.touch(&apps[0]);
    apps.iter().for_each(|app| drop(rig.idle(app, 1)));
    assert_eq!(rig.spawner.reloaded(), ["/srv/x", "/srv/y"]);
    apps.iter().for_each(|app| drop(rig.idle(app, 1)));
    assert_eq!(rig.spawner.reloaded().len(), 2);
}

/// The first look is no cause (PROP-RESTART-CAUSE), a deletion costs no process (PROP-RESTART-LOSS).
/// `conformance/restart_files.rs` has each case for itself.
#[test] // E23
fn the_first_look_is_the_baseline_and_deletion_is_no_change() {
    let rig = Rig::watching(|b| b);
    rig.touch(&app("x"));
    let mut restarts = Vec::new();
    let mut ask = |rig: &Rig| {
        rig.idle(&app("x"), 1);
        restarts.push(rig.group(&app("x")).generation);
    };
    ask(&rig);
    rig.touch(&app("x"));
    ask(&rig);
    rig.files.remove(Path::new("/srv/x/tmp/restart.txt"));
    ask(&rig);
    rig.touch(&app("x"));
    ask(&rig);
    assert_eq!(restarts, [0, 1, 1, 2]);
}

/// The files present when a detached group is created again are its baseline.
#[test] // E23
fn a_group_created_again_has_a_new_baseline() {
    let rig = Rig::watching(|b| b);
    rig.idle(&app("x"), 1);
    rig.touch(&app("x"));
    rig.pool.detach_group("/srv/x");
    rig.idle(&app("x"), 1);
    assert_eq!(rig.spawner.reloaded(), [""; 0]);
}

/// The same, where a later attempt of a get creates it again.
#[test] // E23
fn a_group_created_again_by_a_second_attempt_has_a_baseline() {
    let rig = Rig::watching(|b| b);
    rig.touch(&app("x"));
    rig.idle(&app("x"), 1);
    rig.spawner.processes()[0].kill();
    let weak = rig.pool.downgrade();
    let once = AtomicBool::new(true);
    rig.spawner.on_call(move |call| {
        if call == Call::Connect
            && once.swap(false, Ordering::SeqCst)
            && let Some(pool) = weak.upgrade()
        {
            assert!(pool.detach_group("/srv/x"));
        }
    });
    let pid = rig.get(&app("x")).pid();
    assert_eq!(rig.get(&app("x")).pid(), pid);
    assert_eq!(rig.spawner.reloaded(), [""; 0]);
}

#[test] // E24
fn a_get_looks_once_however_often_it_tries() {
    let rig = Rig::watching(|b| b);
    rig.idle(&app("x"), 3);
    rig.clock.advance(30 * SECOND); // They do not die early.
    rig.spawner.processes().iter().for_each(|process| process.kill());
    rig.files.take_look_ups();
    assert_eq!(rig.get(&app("x")).pid(), 4);
    let files = ["always_restart.txt", "restart.txt"];
    let once: Vec<PathBuf> = files.iter().map(|f| Path::new("/srv/x/tmp").join(f)).collect();
    let mut looked = rig.files.take_look_ups();
    looked.sort();
    assert_eq!(looked, once);
}

/// A later attempt finds a process that this get itself requested.
#[test] // E24
fn a_get_restarts_once_however_often_it_tries() {
    let rig = Rig::watching(|b| b);
    let x = app("x").with_min_processes(2);
    rig.idle(&x, 1);
    rig.eventually(|c| c.count == 2);
    rig.files.touch(Path::new("/srv/x/tmp/always_restart.txt"));
    let (weak, spawner, once) = (rig.pool.downgrade(), rig.spawner.clone(), AtomicBool::new(true));
    rig.spawner.on_call(move |call| {
        if call == Call::Connect && once.swap(false, Ordering::SeqCst) {
            let pool = weak.upgrade().expect("a handle is held");
            before_long(|| pool.counts().count == 2);
            spawner.processes().iter().find(|p| p.pid() == 3).expect("the new one").kill();
        }
    });
    // The other new process, or the one that refills the minimum.
    assert!(rig.get(&x).pid() > 3);
    assert_eq!(rig.group(&x).generation, 1);
}

/// In the pseudocode each woken waiter kills the group again, and no waiter is ever served.
#[test] // E24
fn waiters_do_not_restart_the_group_when_they_are_woken() {
    let rig = Rig::watching(|b| b.max(1));
    rig.idle(&app("x"), 1);
    rig.files.touch(Path::new("/srv/x/tmp/always_restart.txt"));
    rig.spawner.next(Spawn::ready().held());
    let waiting = [(); 3].map(|()| rig.queue_get(&app("x")));
    rig.spawner.release();
    let pids = waiting.map(|getting| getting.session().pid());
    assert_eq!(pids, [2, 2, 2]);
    assert_eq!(rig.spawner.reloaded(), ["/srv/x"]);
}

#[test] // E24
fn the_throttle_spares_the_file_system() {
    let rig = Rig::watching(|b| b.stat_throttle(SECOND));
    for _ in 0..5 {
        rig.idle(&app("x"), 1);
    }
    assert_eq!(rig.files.take_look_ups().len(), 2);
    rig.clock.advance(SECOND);
    rig.idle(&app("x"), 1);
    assert_eq!(rig.files.take_look_ups().len(), 2);
}

/// Every get waits while the new code boots: this is the immediate mode.
#[test] // E34
fn an_immediate_restart_replaces_everything_at_once() {
    let rig = Rig::watching(|b| b);
    rig.spawner.set_code("/srv/x", "old");
    rig.idle(&app("x"), 2);
    let busy = rig.get(&app("x"));
    rig.spawner.set_code("/srv/x", "new");
    rig.touch(&app("x"));
    rig.spawner.next(Spawn::ready().held());
    let getting = rig.queue_get(&app("x"));
    let mode = rig.event(|event| match event {
        Event::Restarting { mode, .. } => Some(*mode),
        _ => None,
    });
    assert_eq!(mode, RestartMode::Immediate);
    assert_eq!(rig.next_detached().1, DetachReason::Restarted);
    assert_eq!((rig.counts(), rig.pool.counts().draining), ((0, 0), 1));
    assert_eq!(busy.code(), "old");
    rig.spawner.release();
    assert_eq!(getting.session().code(), "new");
}

/// A spawn in flight may be loading the old code.
#[test] // E34
fn an_immediate_restart_gives_the_spawn_in_flight_up() {
    let rig = Rig::watching(|b| b);
    rig.spawner.next(Spawn::hang());
    let first = rig.queue_get(&app("x"));
    rig.await_spawns(1);
    rig.touch(&app("x"));
    rig.spawner.set_code("/srv/x", "new");
    let second = rig.start_get(&app("x"));
    assert_eq!(first.session().code(), "new");
    assert_eq!(second.session().code(), "new");
    assert_eq!(rig.pool.snapshot().totals.spawns_failed, 0, "given up is not failed");
}

#[test] // E34
fn a_restart_ends_a_back_off() {
    let rig = Rig::watching(|b| b);
    rig.spawner.next(Spawn::fail("syntax error"));
    assert!(rig.start_get(&app("x")).end().is_err());
    assert!(rig.start_get(&app("x")).end().is_err(), "it backs off");
    rig.touch(&app("x"));
    assert_eq!(rig.get(&app("x")).pid(), 1, "the code is another: no reason to wait");
}
