//! A restart meets the background spawn of its group and the close of a session (erratum E2).
//!
//! Guards that nothing is joined under the lock, and that a spawn whose group has gone on is disposed
//! of by whoever ran it (`wanted` in `State::spawn_has_ended`, erratum E12). As the text has it, this
//! deadlocks. Guards, too, that a restart gives up the spawn in flight (`give_up_spawn`): what began
//! before it may have loaded the old code, and would pass for new. Asserted: the get after the restart
//! is served, by new code, whether the spawn had ended (its process is detached) or not. Under loom foreign
//! calls do not re-enter the pool: with that, it is not through in a minute.

use crate::models::rig::*;
use crate::sync::Mutex;

#[test]
fn restart_x_spawn() {
    explore("restart_x_spawn", &["spawn attached", "spawn given up"], |outcomes| {
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
        // All are busy: this one is served at once, and begins a spawn.
        let second = rig.pool.get(&app("a")).expect("a session");
        assert_eq!(second.pid(), 1);
        // The deployment, ordered against the spawn's look at the code, which has just been made when
        // the spawner calls: what is no step for the tool is not interleaved.
        drop(deployment.lock());
        rig.spawner.set_code("/a", "new");
        file.touch();
        let third = rig.pool.get(&app("a")).expect("a session");
        assert_eq!(third.code(), "new", "old code after a restart");
        drop((first, second, third));
        // The first process was detached, and the second if it had been attached.
        let attached = rig.pool.snapshot().totals.detached == 2;
        outcomes.note(if attached { "spawn attached" } else { "spawn given up" });
    });
}
