//! Disables processes and enables them again. The pseudocode has no such function.
//!
//! A disabled process keeps its sessions and its place in the pool, and is given no more sessions. It counts as active
//! (INV-DISABLED), so the pool neither evicts it nor shuts it down because it is idle. It does not count for its group's
//! minimum. A group all of whose processes are disabled is treated like one without processes: for its waiting gets,
//! processes of other groups make room. A restart or a `detach` ends a disabled process as any other.

use super::group::Edge;
use super::state::State;
use crate::application_pool::api::spawner::{Identifier, Spawner};

impl<S: Spawner> State<S> {
    /// Disables or enables the process with this identifier, if it is attached. Returns whether it is.
    pub(crate) fn set_enabled(&mut self, identifier: Identifier, enabled: bool) -> bool {
        let Some(&key) = self.by_identifier.get(&identifier) else { return false };
        if self.process(key).enabled == enabled {
            return true;
        }
        if self.marked == Some(key) {
            // `settle` marks another one. A disabled process makes no room (INV-MARKED).
            self.unmark();
        }
        let now = self.clock.now();
        let info = &mut self.processes[key];
        let (group_key, unused) = (info.group, info.sessions == 0);
        let group = self.groups.touch(group_key);
        group.processes.remove(&mut self.processes, key);
        self.processes[key].enabled = enabled;
        group.processes.insert(
            &mut self.processes,
            key,
            if unused { Edge::Front } else { Edge::Back },
        );
        if unused && enabled {
            group.idle += 1;
            // Its idle time begins now (INV-INACTIVE-ORDER).
            self.processes[key].last_used = now;
            self.becomes_idle(key);
            self.mutate_active(self.active - 1);
        } else if unused {
            group.idle -= 1;
            self.mutate_active(self.active + 1);
        }
        true
    }
}
