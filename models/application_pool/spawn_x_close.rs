//! The pool is closed while a process is spawned (errata E2, E32).
//!
//! Guards that `State::close` gives up the spawns in flight, that `close` waits for them without the lock, and that
//! their late processes are disposed of. Without the first, a spawn that ends only when cancelled blocks `close` for
//! ever. It also guards that a section does not notify the callers of `close` of an end that one of its own effects, the
//! shut-down of a late process, has yet to bring. Asserted: when `close` returns, the process has been shut down once.

use crate::models::rig::*;

#[test]
fn spawn_x_close() {
    explore(Model("spawn_x_close", 236), &["given up", "spawned before"], |outcomes| {
        let rig = Rig::new(|b| b.max(1)).reentrant().with_reentrant_observer();
        assert!(rig.pool.try_get(&app("a")).is_err(), "the first get finds no process");
        rig.pool.close();
        let counts = rig.pool.counts();
        assert_eq!((counts.spawning, counts.count), (0, 0), "close waits for the spawn");
        let before = rig.attached_and_detached() == 1;
        outcomes.note(if before { "spawned before" } else { "given up" });
        assert_eq!(rig.end(), [1]);
    });
}

/// A newcomer belongs to its spawn until its `shut_down` has returned.
#[test]
fn late_process_x_close() {
    explore(Model("late_process_x_close", 106), &["given up", "spawned before"], |outcomes| {
        let rig = Rig::new(|b| b.max(1)).with_reentrant_observer();
        // Counts at the end of `shut_down`, long after the pool's book-keeping.
        let ended = rig.counter_of(Call::ShutDown);
        assert!(rig.pool.try_get(&app("a")).is_err(), "the first get finds no process");
        rig.pool.close();
        assert_eq!(ended.count(), 1, "the process is still being shut down");
        let before = rig.attached_and_detached() == 1;
        outcomes.note(if before { "spawned before" } else { "given up" });
        assert_eq!(rig.end(), [1]);
    });
}

/// The spawn never ends by itself.
#[test]
fn hanging_spawn_x_close() {
    explore(Model("hanging_spawn_x_close", 50_382), &["came late", "waited"], |outcomes| {
        let rig = Rig::new(|b| b.max(1)).reentrant();
        rig.spawner.always("/a", Spawn::hang());
        let waiting = rig.pool.clone();
        let getter = spawn(move || waiting.get(&app("a")).map(drop));
        rig.pool.close();
        assert!(matches!(getter.join(), Ok(Err(crate::application_pool::GetError::Closed))));
        let waited = rig.pool.snapshot().totals.waited == 1;
        outcomes.note(if waited { "waited" } else { "came late" });
        assert!(rig.end().is_empty(), "the spawn never ends well");
    });
}
