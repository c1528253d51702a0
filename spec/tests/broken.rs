//! Breaks every invariant on purpose, and sees that it is told. A formula that was weakened until it is always true would hold
//! in every state of every pool, and `tests/exploration.rs` would say so; here it shows.

use cabrank_spec::configuration::{Config, Options};
use cabrank_spec::invariants::{INVARIANTS, all_broken};
use cabrank_spec::pool::{Action, At, Condition, Pool, Process, SpawnResult, Want};
use std::collections::BTreeSet;

/// The pool after these actions, each of which must be possible when its turn comes.
fn after(config: Config, actions: &[Action]) -> Pool {
    let mut pool = Pool::new(config);
    for action in actions {
        assert!(pool.enabled().contains(action), "{action:?} is not possible in {pool:?}");
        pool.apply(action);
        assert_eq!(all_broken(&pool), [""; 0], "after {action:?}");
    }
    pool
}

fn get(client: usize, group: usize) -> Action {
    Action::Get { client, group }
}
fn close(client: usize) -> Action {
    Action::CloseSession { client }
}
fn ready(ticket: usize) -> Action {
    Action::SpawnEnds { ticket, result: SpawnResult::Process }
}
fn fails(ticket: usize) -> Action {
    Action::SpawnEnds { ticket, result: SpawnResult::Error }
}

const A: usize = 0;
const B: usize = 1;
const C: usize = 2;
const DRAINING: usize = 1;
const LONGEST_IDLE: usize = 2;
const IDLE: usize = 3;
const BUSY: usize = 4;

/// Group a: two idle processes, a busy one, and one that drains. Group b: its first process is being
/// spawned, for a get that waits. Group c: backs off.
fn well_formed() -> Pool {
    let options = |name| Options { max_requests: 3, ..Options::new(name) };
    let groups = vec![options("a").min(1), options("b"), options("c")];
    let config = Config::new(groups, 4, 6).but(|config| config.max_idle_time = 2);
    let config = config.with(|env| (env.spawns_fail, env.time, env.detach) = (true, true, true));
    let drain = [get(0, A), ready(1), Action::Detach { process: DRAINING }];
    // That a keeps a minimum of 1 has begun the spawn of the second.
    let three = [get(1, A), ready(2), get(2, A), ready(3), get(3, A), ready(4)];
    let idle = [close(1), Action::Tick, close(2)];
    let others = [get(4, C), fails(5), get(5, B)];
    let pool = after(config, &[&drain[..], &three, &idle, &others].concat());
    assert_eq!((pool.count, pool.active, pool.inactive_apps.len()), (3, 1, 2));
    assert_eq!((pool.draining.len(), pool.reserved, pool.waiting), (1, 1, 1));
    assert!(pool.groups[C].back_off_until.is_some() && pool.groups[B].spawning.is_some());
    pool
}

fn process(pool: &mut Pool, identifier: usize) -> &mut Process {
    let found = pool.processes.iter_mut().find(|process| process.identifier == identifier);
    found.expect("a process that is known of")
}

type Spoil = fn(&mut Pool);

/// The invariant, how the pool is spoilt for it, and which others then do not hold either.
const INVARIANTS_SPOILT: &[(&str, Spoil, &[&str])] = &[
    ("INV-GROUP-NAME", |s| process(s, IDLE).group = C, &["INV-INACTIVE-IDLE", "INV-EVICTABLE"]),
    ("INV-GROUP-ORDER", |s| s.groups[A].processes.reverse(), &["INV-GROUP-SORTED"]),
    ("INV-GROUP-SORTED", |s| process(s, LONGEST_IDLE).processed = 3, &[]),
    ("INV-GROUP-SORTED", |s| process(s, IDLE).processed = 3, &[]),
    ("INV-GROUP-SIZE", |s| s.groups[A].size += 1, &["INV-SIZE-WITHIN-COUNT", "INV-COUNT"]),
    ("INV-GROUP-SIZE", |s| s.groups[A].idle += 1, &[]),
    ("INV-GROUP-ACCESSIBLE", |s| s.groups[C].detached = true, &[]),
    ("INV-GROUP-ACCESSIBLE", |s| (s.groups[A].known, s.groups[A].detached) = (false, true), &[]),
    (
        "INV-PROCESS-IDLE",
        |s| s.inactive_apps.retain(|&p| p != IDLE),
        &["INV-INACTIVE-SIZE", "INV-EVICTABLE"],
    ),
    (
        "INV-PROCESS-ACCESSIBLE",
        |s| s.groups[A].processes.retain(|&p| p != IDLE),
        &["INV-GROUP-SIZE", "INV-INACTIVE-IDLE", "INV-IDENTIFIER", "INV-EVICTABLE"],
    ),
    (
        "INV-PROCESS-ACCESSIBLE",
        |s| s.groups[A].processes.push(DRAINING),
        &["INV-GROUP-SIZE", "INV-IDENTIFIER"],
    ),
    ("INV-PROCESS-HERE", |s| s.clients[3].at = At::InSession(Some(99)), &[]),
    ("INV-SIZE-WITHIN-COUNT", |s| s.count = 1, &["INV-COUNT", "INV-INACTIVE-SIZE"]),
    ("INV-COUNT", |s| s.count += 1, &["INV-INACTIVE-SIZE", "INV-CAPACITY"]),
    ("INV-ACTIVE", |s| s.active += 1, &["INV-INACTIVE-SIZE"]),
    ("INV-ACTIVE", |s| s.active = 9, &["INV-INACTIVE-SIZE"]),
    ("INV-INACTIVE-SIZE", |s| s.inactive_apps.push(IDLE), &[]),
    (
        "INV-INACTIVE-IDLE",
        |s| s.inactive_apps.push(BUSY),
        &["INV-PROCESS-IDLE", "INV-INACTIVE-SIZE", "INV-INACTIVE-ORDER"],
    ),
    (
        "INV-INACTIVE-IDLE",
        |s| s.inactive_apps.push(DRAINING),
        &["INV-PROCESS-IDLE", "INV-INACTIVE-SIZE", "INV-INACTIVE-ORDER"],
    ),
    ("INV-INACTIVE-ORDER", |s| s.inactive_apps.reverse(), &[]),
    ("INV-CAPACITY", |s| s.reserved = 9, &["INV-LIVE", "INV-RESERVED"]),
    ("INV-LIVE", |s| s.replacing = 9, &["INV-RESERVED"]),
    ("INV-RESERVED", |s| s.spawns[0].replaces = true, &[]),
    ("INV-RESERVED", |s| s.reserved = 0, &[]),
    ("INV-RESERVED", |s| s.replacing += 1, &[]),
    ("INV-SPAWNING", |s| s.groups[A].spawning = Some(99), &[]),
    ("INV-SPAWNING", |s| s.spawns[0].group = C, &[]),
    ("INV-DRAINING", |s| s.draining.clear(), &[]),
    ("INV-DRAINING", |s| process(s, DRAINING).sessions = 0, &[]),
    ("INV-DRAINING", |s| s.draining.push(BUSY), &[]),
    ("INV-CONCURRENCY", |s| process(s, BUSY).sessions = 2, &[]),
    ("INV-MAX-REQUESTS", |s| process(s, BUSY).processed = 3, &[]),
    ("INV-IDENTIFIER", |s| s.last_identifier = 1, &[]),
    (
        "INV-IDENTIFIER",
        |s| process(s, DRAINING).detached = false,
        &["INV-PROCESS-ACCESSIBLE", "INV-ACTIVE", "INV-DRAINING"],
    ),
    (
        "INV-IDENTIFIER",
        |s| {
            let twin = process(s, IDLE).clone();
            s.processes.push(twin);
        },
        &[],
    ),
    ("INV-IDENTIFIER", |s| s.spawns[0].ticket = BUSY, &["INV-SPAWNING"]),
    ("INV-WAITING", |s| s.waiting += 1, &[]),
    (
        "INV-WAITING",
        |s| (s.clients[5].at, s.clients[5].group) = (At::Waiting(Condition::GlobalQueue), A),
        &[],
    ),
    ("INV-EXACT-WAKE-UP", |s| (s.groups[A].queue, s.waiting) = (vec![1], 2), &["INV-WANT"]),
    ("INV-WAIT-HAS-CAUSE", |s| s.groups[B].spawning = None, &["INV-WANT"]),
    ("INV-CONDEMNED", |s| process(s, BUSY).condemned = true, &[]),
    ("INV-CONDEMNED", |s| s.condemned.push(BUSY), &[]),
    ("INV-CONDEMNED", |s| (process(s, BUSY).condemned, s.condemned) = (true, vec![BUSY]), &[]),
    ("INV-BACK-OFF", |s| s.backing_off.clear(), &[]),
    ("INV-BACK-OFF", |s| s.groups[C].last_error = false, &[]),
    ("INV-BACK-OFF", |s| (s.groups[C].queue, s.waiting) = (vec![1], 2), &["INV-WAIT-HAS-CAUSE"]),
    ("INV-OUTDATED", |s| s.groups[A].outdated = 1, &["INV-WANT"]),
    ("INV-OUTDATED", |s| s.groups[A].generation += 1, &[]),
    ("INV-EVICTABLE", |s| s.groups[A].idle = 1, &["INV-GROUP-SIZE"]),
    ("INV-WANT", |s| s.groups[C].want = Want::More, &[]),
    ("INV-WANT", |s| s.more.push(C), &[]),
    ("INV-WANT", |s| (s.groups[C].want, s.first) = (Want::First, vec![C]), &[]),
    ("INV-CLOSED", |s| s.closed = true, &[]),
];

#[test]
fn every_invariant_is_told_when_it_is_broken() {
    let mut told = BTreeSet::new();
    for (row, (name, spoil, others)) in INVARIANTS_SPOILT.iter().enumerate() {
        let mut pool = well_formed();
        spoil(&mut pool);
        let broken: BTreeSet<_> = all_broken(&pool).into_iter().collect();
        let expected = others.iter().copied().chain([*name]).collect();
        assert_eq!(broken, expected, "row {row}, spoilt for {name}");
        told.insert(*name);
    }
    let all: BTreeSet<_> = INVARIANTS.iter().map(|invariant| invariant.name).collect();
    assert_eq!(told, all, "every invariant has a row");
}
