//! The invariants of the application pool.
//!
//! The pseudocode's own invariants come first, corrected where E8 says so; then those that the rulings
//! add. [`INVARIANTS`] is the only home of the names and sentences. The real code asserts the same list
//! in `src/application_pool/state/invariants.rs`, and `tests/names.rs` compares the two.

use crate::application_pool::configuration::{Config, GroupId, ProcessId};
use crate::application_pool::pool::{At, Group, Lock, Pool, Process, Want};
use crate::application_pool::rules::Erratum::*;
use crate::checking::promises::invariants;

invariants! {
    Config:
    "INV-GROUP-NAME" "every process in a group's list records that group as its own"
        |_, s| all_groups(s, |id, g| g.processes.iter().all(|&p| s.process(p).group == id));
    "INV-GROUP-ORDER" "in a group's list, idle processes come before busy ones"
        |_, s| all_groups(s, |_, g| infos(s, &g.processes).map(|p| !p.is_idle()).is_sorted());
    "INV-GROUP-SORTED" "a group's list has processes with room first, by sessions, the marked one last among them; then full ones, by sessions"
        |_, s| all_groups(s, |_, g| infos(s, &g.processes).map(|p| s.place(p)).is_sorted());
    "INV-GROUP-SIZE" "size and idle are the numbers of a group's processes and idle processes"
        |_, s| all_groups(s, |_, g| g.size == g.processes.len()
            && g.idle == infos(s, &g.processes).filter(|p| p.is_idle()).count());
    "INV-GROUP-ACCESSIBLE" "every group is found under its name, and only there"
        |_, s| all_groups(s, |_, g| g.known != g.detached && (g.known || g.processes.is_empty()));
    "INV-PROCESS-IDLE" "a process is in inactive_apps exactly if it has no session, is enabled and not detached"
        |_, s| s.processes.iter().all(|p|
            (p.is_idle() && !p.detached) == s.inactive_apps.contains(&p.identifier));
    "INV-PROCESS-ACCESSIBLE" "a process is in its group's list exactly if it is not detached"
        |_, s| s.processes.iter().all(|p|
            p.detached != s.groups.iter().any(|g| g.processes.contains(&p.identifier)));
    "INV-PROCESS-HERE" "no process in the pool's data is marked as gone"
        |_, s| s.groups.iter().flat_map(|g| &g.processes)
            .chain(&s.inactive_apps).chain(&s.draining).chain(&s.marked)
            .copied().chain(s.clients.iter().filter_map(|client| client.at.process()))
            .all(|p| s.find(p).is_some());
    "INV-SIZE-WITHIN-COUNT" "no group's size exceeds count"
        |_, s| all_groups(s, |_, g| g.size <= s.count);
    "INV-COUNT" "count is the sum of the groups' sizes"
        |_, s| s.groups.iter().map(|g| g.size).sum::<usize>() == s.count;
    "INV-ACTIVE" "active is the number of attached processes that have sessions or are disabled, and at most count"
        |_, s| s.active <= s.count as isize
            && s.processes.iter().filter(|p| !p.is_idle() && !p.detached).count() as isize == s.active;
    "INV-INACTIVE-SIZE" "inactive_apps holds count - active processes"
        |_, s| s.inactive_apps.len() as isize == s.count as isize - s.active;
    "INV-INACTIVE-IDLE" "every process in inactive_apps is attached and has no session"
        |_, s| infos(s, &s.inactive_apps).all(|p|
            p.sessions == 0 && !p.detached && s.groups[p.group].processes.contains(&p.identifier));
    "INV-INACTIVE-ORDER" "inactive_apps is ordered by last_used"
        |_, s| infos(s, &s.inactive_apps).map(|p| p.last_used).is_sorted();
    "INV-CAPACITY" "count + reserved <= max, unless max was lowered (E3)"
        |_, s| s.count + s.reserved <= s.max.max(s.ceiling);
    "INV-LIVE" "at most max + max_draining processes and spawns are alive, unless max was lowered (E25)"
        |_, s| s.live() <= s.live_limit().max(s.live_ceiling);
    "INV-RESERVED" "each spawn in flight holds one reservation, each reservation belongs to one spawn, and its group is known (E3, E11)"
        |_, s| s.spawns.iter().filter(|spawn| !spawn.replaces).count() == s.reserved
            && s.spawns.iter().filter(|spawn| spawn.replaces).count() == s.replacing
            && s.spawns.iter().all(|spawn| s.groups[spawn.group].known);
    "INV-SPAWNING" "a group that is spawning has a spawn in flight"
        |_, s| all_groups(s, |id, g| g.spawning.is_none_or(|ticket|
            s.spawns.iter().any(|spawn| spawn.ticket == ticket && spawn.group == id)));
    "INV-DRAINING" "a draining process is detached, has sessions, and is counted by its group, which is known (E13)"
        |_, s| infos(s, &s.draining).all(|p|
                p.detached && p.sessions > 0 && s.groups[p.group].known)
            && s.processes.iter().filter(|p| p.detached).count() == s.draining.len();
    "INV-CONCURRENCY" "no process has more sessions than its concurrency allows"
        |_, s| s.processes.iter().all(|p| {
            let takes = s.options_of(p).concurrency;
            takes == 0 || p.sessions <= takes
        });
    "INV-MAX-REQUESTS" "no process is given more sessions than max_requests (E14)"
        |_, s| s.processes.iter().all(|p| {
            let given = s.options_of(p).max_requests;
            given == 0 || p.processed + p.sessions <= given
        });
    "INV-IDENTIFIER" "an identifier finds its process exactly while the process is attached"
        // A spawn in flight has an identifier, and is no process yet.
        |_, s| s.processes.iter().all(|p| s.attached(p.identifier).is_some_and(|found| std::ptr::eq(found, p))
                == s.groups.iter().any(|g| g.processes.contains(&p.identifier)))
            && s.spawns.iter().all(|spawn| s.attached(spawn.ticket).is_none())
            && identifiers(s).all(|id| identifiers(s).filter(|&other| other == id).count() == 1
                && id <= s.last_identifier);
    "INV-WAITING" "waiting is the number of gets in the groups' queues (E16)"
        |_, s| s.groups.iter().map(|g| g.queue.len()).sum::<usize>() == s.waiting
            && s.clients.iter().enumerate().all(|(id, client)| !matches!(client.at, At::Waiting(_))
                || s.groups[client.group].queue.contains(&id));
    "INV-EXACT-WAKE-UP" "no get waits while its group has a process with room (E17, E21)"
        |_, s| (0..s.groups.len()).all(|g| s.groups[g].queue.is_empty() || s.select_process(g).is_none());
    "INV-WAIT-HAS-CAUSE" "the group of a waiting get has a process, a spawn in flight or a place in line (E21)"
        |_, s| all_groups(s, |_, g| g.queue.is_empty() || g.enabled() > 0 || g.spawning.is_some()
            || g.want == Want::First || g.disabled > 0 && g.want != Want::Nothing);
    "INV-MARKED" "at most one process is marked for eviction, an attached and busy one, while a group wants its first process; in a full pool one is (E18, E37)"
        |_, s| infos(s, &s.marked).all(|p| p.marked && p.sessions > 0 && !p.detached)
            && s.processes.iter().filter(|p| p.marked).count() == s.marked.len()
            && s.marked.len() <= s.first.len().min(if s.written(E37) { s.first.len() } else { 1 })
            && (s.first.is_empty() || s.by_surplus.is_empty() || s.count + s.reserved < s.max || !s.marked.is_empty()
                || s.written(E18) || s.lock != Lock::Free);
    "INV-TOTALS" "the processes spawned, without those detached, are those in the pool: spawned - detached = count"
        |_, s| s.totals.spawned == s.totals.detached + s.count as u64;
    "INV-BACK-OFF" "a group that backs off has an error, and has no waiting get unless it has a process or a spawn in flight (E27)"
        |_, s| (0..s.groups.len()).all(|id| {
            let g = &s.groups[id];
            g.back_off_until.is_some() == s.backing_off.contains(&id)
                && (g.back_off_until.is_none() || g.last_error && (g.queue.is_empty() || !g.is_out_of_order()))
        });
    "INV-OUTDATED" "outdated is the number of a group's processes of older generations (E34)"
        |_, s| all_groups(s, |_, g|
            infos(s, &g.processes).filter(|p| p.generation < g.generation).count() == g.outdated);
    "INV-EVICTABLE" "the idle processes that no minimum protects are found by the numbers of their group (E29)"
        |_, s| all_groups(s, |id, g| g.evictable(s.options(id).min_processes) == unprotected(s, id));
    "INV-WANT" "every group stands in the line that its state asks for"
        |_, s| (0..s.groups.len()).all(|id| {
            let (want, right) = (s.groups[id].want, s.wants(id));
            // A lowered max_per_app is noticed when the group's turn comes.
            let notices = matches!(want, Want::First | Want::More | Want::Minimum);
            (want == right || notices && right == Want::Capped)
                && [(&s.first, Want::First), (&s.more, Want::More), (&s.minimum, Want::Minimum),
                    (&s.replacements, Want::Replacement), (&s.capped, Want::Capped)]
                    .iter().all(|(line, of)| line.contains(&id) == (want == *of))
        });
    "INV-LAST-SERVED" "the groups whose gets wait for one more process stand in the order in which they were last served (E37)"
        |_, s| s.more.iter().map(|&group| s.groups[group].room_due).is_sorted();
    "INV-DISABLED" "a disabled process comes last in its group's list, and counts as active"
        |_, s| all_groups(s, |_, g| infos(s, &g.processes).map(|p| p.disabled).is_sorted()
            && g.disabled == infos(s, &g.processes).filter(|p| p.disabled).count());
    "INV-CLOSED" "a closed pool has no process and no waiting get, and no group stands in a line (E32)"
        |_, s| !s.closed || s.count == 0 && s.waiting == 0
            && [&s.first, &s.more, &s.minimum, &s.replacements, &s.capped].iter().all(|line| line.is_empty());
}

fn all_groups(s: &Pool, holds: impl Fn(GroupId, &Group) -> bool) -> bool {
    s.groups.iter().enumerate().all(|(id, group)| holds(id, group))
}
fn infos<'a>(s: &'a Pool, ids: &'a [ProcessId]) -> impl Iterator<Item = &'a Process> {
    ids.iter().map(|&id| s.process(id))
}
fn identifiers(s: &Pool) -> impl Iterator<Item = ProcessId> + '_ {
    let processes = s.processes.iter().map(|process| process.identifier);
    processes.chain(s.spawns.iter().map(|spawn| spawn.ticket))
}

impl Group {
    /// Returns how many idle processes no minimum protects, by arithmetic.
    pub fn evictable(&self, min_processes: usize) -> usize {
        self.idle.min(self.enabled().saturating_sub(min_processes))
    }
}

/// Returns the same number by taking idle processes one by one while the group is above its minimum.
fn unprotected(s: &Pool, group: GroupId) -> usize {
    let mut size = infos(s, &s.groups[group].processes).filter(|p| !p.disabled).count();
    let of_group = |p: &&ProcessId| s.process(**p).group == group;
    let take = |_: &&ProcessId| {
        let above = size > s.options(group).min_processes;
        size -= usize::from(above);
        above
    };
    s.inactive_apps.iter().filter(of_group).filter(take).count()
}
