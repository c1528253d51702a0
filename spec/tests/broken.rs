//! Breaks every invariant and every property of steps on purpose, and sees that it is told. A formula that was weakened until it is always true would hold
//! in every state of every pool, and `tests/exploration.rs` would say so; here it shows.

use cabrank_spec::configuration::{Config, Options};
use cabrank_spec::invariants::{INVARIANTS, all_broken};
use cabrank_spec::pool::{
    Action, At, Condition, Event, Lock, Pool, Process, Reason, SpawnResult, Want,
};
use cabrank_spec::properties::STEP_PROPERTIES;
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

/// A pool that was closed, with nothing left in it.
fn closed() -> Pool {
    let config = Config::new(vec![Options::new("a").min(1)], 2, 1).with(|env| env.close = true);
    after(config, &[get(0, A), ready(1), close(0), Action::ClosePool])
}

/// A pool whose only process drains: its group has nothing else.
fn draining() -> Pool {
    let config = Config::new(vec![Options::new("a")], 1, 1).with(|env| env.detach = true);
    after(config, &[get(0, A), ready(1), Action::Detach { process: DRAINING }])
}

/// The group is found no more, whatever is still of it.
fn forget(pool: &mut Pool, group: usize) {
    (pool.groups[group].known, pool.groups[group].detached) = (false, true);
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
    ("INV-GROUP-ACCESSIBLE", |s| forget(s, A), &["INV-DRAINING"]),
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
    // As `forget_if_unused` would, if it did not look at what is spawned.
    ("INV-RESERVED", |s| forget(s, B), &[]),
    ("INV-SPAWNING", |s| s.groups[A].spawning = Some(99), &[]),
    ("INV-SPAWNING", |s| s.spawns[0].group = C, &[]),
    ("INV-DRAINING", |s| s.draining.clear(), &[]),
    ("INV-DRAINING", |s| process(s, DRAINING).sessions = 0, &[]),
    ("INV-DRAINING", |s| s.draining.push(BUSY), &[]),
    // As `forget_if_unused` would, if it did not look at what drains.
    (
        "INV-DRAINING",
        |s| {
            *s = draining();
            forget(s, A);
        },
        &[],
    ),
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
    (
        "INV-CLOSED",
        |s| {
            *s = closed();
            s.more.push(A);
        },
        &["INV-WANT"],
    ),
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

/// A step that keeps a property, and what the state after it is spoilt with so that it does not.
struct Step {
    name: &'static str,
    before: Pool,
    action: Action,
    spoil: Spoil,
}

fn step(name: &'static str, before: Pool, action: Action, spoil: Spoil) -> Step {
    Step { name, before, action, spoil }
}
fn detached(process: usize, group: usize, reason: Reason) -> Event {
    Event::Detached { process, group, reason, busy: false }
}
fn one(options: Options, max: usize, clients: usize) -> Config {
    Config::new(vec![options], max, clients)
}
fn touching(config: Config) -> Config {
    config.with(|env| (env.touch, env.delete) = (true, true))
}

/// Two clients wait for a group's first process, which will take both.
fn two_wait() -> Pool {
    after(one(Options::new("a").private(), 1, 3), &[get(0, A), get(1, A)])
}
/// A group of one process has seen its `restart.txt`, and that was touched since.
fn touched(options: Options) -> Pool {
    let config = touching(Config::new(vec![options, Options::new("b")], 2, 2));
    after(config, &[get(0, A), ready(1), close(0), Action::Touch { dir: 0 }])
}
/// The same, and it was deleted before anybody looked again.
fn deleted() -> Pool {
    let config = touching(one(Options::new("a"), 1, 1)).but(|config| config.restart_file = true);
    after(config, &[get(0, A), ready(1), close(0), Action::Delete { dir: 0 }])
}
/// A client is connecting to its process, and both sides may be to blame if it cannot.
fn connecting() -> Pool {
    let config = touching(one(Options::new("a"), 1, 1)).but(|config| config.connects = true);
    let config = config.with(|env| (env.processes_fail, env.clients_fail) = (true, true));
    after(config, &[get(0, A), ready(1)])
}
/// It could not, `restart.txt` was touched meanwhile, and it is about to look again.
fn looks_again() -> Pool {
    let mut pool = connecting();
    pool.apply(&cannot_connect(false));
    pool.apply(&Action::Touch { dir: 0 });
    pool
}
/// One process with a session, and an idle one.
fn a_choice() -> Pool {
    let config = one(Options::new("a").private(), 2, 3);
    after(config, &[get(0, A), ready(1), get(1, A), ready(2), close(1)])
}
/// Both processes are idle; a minimum protects the first.
fn protected_and_not() -> Pool {
    let groups = vec![Options::new("a").min(1), Options::new("b"), Options::new("c")];
    let serve = [get(0, A), ready(1), get(1, B), ready(2)];
    after(Config::new(groups, 2, 3), &[&serve[..], &[close(0), close(1)]].concat())
}
/// Gets come with other options than the group's.
fn other_options() -> Pool {
    let config = one(Options::new("a"), 1, 2).or(A, |options| options.max_requests = 2);
    let set = Action::SetOptions { group: A, options: 1 };
    after(config, &[get(0, A), ready(1), close(0), set])
}
/// Somebody waits for the first spawn, and only one may wait.
fn bounded() -> Pool {
    after(one(Options { max_queue: 1, ..Options::new("a") }, 1, 2), &[])
}
/// A spawn is in flight that nobody wants any more.
fn unwanted() -> Pool {
    let config = one(Options::new("a"), 1, 1).with(|env| {
        (env.give_up, env.detach_group) = (true, true);
    });
    after(config, &[get(0, A), Action::GiveUp { client: 0 }, Action::DetachGroup { group: A }])
}
/// The spawn of a second process is in flight.
fn grows() -> Pool {
    let config =
        one(Options::new("a"), 2, 2).with(|env| (env.spawns_fail, env.time) = (true, true));
    after(config, &[get(0, A), ready(1), get(1, A)])
}
/// An idle process, a cleaner who is punctual, and a limit of two.
fn punctual() -> Pool {
    let config = one(Options::new("a"), 1, 1).but(|config| config.max_idle_time = 2);
    let config = config.with(|env| (env.time, env.punctual) = (true, true));
    after(config, &[get(0, A), ready(1), close(0)])
}
/// The successor of the only process is being spawned.
fn rolling() -> Pool {
    let mut pool = touched(Options::new("a").rolling());
    pool.apply(&get(0, A));
    pool
}

/// A group that keeps a minimum, with a session that goes on when the group is detached.
fn to_be_detached() -> Pool {
    let config = one(Options::new("a").min(1), 2, 1);
    let config = config.with(|env| (env.detach_group, env.close) = (true, true));
    after(config, &[get(0, A), ready(1)])
}
fn detach_a() -> Action {
    Action::DetachGroup { group: A }
}

/// The longest idle process is due; the other is not.
fn due() -> Pool {
    let mut pool = well_formed();
    pool.apply(&Action::Tick);
    pool
}
fn cannot_connect(local: bool) -> Action {
    Action::ConnectFails { client: 0, local }
}

fn steps() -> Vec<Step> {
    vec![
        step("PROP-SESSIONS", well_formed(), close(3), |s| process(s, BUSY).sessions += 1),
        step("PROP-SESSIONS", well_formed(), close(3), |s| process(s, DRAINING).sessions = 0),
        step("PROP-CLOSE-POSSIBLE", well_formed(), get(1, A), |s| s.lock = Lock::Joining(A)),
        step("PROP-CLOSE-POSSIBLE", well_formed(), get(1, A), |s| s.lock = Lock::Spawning(1)),
        step("PROP-NO-ORPHAN", unwanted(), ready(1), |s| s.orphans = 1),
        // The second is served, and the first goes on waiting.
        step("PROP-NO-OVERTAKING", two_wait(), ready(1), |s| s.groups[A].queue = vec![0]),
        // Somebody who did not wait is served, and these do.
        step("PROP-NO-OVERTAKING", two_wait(), ready(1), |s| {
            s.told = vec![Event::Served { client: 2, process: 1 }];
            s.clients[2].at = At::InSession(Some(1));
            s.groups[A].queue = vec![0, 1];
        }),
        step("PROP-CHOICE", a_choice(), get(2, A), |s| {
            s.clients[2].at = At::InSession(Some(1));
        }),
        step("PROP-QUEUE-BOUND", bounded(), get(0, A), |s| s.groups[A].queue.push(1)),
        step("PROP-WORK-CONSERVING", grows(), Action::Tick, |s| {
            (s.groups[A].spawning, s.reserved) = (None, 0);
        }),
        step("PROP-IDLE-TIME", due(), Action::Clean, |s| {
            s.told = vec![detached(IDLE, A, Reason::Idle)];
        }),
        step("PROP-IDLE-BOUND", punctual(), Action::Tick, |s| s.now += 2),
        step("PROP-HEALTHY-STAY", grows(), fails(2), |s| {
            s.told.push(detached(1, A, Reason::SpawnFailed));
        }),
        step("PROP-BACK-OFF-SPARES", well_formed(), close(3), |s| {
            s.told.push(detached(IDLE, A, Reason::Evicted(Some(C))));
        }),
        step("PROP-VICTIM", protected_and_not(), get(2, C), |s| {
            s.told = vec![detached(1, A, Reason::Evicted(Some(C)))];
        }),
        step("PROP-LOCAL-FAILURE", connecting(), cannot_connect(true), |s| {
            s.told.push(detached(1, A, Reason::Failed));
        }),
        step("PROP-RESTART-SEEN", touched(Options::new("a")), get(0, A), |s| s.told.clear()),
        // Another group, which has not even looked, is restarted.
        step("PROP-RESTART-CAUSE", touched(Options::new("a")), get(0, A), |s| {
            s.told.push(Event::Restarting { group: B });
        }),
        step("PROP-RESTART-LOSS", deleted(), get(0, A), |s| {
            s.told.push(detached(1, A, Reason::Restarted));
        }),
        step("PROP-RESTART-ONCE", looks_again(), Action::Retry { client: 0 }, |s| {
            s.told.push(Event::Restarting { group: A });
        }),
        // The same two, and the old one goes first.
        step("PROP-ROLLING", rolling(), ready(2), |s| s.told.reverse()),
        step("PROP-ROLLING", rolling(), ready(2), |s| {
            s.told.retain(|event| !matches!(event, Event::Attached { .. }));
        }),
        step("PROP-BEGINS-ANEW", to_be_detached(), detach_a(), |s| {
            s.groups[A].reload_pending = true
        }),
        step("PROP-BEGINS-ANEW", to_be_detached(), detach_a(), |s| s.groups[A].failures = 1),
        step("PROP-BEGINS-ANEW", to_be_detached(), detach_a(), |s| s.groups[A].last_error = true),
        step("PROP-BEGINS-ANEW", to_be_detached(), detach_a(), |s| {
            s.groups[A].back_off_until = Some(9);
        }),
        step("PROP-BEGINS-ANEW", to_be_detached(), detach_a(), |s| {
            s.groups[A].seen[0] = Some(None);
        }),
        step("PROP-BEGINS-ANEW", to_be_detached(), Action::ClosePool, |s| s.groups[A].failures = 1),
        step("PROP-FORGOTTEN", to_be_detached(), detach_a(), |s| s.groups[A].spawning = Some(9)),
        step("PROP-FORGOTTEN", to_be_detached(), detach_a(), |s| s.groups[A].want = Want::More),
        step("PROP-FORGOTTEN", to_be_detached(), detach_a(), |s| s.groups[A].size = 1),
        step("PROP-FORGOTTEN", to_be_detached(), detach_a(), |s| {
            (s.groups[A].known, s.groups[A].forgotten) = (true, false);
        }),
        step("PROP-OPTIONS", other_options(), get(0, A), |s| s.groups[A].options = 0),
        step("PROP-OPTIONS", other_options(), get(0, A), |s| process(s, 1).options = 1),
        step("PROP-DETACHED-STATED", well_formed(), close(3), |s| s.groups[C].detached = true),
        step("PROP-DETACHED-STATED", well_formed(), close(3), |s| process(s, IDLE).detached = true),
    ]
}

#[test]
fn every_property_of_steps_is_told_when_it_is_broken() {
    let mut told = BTreeSet::new();
    for (row, Step { name, before, action, spoil }) in steps().into_iter().enumerate() {
        let property = STEP_PROPERTIES.iter().find(|property| property.name == name);
        let judge = property.expect("a property of this name").judge;
        assert!(before.enabled().contains(&action), "row {row}: {action:?} is not possible");
        let mut after = before.step(&action);
        assert_eq!(judge(&before, &action, &after), Some(true), "row {row}: {name} is kept");
        spoil(&mut after);
        assert_eq!(judge(&before, &action, &after), Some(false), "row {row}: {name} is broken");
        told.insert(name);
    }
    let all: BTreeSet<_> = STEP_PROPERTIES.iter().map(|property| property.name).collect();
    assert_eq!(told, all, "every property has a row");
}
