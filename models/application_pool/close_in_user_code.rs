//! User code closes the pool that its thread works for (erratum E32).
//!
//! A close waits for the spawns in flight. On a thread that must end or begin one of them, the close would wait for
//! itself. Such a thread therefore is marked as at work for the pool (`AtWork`), and its close does not wait.
//! Asserted: every call returns, and each process is shut down once.

use crate::models::rig::*;

/// Another thread closes the pool, too.
///
/// Guards that a spawner's thread works for its pool (`spawner_thread_callback`). Without it, the spawn waits for its
/// own end.
#[test]
fn close_in_spawn_x_close() {
    explore(
        Model("close_in_spawn_x_close", 105),
        &["closed before", "open until then"],
        |outcomes| {
            let rig = Rig::new(|b| b.max(1));
            let outcomes = outcomes.clone();
            close_at(&rig, Call::Spawn, move |pool| {
                let closed = pool.snapshot().closed;
                outcomes.note(if closed { "closed before" } else { "open until then" });
            });
            assert!(rig.pool.try_get(&app("a")).is_err(), "the first get finds no process");
            rig.pool.close();
            assert_eq!(rig.end(), [1]);
        },
    );
}

/// A shut-down frees capacity for another group, whose spawn begins before the shut-down is called.
///
/// Guards that a thread works for the pool while it runs effects (`Effects::run`). Without it, the shut-down waits for
/// its own end. The get that needs the room is served before the close, or fails because the pool is closed.
#[test]
fn close_in_shut_down_x_spawn() {
    explore(Model("close_in_shut_down_x_spawn", 367), &["closed", "served"], |outcomes| {
        let rig = Rig::new(|b| b.max(1));
        rig.idle(&app("a"));
        close_at(&rig, Call::ShutDown, |pool| {
            pool.close();
            assert!(!pool.wait_closed(DRAIN), "this shut-down has not ended");
        });
        outcomes.note(match rig.pool.get(&app("b")) {
            Err(error) => {
                assert!(matches!(error, crate::application_pool::GetError::Closed));
                "closed"
            }
            Ok(_) => "served",
        });
        assert_eq!(rig.end(), [1, 2]);
    });
}

/// Calls `begin` and closes the pool in the first call of this kind.
fn close_at(rig: &Rig, wanted: Call, begin: impl Fn(&Pool) + Send + Sync + 'static) {
    let weak = rig.pool.downgrade();
    let first = std::sync::Once::new();
    rig.on_call(move |call| {
        if call == wanted
            && !first.is_completed()
            && let Some(pool) = weak.upgrade()
        {
            first.call_once(|| ());
            begin(&pool);
            pool.close();
        }
    });
}
