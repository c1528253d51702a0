//! The pseudocode's `needs_restart`, and the restart itself.
//!
//! A restart file is a number that changes when the file is touched, or `None`. As ruled each group
//! remembers the file it last saw, so two groups that share a directory both see a change (E22). The
//! first look is the baseline (E23). A restart is pending until a process with the new code is attached.
//!
//! Errata: E22, E23, E24, E34 (one by one, or all at once). Invariants: INV-OUTDATED. Properties:
//! PROP-RESTART-SEEN, PROP-RESTART-CAUSE, PROP-RESTART-ONCE, PROP-ROLLING.

use crate::application_pool::configuration::{ClientId, Dir, GroupId, RestartMode};
use crate::application_pool::pool::{Event, Pool, Reason};
use crate::application_pool::rules::Erratum::*;

impl Pool {
    /// Compares the file that a get saw with the one seen before, and remembers it.
    pub(crate) fn needs_restart(&mut self, client: ClientId) -> bool {
        let group = self.clients[client].group;
        let (dir, always) = (self.options(group).restart_dir, self.options(group).always_restart);
        if self.written(E24) {
            self.clients[client].look = self.files[dir];
        }
        let now = self.clients[client].look;
        let seen = self.groups[group].seen[dir].replace(now);
        let seen_by_anybody = self.files_seen[dir].replace(now);
        let before = if self.written(E22) { seen_by_anybody } else { seen };
        let changed = match before {
            None => self.written(E23) && now.is_some(),
            Some(before) => now != before && (now.is_some() || self.written(E23)),
        };
        // `always_restart.txt` does not restart a group whose restart is under way.
        let g = &self.groups[group];
        let always = always && !g.reload_pending && g.outdated == 0;
        changed || always && (g.size > 0 || g.spawning.is_some())
    }

    /// Restarts the group as a new restart file would, if it is known and not detached by name.
    pub(crate) fn restart_group(&mut self, group: GroupId, mode: RestartMode) {
        let g = &self.groups[group];
        if g.known && !g.forgotten && !self.closed {
            self.restart(group, mode);
        }
    }

    /// Replaces the group's processes by processes with the new code.
    pub(crate) fn restart(&mut self, group: GroupId, mode: RestartMode) {
        self.end_back_off(group);
        let g = &mut self.groups[group];
        g.failures = 0;
        g.generation += 1;
        g.outdated = g.processes.len();
        g.reload_pending = true;
        self.report(Event::Restarting { group });
        match mode {
            RestartMode::Rolling if !self.written(E34) => self.give_up_spawn(group),
            _ => self.detach_group_without_lock(group, Reason::Restarted),
        }
        self.changed(group);
    }

    pub(crate) fn touch(&mut self, dir: Dir) {
        let seen = self.groups.iter().flat_map(|g| &g.seen).filter_map(|seen| seen.flatten());
        let looks = self.clients.iter().filter_map(|client| client.look);
        let all_seen = self.files_seen.iter().filter_map(|seen| seen.flatten());
        let files = self.files.iter().flatten().copied();
        let last = seen.chain(looks).chain(all_seen).chain(files).max();
        self.files[dir] = Some(last.map_or(0, |last| last + 1));
    }

    pub(crate) fn delete(&mut self, dir: Dir) {
        self.files[dir] = None;
    }
}
