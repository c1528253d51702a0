//! A restart meets the background spawn of its group and the close of a session (erratum E2).
//!
//! Guards that no thread is joined under the lock. Guards that the thread of a spawn disposes of its process if the
//! group no longer wants it (`wanted` in `State::spawn_has_ended`, erratum E12). The pseudocode deadlocks here.
//!
//! Guards too that a restart gives up the spawn in flight (`give_up_spawn`). A spawn that began earlier may have
//! loaded the old code and would pass for new. Asserted: new code serves the get after the restart, whether the spawn
//! had ended (its process is detached) or not. User code re-enters the pool only under shuttle: loom would need more
//! than a minute.

use crate::kernel::sync::Mutex;
use crate::models::rig::*;

#[test]
fn restart_x_spawn() {
    explore(Model("restart_x_spawn", 30_770), &["spawn attached", "spawn given up"], |outcomes| {
        let file = RestartFile::new();
        let rig = Rig::with_file(&file, |b| b.max(2));
        rig.spawner.always("/a", unlimited());
        let deployment = std::sync::Arc::new(Mutex::new(()));
        let seen = deployment.clone();
        rig.on_call(move |call| {
            if call == Call::Spawn {
                drop(seen.lock());
            }
        });
        let first = rig.session(&app("a"));
        // All processes are busy: the first one serves this get, too, and the get begins a spawn.
        let second = rig.pool.get(&app("a")).expect("a session");
        assert_eq!(second.pid(), 1);
        // The lock orders the deployment against the spawn's look at the code, made just before the spawner's call:
        // without a step, the tool would not interleave them.
        drop(deployment.lock());
        rig.spawner.set_code("/a", "new");
        file.touch();
        let third = rig.pool.get(&app("a")).expect("a session");
        assert_eq!(third.code(), "new", "old code after a restart");
        drop((first, second, third));
        // The first process was detached, and so was the second if it had been attached.
        let attached = rig.attached_and_detached() == 2;
        outcomes.note(if attached { "spawn attached" } else { "spawn given up" });
    });
}
