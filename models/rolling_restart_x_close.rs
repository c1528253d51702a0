//! A rolling restart replaces a process while a session of it is closed (erratum E34).
//!
//! Guards `Want::Replacement` and its order in `State::welcome`: the new process is attached, then the
//! oldest outdated one detached, in one section (PROP-ROLLING). Without the first, the old code serves
//! for ever. Asserted: the get during the restart is served, by whichever code; the old process is shut
//! down once its session is closed; and then the new code serves. Foreign calls ring a bell and do not
//! re-enter the pool: with that, loom is not through after a minute.

use super::rig::*;
use crate::RestartMode;

#[test]
fn rolling_restart_x_close() {
    explore("rolling_restart_x_close", &["by the new", "by the old"], |outcomes| {
        let file = RestartFile::new();
        let rig = Rig::new(|b| b.max(1).restart_files(file.look_up()));
        let gone = rig.bell(Call::ShutDown);
        rig.spawner.always("/a", unlimited());
        let rolling = app("a").with_restart_mode(RestartMode::Rolling);
        let session = rig.session(&rolling);
        file.touch();
        rig.spawner.set_code("/a", "new");
        let during = rig.pool.get(&rolling).expect("served during a restart");
        assert_eq!(during.code(), "", "the old code, until the new is ready");
        drop((session, during));
        let next = rig.pool.get(&rolling).expect("served during a restart");
        outcomes.note(if next.code() == "new" { "by the new" } else { "by the old" });
        drop(next);
        gone.wait(1);
        let after = rig.pool.try_get(&rolling).expect("there is a process");
        assert_eq!(after.code(), "new");
        drop(after);
        assert_eq!(rig.end(), [1, 2]);
    });
}
