//! A future is dropped while the spawn that it waits for fails (errata E16, E26).
//!
//! Guards `State::leave_queue`: giving up leaves the queue and lowers its count in one section. Without that,
//! `waiting` stays wrong, and the failed spawn reports to a get that is gone. Asserted: no get waits in the end, and
//! the next get fails at once because the group backs off.

use crate::application_pool::GetError;
use crate::models::rig::*;
use std::time::Duration;

#[test]
fn cancel_x_spawn_failure() {
    explore_small(
        Model("cancel_x_spawn_failure", 821),
        &["gave up", "got the error"],
        |outcomes| {
            let rig = Rig::new(|b| b.max(1)).reentrant().with_reentrant_observer();
            rig.spawner.always("/a", Spawn::fail("no database"));
            let app = app("a");
            let mut future = Box::pin(rig.pool.get_async(&app));
            let failed = rig.reentry.poll_once(future.as_mut()).is_ready()
                || rig.reentry.poll_once(future.as_mut()).is_ready();
            drop(future);
            outcomes.note(if failed { "got the error" } else { "gave up" });
            assert!(matches!(rig.pool.get(&app), Err(GetError::Spawn(_))));
            let counts = rig.pool.counts();
            assert_eq!((counts.waiting, counts.spawning), (0, 0));
        },
    );
}

/// A second failure in a row, beside a look at the pool.
///
/// Guards that `State::spawn_has_failed` defers the drop of the former error, which is user code. Without that, the
/// drop re-enters the pool under the lock and the model fails.
#[test]
fn second_failure_x_look() {
    explore(Model("second_failure_x_look", 91), &["one failure", "two failures"], |outcomes| {
        let ms = Duration::from_millis;
        let rig = Rig::new(|b| b.max(1).back_off(Duration::ZERO, ms(15))).reentrant();
        rig.spawner.always("/a", Spawn::fail("no database"));
        let backs_off_for = |length| {
            let backing_off = rig.pool.snapshot().groups[0].backing_off;
            assert_eq!(backing_off.map(|left| left.as_millis()), Some(length));
        };
        let fails = || {
            let got = crate::kernel::sync::thread::inline(|| rig.pool.get(&app("a")).map(drop));
            assert!(matches!(got, Err(GetError::Spawn(_))));
        };
        fails();
        backs_off_for(10);
        rig.clock.advance(DRAIN);
        let pool = rig.pool.clone();
        let look = spawn(move || pool.snapshot().totals.spawns_failed);
        fails();
        let failed = look.join().expect("no panic");
        backs_off_for(15);
        outcomes.note(if failed == 1 { "one failure" } else { "two failures" });
    });
}

/// A success after a failure, beside a look at the pool.
///
/// Guards that `State::spawn_has_succeeded` defers the drop of the error that it forgets, for the same reason.
#[test]
fn success_after_failure_x_look() {
    explore(Model("success_after_failure_x_look", 435), &["forgotten", "shown"], |outcomes| {
        let rig = Rig::new(|b| b.max(1)).reentrant();
        rig.spawner.next(Spawn::fail("no database"));
        let got = crate::kernel::sync::thread::inline(|| rig.pool.get(&app("a")).map(drop));
        assert!(matches!(got, Err(GetError::Spawn(_))));
        // From here on only the group refers to the error.
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
/// Guards that `State::spawn_has_ended` defers the drop of the error of a spawn that was given up. Without that, the
/// drop re-enters the pool under the lock and the model fails.
#[test]
fn detach_group_x_spawn_failure() {
    explore(
        Model("detach_group_x_spawn_failure", 273),
        &["failed before", "given up"],
        |outcomes| {
            let rig = Rig::new(|b| b.max(1)).reentrant();
            rig.spawner.always("/a", Spawn::fail("no database"));
            let app = app("a");
            let mut future = Box::pin(rig.pool.get_async(&app));
            // From here on the spawn may fail at any time, before the group is detached or after it.
            let _ = poll_once(future.as_mut());
            drop(future);
            rig.pool.detach_group("/a");
            let (waiting, failed) =
                rig.pool.inner().critical(|state, _| (state.waiting, state.totals.spawns_failed));
            assert_eq!(waiting, 0);
            outcomes.note(if failed == 1 { "failed before" } else { "given up" });
        },
    );
}
