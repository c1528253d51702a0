//! Foreign code closes the pool whose work its thread does (erratum E32).
//!
//! Whoever closes waits for the spawns in flight. On a thread that has one to end, or to begin, that would be to
//! wait for itself: so each says for which pool it works (`WorksFor`), and a close from there waits for nobody.
//! Asserted: all come back, and each process is shut down once.

use crate::models::rig::*;

/// While another thread closes it, too.
///
/// Guards that a spawner's thread works for its pool (`spawner_thread_callback`): without it, the spawn waits for its
/// own end.
#[test]
fn close_in_spawn_x_close() {
    explore("close_in_spawn_x_close", &["closed before", "open until then"], |outcomes| {
        let rig = Rig::new(|b| b.max(1));
        let outcomes = outcomes.clone();
        close_at(&rig, Call::Spawn, move |pool| {
            let closed = pool.snapshot().closed;
            outcomes.note(if closed { "closed before" } else { "open until then" });
        });
        assert!(rig.pool.try_get(&app("a")).is_err(), "the first get finds no process");
        rig.pool.close();
        assert_eq!(rig.end(), [1]);
    });
}

/// The process makes room for another group, whose spawn is in flight already, and begins after its end.
///
/// Guards that who carries out effects works for the pool (`Effects::run_all`): without it, the first of them waits for
/// the second. Asserted: the get for which the process makes room is told that the pool is closed.
#[test]
fn close_in_shut_down_x_spawn() {
    explore("close_in_shut_down_x_spawn", &["closed"], |outcomes| {
        let rig = Rig::new(|b| b.max(1));
        rig.idle(&app("a"));
        close_at(&rig, Call::ShutDown, |_| ());
        assert!(matches!(rig.pool.get(&app("b")), Err(crate::application_pool::GetError::Closed)));
        outcomes.note("closed");
        assert_eq!(rig.end(), [1, 2]);
    });
}

/// Closes the pool in the first call of this kind, of which `begin` is told.
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
