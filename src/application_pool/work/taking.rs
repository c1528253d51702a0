//! Takes a snapshot: it copies the state slice by slice, and makes the texts without the lock.

use super::inner::Inner;
use crate::application_pool::api::snapshot::{ProcessState, Snapshot};
use crate::application_pool::api::spawner::Spawner;
use crate::application_pool::state::copying::{Copied, Progress, SLICE};
use crate::kernel::user_code::{contain, drop_contained};
use std::sync::Arc;

impl<S: Spawner> Inner<S> {
    pub(crate) fn snapshot(self: &Arc<Self>) -> Snapshot {
        let mut copied = Copied::default();
        let (groups, processes) =
            self.state.look(|state| (state.groups.len(), state.processes.len()));
        let mut room = (groups.min(SLICE), processes.min(SLICE));
        loop {
            // Allocates without the lock.
            copied.groups.reserve(room.0);
            copied.processes.reserve(room.1);
            // Otherwise the next look would take the lock again before a get that waits for it has woken.
            match self.state.look_fairly(|state| state.copy(&mut copied, SLICE)) {
                Progress::Complete => return put_together(copied),
                Progress::Partial(groups, processes) => room = (groups, processes),
            }
        }
    }
}

fn put_together(copied: Copied) -> Snapshot {
    let Copied { snapshot, mut groups, mut processes, .. } = copied;
    let mut snapshot = snapshot.expect("the first section sets it");
    // Identifiers count upwards, so the oldest process has the lowest.
    processes.sort_by_key(|(group, p)| (*group, p.state == ProcessState::Draining, p.identifier));
    let mut processes = processes.into_iter().peekable();
    groups.sort_by_key(|raw| raw.key);
    for raw in groups {
        let mut group = raw.snapshot;
        group.name = raw.name.to_string();
        group.app_root = raw.options.app_root().to_owned();
        group.environment = raw.options.environment().to_owned();
        group.last_error = raw.last_error.map(|error| {
            let shown = contain(|| error.to_string()).unwrap_or_else(|panic| panic);
            // The pool may have dropped its own reference meanwhile.
            drop_contained(error);
            shown
        });
        while let Some((_, process)) = processes.next_if(|(key, _)| *key == raw.key) {
            group.processes.push(process);
        }
        snapshot.groups.push(group);
    }
    snapshot.groups.sort_by(|a, b| a.name.cmp(&b.name));
    // A group may have been forgotten, and made again at a later place.
    snapshot.groups.dedup_by(|a, b| a.name == b.name);
    snapshot
}
