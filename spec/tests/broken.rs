//! Breaks every invariant and every step property on purpose, and checks that it is reported. A formula
//! that is always true would pass every exploration; here it fails.

use cabrank_spec::application_pool::configuration::{Config, Options};
use cabrank_spec::application_pool::invariants::INVARIANTS;
use cabrank_spec::application_pool::pool::{
    Action, At, Condition, Event, Failure, Lock, Pool, Process, Reason, SpawnResult, Want,
};
use cabrank_spec::application_pool::properties::STEP_PROPERTIES;
use cabrank_spec::checking::promises::Promises;
use std::collections::BTreeSet;

/// Applies actions to a new pool. Each must be possible, and all invariants must hold after it.
fn after(config: Config, actions: &[Action]) -> Pool {
    let mut pool = Pool::new(config);
    for action in actions {
        assert!(pool.enabled().contains(action), "{action:?} is not possible in {pool:?}");
        pool.apply(action);
        assert_eq!(pool.config().broken(&pool), [""; 0], "after {action:?}");
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

/// Returns a pool in which all invariants hold. Group a has two idle processes, a busy one and a draining
/// one. Group b has a waiting get and a spawn in flight. Group c backs off.
fn well_formed() -> Pool {
    let options = |name| Options { max_requests: 3, ..Options::new(name) };
    let groups = vec![options("a").min(1), options("b"), options("c")];
    let config = Config::new(groups, 4, 6).but(|config| config.max_idle_time = 2);
    let config = config.with(|env| (env.spawns_fail, env.time, env.detach) = (true, true, true));
    let drain = [get(0, A), ready(1), Action::Detach { process: DRAINING }];
    // The minimum of a has ordered the second spawn.
    let three = [get(1, A), ready(2), get(2, A), ready(3), get(3, A), ready(4)];
    let idle = [close(1), Action::Tick, close(2)];
    let others = [get(4, C), fails(5), get(5, B)];
    let pool = after(config, &[&drain[..], &three, &idle, &others].concat());
    assert_eq!((pool.count, pool.active, pool.inactive_apps.len()), (3, 1, 2));
    assert_eq!((pool.draining.len(), pool.reserved, pool.waiting), (1, 1, 1));
    assert!(pool.groups[C].back_off_until.is_some() && pool.groups[B].spawning.is_some());
    pool
}

/// Returns an empty closed pool.
fn closed() -> Pool {
    let config = Config::new(vec![Options::new("a").min(1)], 2, 1).with(|env| env.close = true);
    after(config, &[get(0, A), ready(1), close(0), Action::ClosePool])
}

/// Returns a pool whose only process drains.
fn draining() -> Pool {
    let config = Config::new(vec![Options::new("a")], 1, 1).with(|env| env.detach = true);
    after(config, &[get(0, A), ready(1), Action::Detach { process: DRAINING }])
}

/// Removes the group from `groups`, in whatever state it is.
fn forget(pool: &mut Pool, group: usize) {
    (pool.groups[group].known, pool.groups[group].detached) = (false, true);
}

fn process(pool: &mut Pool, identifier: usize) -> &mut Process {
    let found = pool.processes.iter_mut().find(|process| process.identifier == identifier);
    found.expect("the process is not gone")
}

type Change = fn(&mut Pool);

macro_rules! broken {
    ($($name:literal |$s:ident| $change:expr $(=> $($other:literal),+)?;)*) => {
        /// Each row: an invariant, a change that breaks it, and the other invariants that the change breaks.
        const BROKEN_INVARIANTS: &[(&str, Change, &[&str])] =
            &[$(($name, |$s| $change, &[$($($other),+)?])),*];
    };
}

broken! {
    "INV-GROUP-NAME" |s| process(s, IDLE).group = C => "INV-INACTIVE-IDLE", "INV-EVICTABLE";
    "INV-GROUP-ORDER" |s| s.groups[A].processes.reverse() => "INV-GROUP-SORTED";
    "INV-GROUP-SORTED" |s| process(s, LONGEST_IDLE).processed = 3;
    "INV-GROUP-SORTED" |s| process(s, IDLE).processed = 3;
    "INV-GROUP-SIZE" |s| s.groups[A].size += 1 => "INV-SIZE-WITHIN-COUNT", "INV-COUNT";
    "INV-GROUP-SIZE" |s| s.groups[A].idle += 1;
    "INV-GROUP-ACCESSIBLE" |s| s.groups[C].detached = true;
    "INV-GROUP-ACCESSIBLE" |s| forget(s, A) => "INV-DRAINING";
    "INV-PROCESS-IDLE" |s| s.inactive_apps.retain(|&p| p != IDLE) => "INV-INACTIVE-SIZE", "INV-EVICTABLE";
    "INV-PROCESS-ACCESSIBLE" |s| s.groups[A].processes.retain(|&p| p != IDLE)
        => "INV-GROUP-SIZE", "INV-INACTIVE-IDLE", "INV-IDENTIFIER", "INV-EVICTABLE";
    "INV-PROCESS-ACCESSIBLE" |s| s.groups[A].processes.push(DRAINING) => "INV-GROUP-SIZE", "INV-IDENTIFIER";
    "INV-PROCESS-HERE" |s| s.clients[3].at = At::InSession(Some(99));
    "INV-SIZE-WITHIN-COUNT" |s| s.count = 1 => "INV-COUNT", "INV-INACTIVE-SIZE", "INV-TOTALS";
    "INV-COUNT" |s| s.count += 1 => "INV-INACTIVE-SIZE", "INV-CAPACITY", "INV-TOTALS";
    "INV-ACTIVE" |s| s.active += 1 => "INV-INACTIVE-SIZE";
    "INV-ACTIVE" |s| s.active = 9 => "INV-INACTIVE-SIZE";
    "INV-INACTIVE-SIZE" |s| s.inactive_apps.push(IDLE);
    "INV-INACTIVE-IDLE" |s| s.inactive_apps.push(BUSY)
        => "INV-PROCESS-IDLE", "INV-INACTIVE-SIZE", "INV-INACTIVE-ORDER";
    "INV-INACTIVE-IDLE" |s| s.inactive_apps.push(DRAINING)
        => "INV-PROCESS-IDLE", "INV-INACTIVE-SIZE", "INV-INACTIVE-ORDER";
    "INV-INACTIVE-ORDER" |s| s.inactive_apps.reverse();
    "INV-CAPACITY" |s| s.reserved = 9 => "INV-LIVE", "INV-RESERVED";
    "INV-LIVE" |s| s.replacing = 9 => "INV-RESERVED";
    "INV-RESERVED" |s| s.spawns[0].replaces = true;
    "INV-RESERVED" |s| s.reserved = 0;
    "INV-RESERVED" |s| s.replacing += 1;
    // `forget_if_unused` would do this if it ignored spawns in flight.
    "INV-RESERVED" |s| forget(s, B);
    "INV-SPAWNING" |s| s.groups[A].spawning = Some(99);
    "INV-SPAWNING" |s| s.spawns[0].group = C;
    "INV-DRAINING" |s| s.draining.clear();
    "INV-DRAINING" |s| process(s, DRAINING).sessions = 0;
    "INV-DRAINING" |s| s.draining.push(BUSY);
    // `forget_if_unused` would do this if it ignored draining processes.
    "INV-DRAINING" |s| { *s = draining(); forget(s, A) };
    "INV-CONCURRENCY" |s| process(s, BUSY).sessions = 2;
    "INV-MAX-REQUESTS" |s| process(s, BUSY).processed = 3;
    "INV-IDENTIFIER" |s| s.last_identifier = 1;
    "INV-IDENTIFIER" |s| process(s, DRAINING).detached = false
        => "INV-PROCESS-ACCESSIBLE", "INV-ACTIVE", "INV-DRAINING";
    "INV-IDENTIFIER" |s| { let twin = process(s, IDLE).clone(); s.processes.push(twin) };
    "INV-IDENTIFIER" |s| s.spawns[0].ticket = BUSY => "INV-SPAWNING";
    "INV-WAITING" |s| s.waiting += 1;
    "INV-WAITING" |s| (s.clients[5].at, s.clients[5].group) = (At::Waiting(Condition::GlobalQueue), A);
    "INV-EXACT-WAKE-UP" |s| (s.groups[A].queue, s.waiting) = (vec![1], 2) => "INV-WANT";
    "INV-WAIT-HAS-CAUSE" |s| s.groups[B].spawning = None => "INV-WANT";
    "INV-MARKED" |s| process(s, BUSY).marked = true;
    "INV-MARKED" |s| s.marked.push(BUSY);
    "INV-MARKED" |s| (process(s, BUSY).marked, s.marked) = (true, vec![BUSY]);
    "INV-TOTALS" |s| s.totals.detached += 1;
    "INV-BACK-OFF" |s| s.backing_off.clear();
    "INV-BACK-OFF" |s| s.groups[C].last_error = false;
    "INV-BACK-OFF" |s| (s.groups[C].queue, s.waiting) = (vec![1], 2) => "INV-WAIT-HAS-CAUSE";
    "INV-OUTDATED" |s| s.groups[A].outdated = 1 => "INV-WANT";
    "INV-OUTDATED" |s| s.groups[A].generation += 1;
    "INV-EVICTABLE" |s| s.groups[A].idle = 1 => "INV-GROUP-SIZE";
    "INV-WANT" |s| s.groups[C].want = Want::More;
    "INV-WANT" |s| s.more.push(C);
    "INV-WANT" |s| (s.groups[C].want, s.first) = (Want::First, vec![C]) => "INV-MARKED";
    "INV-LAST-SERVED" |s| (s.more, s.groups[A].room_due) = (vec![A, C], 99) => "INV-WANT";
    "INV-DISABLED" |s| s.groups[A].disabled = 1 => "INV-EVICTABLE";
    "INV-CLOSED" |s| s.closed = true;
    "INV-CLOSED" |s| { *s = closed(); s.more.push(A) } => "INV-WANT";
}

#[test]
fn every_broken_invariant_is_reported() {
    let mut reported = BTreeSet::new();
    for (row, (name, change, others)) in BROKEN_INVARIANTS.iter().enumerate() {
        let mut pool = well_formed();
        change(&mut pool);
        let broken: BTreeSet<_> = pool.config().broken(&pool).into_iter().collect();
        let expected = others.iter().copied().chain([*name]).collect();
        assert_eq!(broken, expected, "row {row}: {name}");
        reported.insert(*name);
    }
    let all: BTreeSet<_> = INVARIANTS.iter().map(|invariant| invariant.name).collect();
    assert_eq!(reported, all, "every invariant has a row");
}

/// A step that keeps a property, and a change of the state after it that breaks the property.
struct Step {
    name: &'static str,
    before: Pool,
    action: Action,
    change: Change,
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

/// Returns a pool in which two clients wait for a group's first process, which has room for both.
fn two_wait() -> Pool {
    after(one(Options::new("a").private(), 1, 3), &[get(0, A), get(1, A)])
}
/// Returns a pool whose group has one process and a `restart.txt` that was touched after its look.
fn touched(options: Options) -> Pool {
    let config = touching(Config::new(vec![options, Options::new("b")], 2, 2));
    after(config, &[get(0, A), ready(1), close(0), Action::Touch { dir: 0 }])
}
/// Returns a pool whose group has one process and a `restart.txt` that was deleted after its look.
fn deleted() -> Pool {
    let config = touching(one(Options::new("a"), 1, 1)).but(|config| config.restart_file = true);
    after(config, &[get(0, A), ready(1), close(0), Action::Delete { dir: 0 }])
}
/// Returns a pool in which a client connects to its process; either side may fail.
fn connecting() -> Pool {
    let config = touching(one(Options::new("a"), 1, 1)).but(|config| config.connects = true);
    let config = config.with(|env| (env.processes_fail, env.early_deaths) = (true, true));
    let config = config.with(|env| env.clients_fail = true);
    after(config, &[get(0, A), ready(1)])
}
/// Returns a pool whose idle process has had no session.
fn unproved() -> Pool {
    let mut pool = connecting();
    pool.apply(&cannot_connect(true));
    pool
}
/// Returns a pool in which a client connects, and `restart.txt` was touched.
fn looks_again() -> Pool {
    let mut pool = connecting();
    pool.apply(&Action::Touch { dir: 0 });
    pool
}
/// Returns a pool in which a client connects while another get waits.
fn two_look() -> Pool {
    let config = one(Options::new("a"), 1, 2).but(|config| config.connects = true);
    let config = config.with(|env| env.processes_fail = true);
    after(config, &[get(0, A), ready(1), get(1, A)])
}
/// Returns a pool with one busy process and one idle one.
fn a_choice() -> Pool {
    let config = one(Options::new("a").private(), 2, 3);
    after(config, &[get(0, A), ready(1), get(1, A), ready(2), close(1)])
}
/// Returns a pool with two idle processes; a minimum protects the first.
fn protected_and_not() -> Pool {
    let groups = vec![Options::new("a").min(1), Options::new("b"), Options::new("c")];
    let serve = [get(0, A), ready(1), get(1, B), ready(2)];
    after(Config::new(groups, 2, 3), &[&serve[..], &[close(0), close(1)]].concat())
}
/// Returns a pool whose gets bring options other than the group's.
fn other_options() -> Pool {
    let config = one(Options::new("a"), 1, 2).or(A, |options| options.max_requests = 2);
    let set = Action::SetOptions { group: A, options: 1 };
    after(config, &[get(0, A), ready(1), close(0), set])
}
/// Returns an empty pool in which only one get may wait.
fn bounded() -> Pool {
    after(one(Options { max_queue: 1, ..Options::new("a") }, 1, 2), &[])
}
/// Returns a pool with a cancelled spawn in flight.
fn unwanted() -> Pool {
    let config = one(Options::new("a"), 1, 1).with(|env| {
        (env.give_up, env.detach_group) = (true, true);
    });
    after(config, &[get(0, A), Action::GiveUp { client: 0 }, Action::DetachGroup { group: A }])
}
/// Returns a pool with room for a second process, whose first one is busy.
fn full() -> Pool {
    after(one(Options::new("a"), 2, 2), &[get(0, A), ready(1)])
}
/// Returns the same, and the process is disabled.
fn disabled() -> Pool {
    let config = one(Options::new("a"), 2, 2).with(|env| env.disable = true);
    after(config, &[get(0, A), ready(1), Action::Disable { process: 1 }])
}
/// Returns a pool with the spawn of a process in flight that may be given one session.
fn last_session() -> Pool {
    after(one(Options { max_requests: 1, ..Options::new("a") }, 1, 1), &[get(0, A)])
}
/// Returns a pool with the spawn of a second process in flight.
fn grows() -> Pool {
    let config =
        one(Options::new("a"), 2, 2).with(|env| (env.spawns_fail, env.time) = (true, true));
    after(config, &[get(0, A), ready(1), get(1, A)])
}
/// Returns a full pool after more actions. Client 0 has a session with the only process of group a, whose successor is
/// being spawned. Another client waits for one more process of group b, which starves after two ticks.
fn rolls_beside(more: &[Action]) -> Pool {
    let groups = vec![Options::new("a").rolling(), Options::new("b")];
    let config = touching(Config::new(groups, 2, 3));
    let config = config.with(|env| (env.spawns_fail, env.time) = (true, true));
    let serve = [get(0, A), ready(1), get(1, B), ready(2), get(2, B), close(0)];
    let restart = [Action::Touch { dir: 0 }, get(0, A)];
    after(config, &[&serve[..], &restart, more].concat())
}
/// Returns the same with an idle process. Group b starves.
fn starves_beside() -> Pool {
    rolls_beside(&[close(0), Action::Tick, Action::Tick])
}
/// Returns a pool in which group b starves. Group a has an idle process, and a spawn in flight that holds a place.
fn grows_beside() -> Pool {
    let groups = vec![Options::new("a"), Options::new("b")];
    let config = Config::new(groups, 3, 3);
    let config = config.with(|env| (env.spawns_fail, env.time) = (true, true));
    let serve = [get(0, A), ready(1), get(1, B), ready(2), get(2, A), close(0)];
    let starve = [get(0, B), close(2), Action::Tick, Action::Tick];
    after(config, &[&serve[..], &starve].concat())
}
/// A process of group a is evicted for group b.
fn taken(process: usize) -> Event {
    detached(process, A, Reason::Evicted(Some(B)))
}
/// Returns a pool with an idle process, a punctual cleaner, and a `MAX_IDLE_TIME` of 2.
fn punctual() -> Pool {
    let config = one(Options::new("a"), 1, 1).but(|config| config.max_idle_time = 2);
    let config = config.with(|env| (env.time, env.punctual) = (true, true));
    after(config, &[get(0, A), ready(1), close(0)])
}
/// Returns a pool with the spawn of the only process's successor in flight.
fn rolling() -> Pool {
    let mut pool = touched(Options::new("a").rolling());
    pool.apply(&get(0, A));
    pool
}

/// Returns a pool whose group keeps a minimum and has an open session.
fn to_be_detached() -> Pool {
    let config = one(Options::new("a").min(1), 2, 1);
    let config = config.with(|env| (env.detach_group, env.close) = (true, true));
    after(config, &[get(0, A), ready(1)])
}
fn detach_a() -> Action {
    Action::DetachGroup { group: A }
}

/// Returns a pool in which the longest idle process is due and the other is not.
fn due() -> Pool {
    let mut pool = well_formed();
    pool.apply(&Action::Tick);
    pool
}
fn cannot_connect(local: bool) -> Action {
    Action::ConnectFails { client: 0, local }
}

macro_rules! steps {
    ($($name:literal: $before:expr, $action:expr, |$s:ident| $change:expr;)*) => {
        fn steps() -> Vec<Step> {
            vec![$(Step { name: $name, before: $before, action: $action, change: |$s| $change }),*]
        }
    };
}

steps! {
    "PROP-SESSIONS": well_formed(), close(3), |s| process(s, BUSY).sessions += 1;
    "PROP-SESSIONS": well_formed(), close(3), |s| process(s, DRAINING).sessions = 0;
    "PROP-CLOSE-POSSIBLE": well_formed(), get(1, A), |s| s.lock = Lock::Joining(A);
    "PROP-CLOSE-POSSIBLE": well_formed(), get(1, A), |s| s.lock = Lock::Spawning(1);
    "PROP-NO-ORPHAN": unwanted(), ready(1), |s| s.orphans = 1;
    // The second client is served, and the first keeps waiting.
    "PROP-NO-OVERTAKING": two_wait(), ready(1), |s| s.groups[A].queue = vec![0];
    // A client that did not wait is served while two wait.
    "PROP-NO-OVERTAKING": two_wait(), ready(1), |s| {
        s.events = vec![Event::Served { client: 2, process: 1 }];
        s.clients[2].at = At::InSession(Some(1));
        s.groups[A].queue = vec![0, 1];
    };
    "PROP-KEEPS-TURN": two_look(), cannot_connect(false), |s| s.groups[A].queue.reverse();
    "PROP-KEEPS-TURN": two_look(), cannot_connect(false),
        |s| s.events.push(Event::Failed { client: 0, why: Failure::QueueFull });
    "PROP-CHOICE": a_choice(), get(2, A), |s| s.clients[2].at = At::InSession(Some(1));
    "PROP-QUEUE-BOUND": bounded(), get(0, A), |s| s.groups[A].queue.push(1);
    "PROP-WORK-CONSERVING": grows(), Action::Tick, |s| (s.groups[A].spawning, s.reserved) = (None, 0);
    // Another spawn begins while the group's process is idle.
    "PROP-GROWTH": full(), get(1, A), |s| process(s, 1).sessions = 0;
    "PROP-SERVES-ON": full(), get(1, A), |s| process(s, 1).sessions = 0;
    "PROP-LAST-SESSION": last_session(), ready(1), |s| process(s, 1).detached = false;
    "PROP-IDLE-TIME": due(), Action::Clean, |s| s.events = vec![detached(IDLE, A, Reason::Idle)];
    "PROP-IDLE-BOUND": punctual(), Action::Tick, |s| s.now += 2;
    "PROP-DISABLED": disabled(), get(1, A),
        |s| s.events.push(Event::Served { client: 1, process: 1 });
    "PROP-HEALTHY-STAY": grows(), fails(2), |s| s.events.push(detached(1, A, Reason::SpawnFailed));
    // Group b does not starve yet, the process has a session, or it leaves for no other group.
    "PROP-HEALTHY-STAY": rolls_beside(&[close(0), Action::Tick]), fails(3), |s| s.events.push(taken(1));
    "PROP-HEALTHY-STAY": rolls_beside(&[Action::Tick, Action::Tick]), fails(3), |s| s.events.push(taken(1));
    "PROP-HEALTHY-STAY": starves_beside(), fails(3), |s| s.events.push(detached(1, A, Reason::Evicted(Some(A))));
    "PROP-HEALTHY-STAY": starves_beside(), fails(3), |s| s.events.push(detached(1, A, Reason::Evicted(None)));
    // The place of the failed spawn suffices for group b.
    "PROP-HEALTHY-STAY": grows_beside(), fails(3), |s| s.events.push(taken(1));
    "PROP-EARLY-DEATH": unproved(), Action::ProcessFails { process: 1 }, |s| s.groups[A].failures = 0;
    "PROP-BACK-OFF-SPARES": well_formed(), close(3),
        |s| s.events.push(detached(IDLE, A, Reason::Evicted(Some(C))));
    "PROP-VICTIM": protected_and_not(), get(2, C),
        |s| s.events = vec![detached(1, A, Reason::Evicted(Some(C)))];
    "PROP-LOCAL-FAILURE": connecting(), cannot_connect(true), |s| s.events.push(detached(1, A, Reason::Failed));
    "PROP-RESTART-SEEN": touched(Options::new("a")), get(0, A), |s| s.events.clear();
    // Another group restarts, which has not looked.
    "PROP-RESTART-CAUSE": touched(Options::new("a")), get(0, A),
        |s| s.events.push(Event::Restarting { group: B });
    "PROP-RESTART-LOSS": deleted(), get(0, A), |s| s.events.push(detached(1, A, Reason::Restarted));
    "PROP-RESTART-ONCE": looks_again(), cannot_connect(false),
        |s| s.events.push(Event::Restarting { group: A });
    // The old process is detached before its successor is attached.
    "PROP-ROLLING": rolling(), ready(2), |s| s.events.reverse();
    "PROP-ROLLING": rolling(), ready(2), |s| s.events.retain(|event| !matches!(event, Event::Attached { .. }));
    "PROP-DETACH-RESETS": to_be_detached(), detach_a(), |s| s.groups[A].reload_pending = true;
    "PROP-DETACH-RESETS": to_be_detached(), detach_a(), |s| s.groups[A].failures = 1;
    "PROP-DETACH-RESETS": to_be_detached(), detach_a(), |s| s.groups[A].last_error = true;
    "PROP-DETACH-RESETS": to_be_detached(), detach_a(), |s| s.groups[A].back_off_until = Some(9);
    "PROP-DETACH-RESETS": to_be_detached(), detach_a(), |s| s.groups[A].seen[0] = Some(None);
    "PROP-DETACH-RESETS": to_be_detached(), Action::ClosePool, |s| s.groups[A].failures = 1;
    "PROP-FORGOTTEN": to_be_detached(), detach_a(), |s| s.groups[A].spawning = Some(9);
    "PROP-FORGOTTEN": to_be_detached(), detach_a(), |s| s.groups[A].want = Want::More;
    "PROP-FORGOTTEN": to_be_detached(), detach_a(), |s| s.groups[A].size = 1;
    "PROP-FORGOTTEN": to_be_detached(), detach_a(),
        |s| (s.groups[A].known, s.groups[A].forgotten) = (true, false);
    "PROP-OPTIONS": other_options(), get(0, A), |s| s.groups[A].options = 0;
    "PROP-OPTIONS": other_options(), get(0, A), |s| process(s, 1).options = 1;
    "PROP-DETACHED-STATED": well_formed(), close(3), |s| s.groups[C].detached = true;
    "PROP-DETACHED-STATED": well_formed(), close(3), |s| process(s, IDLE).detached = true;
}

#[test]
fn every_broken_step_property_is_reported() {
    let mut reported = BTreeSet::new();
    for (row, Step { name, before, action, change }) in steps().into_iter().enumerate() {
        let property = STEP_PROPERTIES.iter().find(|property| property.name == name);
        let judge = property.expect("a property of this name").judge;
        assert!(before.enabled().contains(&action), "row {row}: {action:?} is not possible");
        let mut after = before.step(&action);
        assert_eq!(
            judge(before.config(), &before, &action, &after),
            Some(true),
            "row {row}: {name} holds"
        );
        change(&mut after);
        assert_eq!(
            judge(before.config(), &before, &action, &after),
            Some(false),
            "row {row}: {name} is broken"
        );
        reported.insert(name);
    }
    let all: BTreeSet<_> = STEP_PROPERTIES.iter().map(|property| property.name).collect();
    assert_eq!(reported, all, "every property has a row");
}
