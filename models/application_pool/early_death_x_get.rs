//! A process fails soon after it was ready (erratum E26), while a get is served by it, or while it is attached.

use crate::application_pool::{DetachReason, Event, GetError, Identifier};
use crate::models::rig::*;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The first back-off of a pool.
const FIRST: Duration = Duration::from_secs(1);

/// Guards that an early death counts as a failed spawn (`State::died_early`), and that a session ends that
/// (`ProcessInfo::has_served`) for a process that has lived for the first back-off. Without the first, each get spawns
/// another process that dies. Asserted: a group that backs off spawns no process, and it backs off unless its process
/// has had a session.
#[test]
fn early_death_x_get() {
    explore(Model("early_death_x_get", 23), &["failed first", "had a session"], |outcomes| {
        let rig = Rig::new(|b| b.max(1));
        // The second failure in a row is the first one after which the group backs off.
        let id = unproved(&rig);
        assert!(crate::kernel::sync::thread::inline(|| rig.pool.process_has_failed(id)));
        let id = unproved(&rig);
        rig.clock.advance(FIRST);
        let pool = rig.pool.clone();
        let failure = spawn(move || assert!(pool.process_has_failed(id)));
        let served = match rig.pool.get(&app("a")) {
            Ok(session) => {
                drop(session);
                true
            }
            Err(GetError::Spawn(_)) => false,
            Err(error) => panic!("{error}"),
        };
        failure.join().expect("no panic");
        let snapshot = rig.pool.snapshot();
        let backs_off = snapshot.groups[0].backing_off.is_some();
        assert_eq!((snapshot.count, snapshot.spawning), (0, 0));
        assert_ne!(served, backs_off, "the group backs off if the process had no session");
        outcomes.note(if served { "had a session" } else { "failed first" });
    });
}

/// Guards that a session of a new process does not end the count of failures (`session_proves`). Without that, each of
/// many gets spawns another process that dies. Asserted: the group backs off, whether or not a session came first.
#[test]
fn early_session_x_failure() {
    explore(Model("early_session_x_failure", 23), &["failed first", "had a session"], |outcomes| {
        let rig = Rig::new(|b| b.max(1));
        let id = unproved(&rig);
        assert!(crate::kernel::sync::thread::inline(|| rig.pool.process_has_failed(id)));
        let id = unproved(&rig);
        let pool = rig.pool.clone();
        let failure = spawn(move || assert!(pool.process_has_failed(id)));
        let served = rig.pool.get(&app("a")).map(drop).is_ok();
        failure.join().expect("no panic");
        assert!(rig.pool.snapshot().groups[0].backing_off.is_some(), "it has failed early");
        outcomes.note(if served { "had a session" } else { "failed first" });
    });
}

/// Guards that a process has proved itself when it has lived for as long as the longest back-off (`is_unproved`).
/// Without that, a crash after days counts as a failed spawn. Asserted: the group backs off only after an early death.
#[test]
fn failure_x_long_life() {
    const LONGEST: Duration = Duration::from_secs(60);
    explore(
        Model("failure_x_long_life", 9),
        &["an early death", "it had proved itself"],
        |outcomes| {
            let rig = Rig::new(|b| b.max(1).back_off(LONGEST, LONGEST));
            let id = unproved(&rig);
            assert!(crate::kernel::sync::thread::inline(|| rig.pool.process_has_failed(id)));
            let id = unproved(&rig);
            let clock = rig.clock.clone();
            let life = spawn(move || clock.advance(LONGEST));
            assert!(rig.pool.process_has_failed(id));
            life.join().expect("no panic");
            let backs_off = rig.pool.snapshot().groups[0].backing_off.is_some();
            outcomes.note(if backs_off { "an early death" } else { "it had proved itself" });
        },
    );
}

/// Spawns a process that has served no session.
fn unproved(rig: &Rig) -> Identifier {
    let lease =
        crate::kernel::sync::thread::inline(|| rig.pool.checkout(&app("a"))).expect("a lease");
    let id = lease.identifier();
    lease.cancel();
    id
}

/// Guards that the report of a failure finds a process whose spawn has not ended (`State::in_flight`). Without that, a
/// dead process is attached. Guards too that the observer hears of the end after the beginning (`Begun::ends`).
/// Asserted: the process leaves because it has failed, or because it was given up, and after it was spawned.
#[test]
fn failure_x_attach() {
    let outcomes = ["attached, it failed", "in flight, it failed", "in flight, no longer wanted"];
    explore(Model("failure_x_attach", 73), &outcomes, |outcomes| {
        let reasons: Arc<Mutex<Vec<Option<DetachReason>>>> = Arc::default();
        let theirs = reasons.clone();
        let (spawned, step) = (AtomicBool::new(false), crate::kernel::sync::Mutex::new(()));
        let rig = Rig::new(|b| {
            b.max(1).observer(move |event| match event {
                Event::Spawned { .. } => {
                    // Other threads may go on within the call, and call the observer.
                    drop(step.lock());
                    spawned.store(true, Relaxed);
                }
                Event::Detached { reason, .. } => {
                    drop(step.lock());
                    // A panic of the observer is contained.
                    let ends = if spawned.load(Relaxed) { Some(*reason) } else { None };
                    theirs.lock().unwrap_or_else(PoisonError::into_inner).push(ends);
                }
                _ => {}
            })
        });
        assert!(rig.pool.try_get(&app("a")).is_err(), "the first get finds no process");
        assert!(rig.pool.process_has_failed(Identifier::from_u64(1)));
        rig.pool.close();
        let attached = rig.attached_and_detached() == 1;
        assert!(rig.pool.wait_closed(DRAIN));
        let reasons = reasons.lock().unwrap_or_else(PoisonError::into_inner);
        let reason = match reasons[..] {
            [Some(reason)] => reason,
            [None] => panic!("the end is reported before the beginning"),
            // The spawner's thread reports the end after the beginning, and may not have done so yet.
            [] if attached => DetachReason::Failed,
            _ => panic!("not one end: {reasons:?}"),
        };
        outcomes.note(format!("{}, {reason}", if attached { "attached" } else { "in flight" }));
    });
}
