//! Breaks every invariant on purpose, and sees that its assertion fires.
//!
//! Each break takes a pool in which all invariants hold (checked first) and spoils it in the way that its
//! invariant notices. A break may spoil others, too; its own must be reported.

use super::group::{Edge, Want};
use super::process_info::Place;
use super::standing::Standing;
use super::state::Info;
use super::state::State;
use super::table_keys::{GroupKey, ProcessKey};
use crate::in_memory::{InMemorySpawner, Spawn};
use crate::kernel::clock::Time;
use crate::kernel::section::{Guarded, broken, check_breaks};
use crate::{ApplicationPool, PoolOptions};
use std::time::Duration;

type TheState = State<InMemorySpawner>;
type Break = fn(&mut TheState);

/// Group a: two idle processes and a busy one, and one that drains. Group c: backs off.
fn with_state(spoil: impl FnOnce(&mut TheState)) -> Vec<String> {
    let spawner = InMemorySpawner::new();
    let pool = ApplicationPool::builder(spawner.clone()).max(3).cleaner(false).build();
    let pool = pool.expect("a valid pool");
    let (a, c) = (PoolOptions::new("/a").with_min_processes(1), PoolOptions::new("/c"));
    spawner.next(Spawn::fail("c is broken"));
    assert!(pool.get(&c).is_err());
    let drains = pool.get(&a).expect("a session");
    pool.detach(crate::application_pool::Session::identifier(&drains));
    let busy = pool.get(&a).expect("a session");
    // A second process, spawned because the first is busy.
    let second = pool.get(&a).expect("a session");
    let third = pool.get(&a).expect("a session");
    drop((second, third));

    let broken_now = |state: &TheState| broken(TheState::INVARIANTS, state).collect::<Vec<_>>();
    let broken = pool.inner().state.break_state(|state| {
        assert_eq!(broken_now(state), Vec::<String>::new(), "before it is spoilt");
        assert_eq!((state.count, state.active, state.draining.len()), (3, 1, 1));
        spoil(state);
        broken_now(state)
    });
    // A spoilt pool cannot shut down in order, and is not used again.
    std::mem::forget((pool, busy, drains));
    broken
}

fn key_of(s: &TheState, wanted: impl Fn(&Info<InMemorySpawner>) -> bool) -> ProcessKey {
    let found = s.processes.iter().find(|(_, info)| wanted(info));
    found.expect("such a process").0
}
fn idle(s: &TheState) -> ProcessKey {
    key_of(s, |info| info.sessions == 0)
}
fn busy(s: &TheState) -> ProcessKey {
    key_of(s, |info| info.sessions > 0 && !info.is_detached())
}
fn drains(s: &TheState) -> ProcessKey {
    key_of(s, |info| info.is_detached())
}
fn group(s: &TheState, name: &str) -> GroupKey {
    s.group_by_name[name]
}
fn info(s: &mut TheState, key: ProcessKey) -> &mut Info<InMemorySpawner> {
    &mut s.processes[key]
}

/// Every invariant's name, and how it is broken.
fn breaks() -> Vec<(&'static str, Break)> {
    vec![
        ("INV-GROUP-NAME", |s| {
            let (key, other) = (idle(s), group(s, "/c"));
            info(s, key).group = other;
        }),
        ("INV-GROUP-ORDER", |s| {
            let of = group(s, "/a");
            let first = s.group(of).processes.first_with_room().expect("an idle process");
            info(s, first).sessions = 1;
        }),
        ("INV-GROUP-SORTED", |s| {
            let key = busy(s);
            info(s, key).place = Place::Open(7);
        }),
        ("INV-GROUP-SIZE", |s| {
            let key = group(s, "/a");
            s.group_mut(key).size += 1;
        }),
        ("INV-GROUP-ACCESSIBLE", |s| {
            s.group_by_name.remove("/c");
        }),
        ("INV-PROCESS-IDLE", |s| {
            let of = group(s, "/a");
            s.inactive_apps.set(s.groups.links(), of, None);
        }),
        ("INV-PROCESS-ACCESSIBLE", |s| {
            let (key, of) = (idle(s), group(s, "/a"));
            let group = &mut s.groups.links()[of];
            group.by_age.remove(&mut s.processes, key);
        }),
        ("INV-PROCESS-HERE", |s| {
            let key = idle(s);
            s.process(key).entry.gone.raise();
        }),
        ("INV-SIZE-WITHIN-COUNT", |s| s.count = 1),
        ("INV-COUNT", |s| s.count += 1),
        ("INV-ACTIVE", |s| s.active += 1),
        ("INV-INACTIVE-SIZE", |s| s.active -= 1),
        ("INV-INACTIVE-IDLE", |s| {
            let (key, of) = (busy(s), group(s, "/a"));
            let group = &mut s.groups.links()[of];
            group.processes.remove(&mut s.processes, key);
            s.processes[key].sessions = 0;
            group.processes.insert(&mut s.processes, key, Edge::Front);
            s.processes[key].sessions = 1;
        }),
        ("INV-INACTIVE-ORDER", |s| {
            let first = s.longest_idle().expect("an idle process");
            info(s, first).last_used = Time::default().plus(Duration::from_secs(1 << 30));
        }),
        ("INV-CAPACITY", |s| s.reserved = 9),
        ("INV-LIVE", |s| s.replacing = 9),
        ("INV-RESERVED", |s| s.replacing += 1),
        ("INV-RESERVED", |s| {
            let key = group(s, "/c");
            s.group_mut(key).spawns_in_flight += 1;
        }),
        ("INV-SPAWNING", |s| {
            let (key, identifier) = (group(s, "/c"), s.new_identifier());
            s.group_mut(key).spawning = Some(super::group::Spawning {
                ticket: identifier,
                cancel: crate::application_pool::CancelToken::new(),
            });
        }),
        ("INV-DRAINING", |s| {
            let key = drains(s);
            info(s, key).sessions = 0;
        }),
        // Another group counts it, and its own does not know that it drains.
        ("INV-DRAINING", |s| {
            let (key, other) = (drains(s), group(s, "/c"));
            info(s, key).group = other;
        }),
        ("INV-CONCURRENCY", |s| {
            let key = busy(s);
            info(s, key).sessions = 2;
        }),
        ("INV-MAX-REQUESTS", |s| {
            let key = idle(s);
            let process = info(s, key);
            (process.max_requests, process.processed) = (Some(1), 2);
        }),
        ("INV-IDENTIFIER", |s| {
            let key = idle(s);
            let identifier = s.process(key).entry.identifier;
            s.by_identifier.remove(&identifier);
        }),
        ("INV-WAITING", |s| s.waiting += 1),
        ("INV-EXACT-WAKE-UP", |s| {
            let key = group(s, "/a");
            s.waiters.enqueue_thread(&mut s.groups.links()[key].queue);
        }),
        ("INV-WAIT-HAS-CAUSE", |s| {
            let key = group(s, "/c");
            s.waiters.enqueue_thread(&mut s.groups.links()[key].queue);
        }),
        ("INV-MARKED", |s| {
            let key = busy(s);
            info(s, key).marked = true;
        }),
        ("INV-TOTALS", |s| s.totals.detached += 1),
        ("INV-BACK-OFF", |s| {
            let key = group(s, "/c");
            s.group_mut(key).last_error = None;
        }),
        ("INV-OUTDATED", |s| {
            let key = group(s, "/a");
            s.group_mut(key).generation += 1;
        }),
        ("INV-EVICTABLE", |s| {
            let key = s.process(idle(s)).group;
            s.inactive_apps.set(s.groups.links(), key, Some(Standing { rank: 7, protected: true }));
        }),
        ("INV-WANT", |s| {
            let key = group(s, "/c");
            s.group_mut(key).want = Want::More;
        }),
        ("INV-LAST-SERVED", |s| {
            for (name, due) in [("/a", Time::END), ("/c", Time::default())] {
                let key = group(s, name);
                s.group_mut(key).room_due = due;
                s.more.push_back(s.groups.links(), key);
            }
        }),
        ("INV-DISABLED", |s| {
            let key = busy(s);
            info(s, key).enabled = false;
        }),
        ("INV-CLOSED", |s| s.closed = true),
    ]
}

#[test]
fn a_break_of_each_invariant_is_reported_by_its_name() {
    check_breaks(TheState::INVARIANTS, breaks(), with_state);
}

/// Other builds do not check.
#[cfg(debug_assertions)]
#[test]
#[should_panic(expected = "INV-COUNT does not hold")]
fn a_critical_section_that_breaks_one_panics_with_its_name() {
    let pool = ApplicationPool::builder(InMemorySpawner::new()).cleaner(false).build();
    let pool = std::mem::ManuallyDrop::new(pool.expect("a valid pool"));
    pool.inner().critical(|state, _| state.count = 0x10);
}
