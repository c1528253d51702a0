//! A rolling restart replaces a process while a session of it is closed (erratum E34).
//!
//! Guards `Want::Replacement` and the order in `State::attach_if_room`: one section attaches the new process, then
//! detaches the oldest outdated one (PROP-ROLLING). Without the first, the old code serves for ever; in another order
//! the group has no process meanwhile.
//!
//! Asserted: the events come in this order. The old or the new code serves the get during the restart. The old
//! process is shut down after its session closes, and then the new code serves. User code re-enters the pool only
//! under shuttle: loom would need more than a minute.

use crate::application_pool::{Event, RestartMode};
use crate::models::rig::*;
use std::sync::{Arc, Mutex};

#[test]
fn rolling_restart_x_close() {
    explore(Model("rolling_restart_x_close", 3_220), &["by the new", "by the old"], |outcomes| {
        let file = RestartFile::new();
        // The scheduler does not see this list: only the order within one section matters.
        let events = Arc::new(Mutex::new(Vec::new()));
        let reported = events.clone();
        let observe = move |event: &Event| match event {
            Event::Spawned { pid: Some(pid), .. } => {
                reported.lock().expect("the lock is not poisoned").push(("attached", *pid))
            }
            Event::Detached { pid: Some(pid), .. } => {
                reported.lock().expect("the lock is not poisoned").push(("detached", *pid))
            }
            _ => {}
        };
        let rig = Rig::with_file(&file, |b| b.max(1).observer(observe));
        let gone = rig.counter_of(Call::ShutDown);
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
        // A delayed thread may not have reported the last event yet.
        let events = events.lock().expect("the lock is not poisoned").clone();
        let in_order = [("attached", 1), ("attached", 2), ("detached", 1)];
        assert!(in_order.starts_with(&events), "without a process meanwhile: {events:?}");
        assert_eq!(rig.end(), [1, 2]);
    });
}
