//! Every invariant of the pool, by name: the pseudocode's (corrected by erratum E8), then the added ones.
//!
//! All are asserted at the end of every critical section in builds with debug assertions, so in every test
//! and every model. They look at the whole pool; no other code under the lock may.

use super::group::{Group, Want};
use super::process_info::Place;
use super::standing::Standing;
use super::state::State;
use super::table_keys::{GroupKey, ProcessKey};
use crate::application_pool::api::spawner::Spawner;
use crate::kernel::collections::list::List;
use crate::kernel::section::{Invariant, invariants};
use std::collections::HashSet;

impl<S: Spawner> State<S> {
    /// In the order of the pseudocode, then in that of the errata.
    pub(crate) const INVARIANTS: &'static [Invariant<Self>] = invariants! {
        "INV-GROUP-NAME" "every process in a group's list records that group as its own" group_name (each);
        "INV-GROUP-ORDER" "in a group's list, idle processes come before busy ones" group_order (each);
        "INV-GROUP-SORTED" "a group's list has processes with room first, by sessions, the marked one last among them; then full ones, by sessions" group_sorted (each);
        "INV-GROUP-SIZE" "size and idle are the numbers of a group's processes and idle processes" group_size (each);
        "INV-GROUP-ACCESSIBLE" "every group is found under its name, and only there" group_accessible;
        "INV-PROCESS-IDLE" "a process is in inactive_apps exactly if it has no session, is enabled and not detached" process_idle;
        "INV-PROCESS-ACCESSIBLE" "a process is in its group's list exactly if it is not detached" process_accessible;
        "INV-PROCESS-HERE" "no process in the pool's data is marked as gone" process_here;
        "INV-SIZE-WITHIN-COUNT" "no group's size exceeds count" size_within_count (each);
        "INV-COUNT" "count is the sum of the groups' sizes" count;
        "INV-ACTIVE" "active is the number of attached processes that have sessions or are disabled, and at most count" active;
        "INV-INACTIVE-SIZE" "inactive_apps holds count - active processes" inactive_size;
        "INV-INACTIVE-IDLE" "every process in inactive_apps is attached and has no session" inactive_idle;
        "INV-INACTIVE-ORDER" "inactive_apps is ordered by last_used" inactive_order;
        "INV-CAPACITY" "count + reserved <= max, unless max was lowered (E3)" capacity;
        "INV-LIVE" "at most max + max_draining processes and spawns are alive, unless max was lowered (E25)" live;
        "INV-RESERVED" "each spawn in flight holds one reservation, each reservation belongs to one spawn, and its group is known (E3, E11)" reserved;
        "INV-SPAWNING" "a group that is spawning has a spawn in flight" spawning (each);
        "INV-DRAINING" "a draining process is detached, has sessions, and is counted by its group, which is known (E13)" draining;
        "INV-CONCURRENCY" "no process has more sessions than its concurrency allows" concurrency;
        "INV-MAX-REQUESTS" "no process is given more sessions than max_requests (E14)" max_requests;
        "INV-IDENTIFIER" "an identifier finds its process exactly while the process is attached" identifier;
        "INV-WAITING" "waiting is the number of gets in the groups' queues (E16)" waiting;
        "INV-EXACT-WAKE-UP" "no get waits while its group has a process with room (E17, E21)" exact_wake_up (each);
        "INV-WAIT-HAS-CAUSE" "the group of a waiting get has a process, a spawn in flight or a place in line (E21)" wait_has_cause (each);
        "INV-MARKED" "at most one process is marked for eviction, an attached and busy one, while a group wants its first process; in a full pool one is (E18, E37)" marked;
        "INV-TOTALS" "the processes spawned, without those detached, are those in the pool: spawned - detached = count" totals;
        "INV-BACK-OFF" "a group that backs off has an error, and has no waiting get unless it has a process or a spawn in flight (E27)" back_off;
        "INV-OUTDATED" "outdated is the number of a group's processes of older generations (E34)" outdated (each);
        "INV-EVICTABLE" "the idle processes that no minimum protects are found by the numbers of their group (E29)" evictable;
        "INV-WANT" "every group stands in the line that its state asks for" want;
        "INV-LAST-SERVED" "the groups whose gets wait for one more process stand in the order in which they were last served (E37)" last_served;
        "INV-DISABLED" "a disabled process comes last in its group's list, and counts as active" disabled (each);
        "INV-CLOSED" "a closed pool has no process and no waiting get, and no group stands in a line (E32)" closed;
    };

    /// After `max` was lowered, what exceeds it may only become less, until it is within `max` again.
    pub(crate) fn lower_ceilings(&mut self) {
        self.ceiling = self.max.max(self.ceiling.min(self.count + self.reserved));
        self.live_ceiling = self.live_limit().max(self.live_ceiling.min(self.live()));
    }

    fn all_groups(&self, holds: impl Fn(&Group) -> bool) -> bool {
        self.groups.in_scope().all(|(_, group)| holds(group))
    }
    fn keys_in_groups(&self) -> impl Iterator<Item = (GroupKey, ProcessKey)> {
        self.groups.iter().flat_map(|(key, group)| {
            let keys = group.processes.iter(&self.processes);
            keys.map(move |process| (key, process))
        })
    }
}

fn group_name<S: Spawner>(s: &State<S>) -> bool {
    s.groups.in_scope().all(|(key, group)| {
        group.processes.iter(&s.processes).all(|process| s.process(process).group == key)
    })
}

fn group_order<S: Spawner>(s: &State<S>) -> bool {
    s.all_groups(|group| {
        let busy = group.processes.iter(&s.processes).map(|key| !s.process(key).is_idle());
        busy.is_sorted()
    })
}

fn group_sorted<S: Spawner>(s: &State<S>) -> bool {
    s.all_groups(|group| {
        let infos: Vec<_> = group.processes.iter(&s.processes).map(|key| s.process(key)).collect();
        let ranks = infos.iter().map(|info| match info.place {
            Place::Open(sessions) => (0, sessions),
            Place::Marked => (1, 0),
            Place::Full(sessions) => (2, sessions),
            Place::Disabled => (3, 0),
            Place::Draining => (4, 0),
        });
        infos.iter().all(|info| info.place == info.right_place()) && ranks.is_sorted()
    })
}

fn group_size<S: Spawner>(s: &State<S>) -> bool {
    s.all_groups(|group| {
        let idle = group.processes.iter(&s.processes).filter(|&key| s.process(key).is_idle());
        group.size == group.processes.len()
            && group.size == group.processes.iter(&s.processes).count()
            && group.size == group.by_age.len()
            && group.idle == idle.count()
    })
}

fn group_accessible<S: Spawner>(s: &State<S>) -> bool {
    s.groups.len() == s.group_by_name.len()
        && s.groups
            .iter()
            .all(|(key, group)| s.group_by_name.get(&group.name).is_some_and(|named| *named == key))
}

/// Returns the processes in `inactive_apps`: the idle ones of its groups.
fn inactive<S: Spawner>(s: &State<S>) -> impl Iterator<Item = ProcessKey> {
    let groups = s.groups.iter().filter(|(_, group)| group.inactive.standing().is_some());
    groups.flat_map(|(_, group)| group.processes.idle(&s.processes))
}

fn process_idle<S: Spawner>(s: &State<S>) -> bool {
    let inactive: HashSet<ProcessKey> = inactive(s).collect();
    s.processes
        .iter()
        .all(|(key, info)| (info.is_idle() && !info.is_detached()) == inactive.contains(&key))
}

fn process_accessible<S: Spawner>(s: &State<S>) -> bool {
    let accessible: HashSet<ProcessKey> = s.keys_in_groups().map(|(_, key)| key).collect();
    s.processes.iter().all(|(key, info)| {
        info.is_detached() != accessible.contains(&key)
            && info.by_age.is_linked()
            && info.in_group.is_linked() != info.is_detached()
    })
}

#[cfg(not(all(test, any(feature = "loom", feature = "shuttle"))))]
fn process_here<S: Spawner>(s: &State<S>) -> bool {
    s.processes.iter().all(|(_, info)| !info.entry.gone.is_raised())
}
/// In a model every look at the flag is a step: looks here would only hide others.
#[cfg(all(test, any(feature = "loom", feature = "shuttle")))]
fn process_here<S: Spawner>(_: &State<S>) -> bool {
    true
}

fn size_within_count<S: Spawner>(s: &State<S>) -> bool {
    s.all_groups(|group| group.size <= s.count)
}

fn count<S: Spawner>(s: &State<S>) -> bool {
    s.groups.iter().map(|(_, group)| group.size).sum::<usize>() == s.count
}

fn active<S: Spawner>(s: &State<S>) -> bool {
    let active = s.processes.iter().filter(|(_, info)| !info.is_idle() && !info.is_detached());
    s.active <= s.count && active.count() == s.active
}

fn inactive_size<S: Spawner>(s: &State<S>) -> bool {
    inactive(s).count() + s.active == s.count
}

fn inactive_idle<S: Spawner>(s: &State<S>) -> bool {
    inactive(s).all(|key| {
        let info = s.process(key);
        info.sessions == 0 && !info.is_detached() && s.groups.contains(info.group)
    })
}

fn inactive_order<S: Spawner>(s: &State<S>) -> bool {
    let mut all: Vec<_> = inactive(s).map(|key| s.process(key)).collect();
    all.sort_by_key(|info| info.idle_rank);
    let of_group = |group: &Group| group.processes.idle(&s.processes).collect::<Vec<_>>();
    all.iter().map(|info| info.last_used).is_sorted()
        && s.groups.iter().all(|(_, group)| {
            of_group(group).iter().rev().map(|key| s.process(*key).idle_rank).is_sorted()
        })
}

fn capacity<S: Spawner>(s: &State<S>) -> bool {
    s.count + s.reserved <= s.max.max(s.ceiling)
}

fn live<S: Spawner>(s: &State<S>) -> bool {
    s.live() <= s.live_limit().max(s.live_ceiling)
}

fn reserved<S: Spawner>(s: &State<S>) -> bool {
    // Only known groups count spawns.
    let in_flight: usize = s.groups.iter().map(|(_, group)| group.spawns_in_flight).sum();
    in_flight == s.reserved + s.replacing
}

fn spawning<S: Spawner>(s: &State<S>) -> bool {
    s.all_groups(|group| group.spawning.is_none() || group.spawns_in_flight > 0)
}

fn draining<S: Spawner>(s: &State<S>) -> bool {
    let mut listed = s.draining.iter(&s.processes);
    let detached = s.processes.iter().filter(|(_, info)| info.is_detached()).count();
    // Each list has processes of its own group alone, and together they have all. A process of an unknown group is in none.
    let counted: usize = s.groups.iter().map(|(_, group)| group.draining.len()).sum();
    s.draining.iter(&s.processes).count() == s.draining.len()
        && listed.all(|key| s.process(key).is_detached() && s.process(key).sessions > 0)
        && detached == s.draining.len()
        && counted == detached
        && s.groups.iter().all(|(key, group)| {
            let is_own = |process: ProcessKey| {
                s.process(process).group == key && s.process(process).is_detached()
            };
            let mut processes = group.draining.iter(&s.processes);
            group.draining.iter(&s.processes).count() == group.draining.len()
                && processes.all(is_own)
        })
}

fn concurrency<S: Spawner>(s: &State<S>) -> bool {
    s.processes.iter().all(|(_, p)| p.concurrency.is_none_or(|max| p.sessions <= max))
}

fn max_requests<S: Spawner>(s: &State<S>) -> bool {
    let mut all = s.processes.iter();
    all.all(|(_, p)| p.max_requests.is_none_or(|max| p.processed + p.sessions <= max))
}

fn identifier<S: Spawner>(s: &State<S>) -> bool {
    let attached = s.processes.iter().filter(|(_, info)| !info.is_detached());
    let mut found = attached.clone().map(|(key, info)| {
        s.by_identifier.get(&info.entry.identifier).is_some_and(|named| *named == key)
    });
    found.all(|found| found) && attached.count() == s.by_identifier.len()
}

fn waiting<S: Spawner>(s: &State<S>) -> bool {
    s.groups.iter().map(|(_, group)| group.queue.len()).sum::<usize>() == s.waiting
        && s.waiting <= s.waiters.len()
}

fn exact_wake_up<S: Spawner>(s: &State<S>) -> bool {
    s.all_groups(|group| group.queue.is_empty() || group.processes.first_with_room().is_none())
}

fn wait_has_cause<S: Spawner>(s: &State<S>) -> bool {
    s.all_groups(|group| {
        group.queue.is_empty()
            || group.enabled() > 0
            || group.spawning.is_some()
            || group.want != Want::Nothing
    })
}

fn marked<S: Spawner>(s: &State<S>) -> bool {
    let marked = s.processes.iter().filter(|(_, info)| info.marked);
    let right = match s.marked {
        Some(key) => {
            let busy = s.processes.get(key).is_some_and(|p| p.marked && p.sessions > 0);
            busy && marked.clone().all(|(_, info)| !info.is_detached()) && !s.first.is_empty()
        }
        None => s.first.is_empty() || s.by_surplus.len() == 0 || s.count + s.reserved < s.max,
    };
    right && marked.count() == usize::from(s.marked.is_some())
}

fn totals<S: Spawner>(s: &State<S>) -> bool {
    s.totals.spawned == s.totals.detached + s.count as u64
}

fn back_off<S: Spawner>(s: &State<S>) -> bool {
    let listed = s.backing_off.len();
    let backing_off = s.groups.iter().filter(|(_, group)| group.back_off_until.is_some());
    backing_off.clone().count() == listed
        && backing_off.clone().all(|(_, group)| {
            group.last_error.is_some() && (group.queue.is_empty() || !group.is_out_of_order())
        })
}

fn outdated<S: Spawner>(s: &State<S>) -> bool {
    s.all_groups(|group| {
        let old = group.processes.iter(&s.processes);
        let old = old.filter(|&key| s.process(key).generation < group.generation);
        old.count() == group.outdated
    })
}

fn evictable<S: Spawner>(s: &State<S>) -> bool {
    let above = |group: &Group| group.enabled() > group.min_processes();
    let evictable = inactive(s).filter(|key| above(s.group(s.process(*key).group)));
    let first = evictable.min_by_key(|key| s.process(*key).idle_rank);
    let standings = s.groups.iter().all(|(_, group)| {
        let rank = group.processes.longest_idle().map(|key| s.process(key).idle_rank);
        let protected = !above(group);
        group.inactive.standing() == rank.map(|rank| Standing { rank, protected })
    });
    standings && s.inactive_apps.is_in_order(&s.groups) && s.longest_idle() == first
}

fn want<S: Spawner>(s: &State<S>) -> bool {
    let lines = [
        (&s.first, Want::First),
        (&s.more, Want::More),
        (&s.minimum, Want::Minimum),
        (&s.replacements, Want::Replacement),
        (&s.capped, Want::Capped),
    ];
    let listed: usize = lines.iter().map(|(line, _)| line.len()).sum();
    let wanting = s.groups.iter().filter(|(_, group)| group.want != Want::Nothing).count();
    // As many groups are listed as want something, and each is in the list of its want.
    let own =
        |(line, of): &(&List<_>, Want)| line.iter(&s.groups).all(|key| s.groups[key].want == *of);
    listed == wanting
        && s.in_lines == wanting
        && lines.iter().all(own)
        && s.groups.iter().all(|(key, group)| {
            let right = s.wants(key);
            // It notices a lowered max_per_app when its turn comes.
            let notices = matches!(group.want, Want::First | Want::More | Want::Minimum);
            group.want == right || notices && right == Want::Capped
        })
}

fn last_served<S: Spawner>(s: &State<S>) -> bool {
    s.more.iter(&s.groups).map(|key| s.group(key).room_due).is_sorted()
}

fn disabled<S: Spawner>(s: &State<S>) -> bool {
    s.all_groups(|group| {
        let enabled = group.processes.iter(&s.processes).map(|key| s.process(key).enabled);
        let enabled: Vec<_> = enabled.collect();
        enabled.iter().filter(|enabled| **enabled).count() == group.enabled()
            && enabled.iter().rev().is_sorted()
    })
}

fn closed<S: Spawner>(s: &State<S>) -> bool {
    let lines = [&s.first, &s.more, &s.minimum, &s.replacements, &s.capped];
    !s.closed || s.count == 0 && s.waiting == 0 && lines.iter().all(|line| line.is_empty())
}
