//! A rolling restart replaces a process while a session of it is closed (erratum E34).
//!
//! Guards `Want::Replacement` and its order in `State::attach_if_room`: the new process is attached, then the
//! oldest outdated one detached, in one section (PROP-ROLLING). Without the first, the old code serves
//! for ever; in another order the group is without a process meanwhile. Asserted: it is told of in this
//! order; the get during the restart is served, by whichever code; the old process is shut
//! down once its session is closed; and then the new code serves. Under loom foreign calls do not re-enter the
//! pool: with that, it is not through in a minute.

use crate::application_pool::{Event, RestartMode};
use crate::models::rig::*;
use std::sync::{Arc, Mutex};

#[test]
fn rolling_restart_x_close() {
    explore("rolling_restart_x_close", &["by the new", "by the old"], |outcomes| {
        let file = RestartFile::new();
        // Seen by no scheduler: of interest is the order within one section.
        let told = Arc::new(Mutex::new(Vec::new()));
        let tells = told.clone();
        let observe = move |event: &Event| match event {
            Event::Spawned { pid: Some(pid), .. } => {
                tells.lock().expect("whole").push(("comes", *pid))
            }
            Event::Detached { pid: Some(pid), .. } => {
                tells.lock().expect("whole").push(("goes", *pid))
            }
            _ => {}
        };
        let rig = Rig::with_file(&file, |b| b.max(1).observer(observe));
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
        // The last may not have been told yet, by a thread that is held up.
        let told = told.lock().expect("whole").clone();
        let in_order = [("comes", 1), ("comes", 2), ("goes", 1)];
        assert!(in_order.starts_with(&told), "without a process meanwhile: {told:?}");
        assert_eq!(rig.end(), [1, 2]);
    });
}
