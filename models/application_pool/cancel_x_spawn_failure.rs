//! A future is dropped while the spawn that it waits for fails (errata E16, E26).
//!
//! Guards that giving up leaves the queue and its count in one section (`State::leave_queue`). Without
//! that, `waiting` is wrong for ever and the failed spawn tells a get that is no more. Asserted: nobody
//! waits in the end, and the next get is told at once, for the group backs off.

use crate::application_pool::GetError;
use crate::models::rig::*;

#[test]
fn cancel_x_spawn_failure() {
    explore_small("cancel_x_spawn_failure", &["gave up", "was told"], |outcomes| {
        let rig = Rig::new(|b| b.max(1)).reentrant().with_reentrant_observer();
        rig.spawner.always("/a", Spawn::fail("no database"));
        let app = app("a");
        let mut future = Box::pin(rig.pool.get_async(&app));
        let told = rig.door.poll_once(future.as_mut()).is_ready()
            || rig.door.poll_once(future.as_mut()).is_ready();
        drop(future);
        outcomes.note(if told { "was told" } else { "gave up" });
        assert!(matches!(rig.pool.get(&app), Err(GetError::Spawn(_))));
        let counts = rig.pool.counts();
        assert_eq!((counts.waiting, counts.spawning), (0, 0));
    });
}

/// A second failure in a row, beside a look at the pool.
///
/// Guards that `State::spawn_has_failed` buries the former error: to drop it is to call the spawner's code, which
/// must not be done under the lock. Without that the drop, which re-enters, is called there, and the model fails.
#[test]
fn second_failure_x_look() {
    explore("second_failure_x_look", &["one failure", "two failures"], |outcomes| {
        let rig = Rig::new(|b| b.max(1)).reentrant();
        rig.spawner.always("/a", Spawn::fail("no database"));
        let fails = || {
            let got = crate::sync::thread::inline(|| rig.pool.get(&app("a")).map(drop));
            assert!(matches!(got, Err(GetError::Spawn(_))));
        };
        fails();
        rig.clock.advance(DRAIN);
        let pool = rig.pool.clone();
        let look = spawn(move || pool.snapshot().totals.spawns_failed);
        fails();
        let failed = look.join().expect("no panic");
        outcomes.note(if failed == 1 { "one failure" } else { "two failures" });
    });
}

/// A success after a failure, beside a look at the pool.
///
/// Guards that `State::spawn_has_succeeded` buries the error that it forgets, for the same reason.
#[test]
fn success_after_failure_x_look() {
    explore("success_after_failure_x_look", &["forgotten", "shown"], |outcomes| {
        let rig = Rig::new(|b| b.max(1)).reentrant();
        rig.spawner.next(Spawn::fail("no database"));
        let got = crate::sync::thread::inline(|| rig.pool.get(&app("a")).map(drop));
        assert!(matches!(got, Err(GetError::Spawn(_))));
        // With the last of it but for the group's own.
        drop(got);
        rig.clock.advance(DRAIN);
        let pool = rig.pool.clone();
        let look =
            spawn(move || pool.snapshot().groups.first().is_some_and(|a| a.last_error.is_some()));
        rig.idle(&app("a"));
        let shown = look.join().expect("no panic");
        outcomes.note(if shown { "shown" } else { "forgotten" });
    });
}

/// A group is detached while its spawn fails.
///
/// Guards that `State::spawn_has_ended` buries the error of a spawn that was given up. Without that its drop, which
/// re-enters, is called under the lock, and the model fails.
#[test]
fn detach_group_x_spawn_failure() {
    explore("detach_group_x_spawn_failure", &["nobody waits"], |outcomes| {
        let rig = Rig::new(|b| b.max(1)).reentrant();
        rig.spawner.always("/a", Spawn::fail("no database"));
        let app = app("a");
        let mut future = Box::pin(rig.pool.get_async(&app));
        // Its spawn may fail at any time from now on, before the group is detached or after it.
        let _ = poll_once(future.as_mut());
        drop(future);
        rig.pool.detach_group("/a");
        assert_eq!(rig.pool.counts().waiting, 0);
        outcomes.note("nobody waits");
    });
}
