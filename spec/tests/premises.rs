//! Checks that each liveness property assumes exactly what it states.
//!
//! A property with an unstated assumption would be weaker, and no exploration in which it holds would
//! notice. Each property fails in some configuration, and would hold there with one more assumption. And
//! each property needs every assumption it has: without it, it fails somewhere.

use cabrank_spec::application_pool::configuration::{Config, Options, RestartMode};
use cabrank_spec::application_pool::liveness::{LIVENESS, kind, kind_and_class};
use cabrank_spec::application_pool::pool::{Action, Pool, SpawnResult};
use cabrank_spec::application_pool::rules::{Erratum, Erratum::*, Rules};
use cabrank_spec::checking::check::{marks, never};
use cabrank_spec::checking::machine::UNFAIR;
use cabrank_spec::checking::promises::Promises;
use cabrank_spec::checking::search::{Explored, Search, explore};
use std::collections::BTreeSet;

fn explored(config: &Config) -> Explored<Action> {
    let marks = |pool: &Pool| marks(config, pool);
    let search =
        Search { marks: &marks, kind: Some(&kind_and_class), ..Search::<Config>::nothing() };
    explore(config, &search).unwrap_or_else(|_| unreachable!("the search has no aims"))
}
fn holds(config: &Config, property: &Liveness) -> bool {
    never(config, &explored(config), property).is_none()
}
fn named(name: &str) -> Liveness {
    *Config::liveness(name).expect("the property exists")
}

fn one(options: Options, max: usize, clients: usize) -> Config {
    Config::new(vec![options], max, clients)
}
/// Two clients ask for a in turn, and one asks for b (E18). Time passes: the deadline of E37 makes room.
fn turns() -> Config {
    let groups = vec![Options::new("a").private(), Options::new("b").private()];
    timed(Config::new(groups, 1, 3)).but(|config| config.clients = vec![vec![0], vec![0], vec![1]])
}
/// The session of one client for a is endless, two others take turns, and one asks for b (E37).
fn endless() -> Config {
    let world = Config::new(vec![Options::new("a"), Options::new("b")], 2, 4);
    let world = world.but(|config| config.clients = vec![vec![0], vec![0], vec![0], vec![1]]);
    timed(world).with(|env| env.endless = vec![0])
}
/// All sessions may be endless.
fn all_endless() -> Config {
    let world = Config::new(vec![Options::new("a"), Options::new("b")], 1, 2);
    timed(world).with(|env| env.endless = vec![0, 1])
}
fn minimum() -> Config {
    one(Options::new("a").min(1), 1, 1).with(|env| env.detach = true)
}
fn rolling() -> Config {
    one(Options::new("a").rolling(), 2, 2).with(|env| env.touch = true)
}
fn without_room() -> Config {
    rolling().but(|config| config.max_draining = Some(0))
}
fn draining() -> Config {
    one(Options::new("a"), 1, 1).with(|env| (env.detach, env.time) = (true, true))
}
/// A pool with room for two processes and two clients.
fn growing() -> Config {
    one(Options::new("a"), 2, 2).with(|env| (env.spawns_fail, env.time) = (true, true))
}
fn failing(config: Config) -> Config {
    config.with(|env| env.spawns_fail = true)
}
fn timed(config: Config) -> Config {
    config.with(|env| env.time = true)
}

// The fairness classes of each kind of action: one for each of eight clients or groups.
const CLOSES: u8 = 2;
const CONNECTS: u8 = 1;
const SPAWNS: u8 = 3;
const SPAWNS_UNWANTED: u8 = 4;
const TICK: u8 = 40;
const CLEAN: u8 = 41;

type Liveness = cabrank_spec::checking::promises::Liveness<Config>;

/// A property, a configuration in which it fails, the errata as written there, and one more assumption.
type Premise = (&'static str, Config, &'static [Erratum], fn(&mut Liveness));

fn not_assumed() -> Vec<Premise> {
    let fewer_go_on = |p: &mut Liveness| p.may = 0;
    vec![
        // Gets may keep coming, and sessions may keep closing.
        ("PROP-EVERY-GET-ENDS", turns(), &[E18], |p| p.may &= !(1 << kind::GET)),
        ("PROP-EVERY-GET-ENDS", turns(), &[E18], |p| p.may &= !(1 << kind::CLOSE)),
        ("PROP-NO-GROUP-STARVES", turns(), &[E18], |p| p.may &= !(1 << kind::GET)),
        ("PROP-NO-GROUP-STARVES", turns(), &[E18], |p| p.may &= !(1 << kind::CLOSE)),
        ("PROP-NO-GROUP-STARVES", turns(), &[E18], fewer_go_on),
        // Time may keep passing.
        ("PROP-MINIMUM-REFILLED", timed(minimum()), &[E28], |p| p.may &= !(1 << kind::TIME)),
        ("PROP-RESTART-ENDS", timed(without_room()), &[], |p| p.may &= !(1 << kind::TIME)),
        // Gets may keep coming for the group that holds the place. (Idle processes leave in time.)
        ("PROP-ENDLESS-SESSIONS", endless().but(|config| config.max_idle_time = 1), &[E37], |p| {
            p.may &= !(1 << kind::GET);
        }),
        // Sessions need not close.
        ("PROP-DRAIN-ENDS", draining(), &[E13], |p| p.fair = |_| true),
    ]
}

#[test]
fn each_failing_property_holds_with_one_more_assumption() {
    let mut fail = BTreeSet::new();
    for (row, (name, world, written, assume)) in not_assumed().into_iter().enumerate() {
        let world = world.ruled(Rules::AS_RULED.but(written));
        let mut property = named(name);
        assert!(!holds(&world, &property), "row {row}: {name} holds");
        assume(&mut property);
        assert!(holds(&world, &property), "row {row}: {name} fails with the assumption");
        fail.insert(name);
    }
    let all: BTreeSet<_> = LIVENESS.iter().map(|property| property.name).collect();
    assert_eq!(fail, all, "every property has a row");
}

/// A waiting get may give up, and need not. If giving up were fair, both properties would hold.
#[test]
fn giving_up_is_not_fair() {
    let world = turns().with(|env| env.give_up = true).ruled(Rules::AS_RULED.but(&[E18]));
    for name in ["PROP-EVERY-GET-ENDS", "PROP-NO-GROUP-STARVES"] {
        assert!(!holds(&world, &named(name)), "{name}");
    }
}

/// While a session stays open, the next get is served if a spawn succeeds, and waits for ever if all
/// spawns fail.
#[test]
fn spawns_may_go_on_failing_while_a_get_waits() {
    let sessions_stay =
        Liveness { fair: |class| class / 8 != CLOSES, ..named("PROP-EVERY-GET-ENDS") };
    assert!(!holds(&growing(), &sessions_stay));
    let spawns_go_well =
        Liveness { may: sessions_stay.may & !(1 << kind::SPAWN_FAILS), ..sessions_stay };
    assert!(holds(&growing(), &spawns_go_well));
}

/// A get whose process crashes again and again ends (E38).
#[test]
fn processes_may_go_on_crashing_while_a_get_waits() {
    let crashing = Liveness {
        may: named("PROP-EVERY-GET-ENDS").may | 1 << kind::CLIENT_FAILS,
        ..named("PROP-EVERY-GET-ENDS")
    };
    for options in [Options::new("a"), Options { max_queue: 1, ..Options::new("a") }] {
        let world = one(options, 1, 3).but(|config| config.connects = true);
        let world = world.with(|env| env.processes_fail = true);
        assert!(holds(&world, &crashing));
        // As written it ends, too, but after gets that came later: PROP-KEEPS-TURN does not hold.
        assert!(holds(&world.ruled(Rules::AS_RULED.but(&[E38])), &crashing));
    }
}

/// A property, a configuration in which it holds, and the classes that stay fair.
type Needed = (&'static str, Config, fn(u8) -> bool);

#[test]
fn each_assumption_is_needed() {
    let connecting = |config: Config| {
        config.but(|config| config.connects = true).with(|env| env.processes_fail = true)
    };
    let needed: [Needed; 19] = [
        ("PROP-EVERY-GET-ENDS", connecting(one(Options::new("a"), 1, 2)), |c| c / 8 != CONNECTS),
        ("PROP-EVERY-GET-ENDS", one(Options::new("a"), 1, 2), |c| c / 8 != CLOSES),
        ("PROP-EVERY-GET-ENDS", one(Options::new("a"), 1, 1), |c| c / 8 != SPAWNS),
        ("PROP-EVERY-GET-ENDS", failing(rolling()), |c| c / 8 != SPAWNS_UNWANTED),
        ("PROP-NO-GROUP-STARVES", turns(), |c| c != TICK),
        ("PROP-NO-GROUP-STARVES", turns(), |c| c != CLEAN),
        ("PROP-NO-GROUP-STARVES", turns(), |c| c / 8 != SPAWNS),
        ("PROP-MINIMUM-REFILLED", minimum(), |c| c / 8 != SPAWNS),
        ("PROP-MINIMUM-REFILLED", timed(failing(minimum())), |c| c != TICK),
        ("PROP-MINIMUM-REFILLED", timed(failing(minimum())), |c| c != CLEAN),
        ("PROP-RESTART-ENDS", rolling(), |c| c / 8 != CLOSES),
        ("PROP-RESTART-ENDS", rolling(), |c| c / 8 != SPAWNS),
        ("PROP-RESTART-ENDS", rolling(), |c| c / 8 != SPAWNS_UNWANTED),
        ("PROP-ENDLESS-SESSIONS", all_endless(), |c| c != TICK),
        ("PROP-ENDLESS-SESSIONS", all_endless(), |c| c != CLEAN),
        ("PROP-ENDLESS-SESSIONS", all_endless(), |c| c / 8 != SPAWNS),
        ("PROP-ENDLESS-SESSIONS", endless(), |c| c / 8 != CLOSES),
        ("PROP-DRAIN-ENDS", draining(), |c| c / 8 != CLOSES && c != TICK),
        ("PROP-DRAIN-ENDS", draining(), |c| c / 8 != CLOSES && c != CLEAN),
    ];
    for (row, (name, world, fair)) in needed.into_iter().enumerate() {
        let property = named(name);
        assert!(holds(&world, &property), "row {row}: {name} fails");
        assert!(
            !holds(&world, &Liveness { fair, ..property }),
            "row {row}: {name} holds without the assumption"
        );
    }
}

/// Pins, for each property, the kinds that may go on for ever and whether closes are fair.
#[test]
fn the_assumptions_are_pinned() {
    let failing = kind::QUIET | 1 << kind::SPAWN_FAILS;
    let pinned = [
        ("PROP-EVERY-GET-ENDS", failing, true),
        ("PROP-NO-GROUP-STARVES", failing, true),
        ("PROP-MINIMUM-REFILLED", kind::QUIET, true),
        ("PROP-RESTART-ENDS", kind::QUIET, true),
        ("PROP-DRAIN-ENDS", failing | 1 << kind::CLIENT_FAILS, false),
        ("PROP-ENDLESS-SESSIONS", failing, true),
    ];
    let stated: Vec<_> = LIVENESS.iter().map(|p| (p.name, p.may, (p.fair)(CLOSES * 8))).collect();
    assert_eq!(stated, pinned);
    let quiet = [kind::GET, kind::SERVED, kind::CLOSE, kind::SPAWN_OK, kind::TIME];
    assert_eq!(kind::QUIET, quiet.iter().map(|kind| 1 << kind).sum::<u64>());
    let others = |p: &Liveness| (0..42).all(|class| class / 8 == CLOSES || (p.fair)(class));
    assert!(LIVENESS.iter().all(others), "all other classes are fair");
}

#[test]
fn the_classes_of_all_actions_are_pinned() {
    let mut pool = Pool::new(growing());
    pool.apply(&Action::Get { client: 0, group: 0 });
    let of = |action: Action| kind_and_class(&pool, &action);
    let client = 0;
    assert_eq!(of(Action::GiveUp { client }), (kind::CLIENT_FAILS, UNFAIR));
    for action in [Action::Get { client, group: 0 }, Action::TryGet { client, group: 0 }] {
        assert_eq!(of(action), (kind::GET, UNFAIR));
    }
    let environment = [
        Action::Touch { dir: 0 },
        Action::Delete { dir: 0 },
        Action::Detach { process: 1 },
        Action::ProcessFails { process: 1 },
        Action::Disable { process: 1 },
        Action::Enable { process: 1 },
        Action::DetachGroup { group: 0 },
        Action::RestartGroup { group: 0, mode: RestartMode::Immediate },
        Action::PreStart { group: 0 },
        Action::SetOptions { group: 0, options: 0 },
        Action::SetMax(1),
        Action::SetMaxPerApp(1),
        Action::SetMaxIdleTime(1),
        Action::ClosePool,
    ];
    for action in environment {
        assert_eq!(of(action), (kind::ENVIRONMENT, UNFAIR));
    }
    // A failure has the class of the success: the action need never succeed.
    let spawn = |result| of(Action::SpawnEnds { ticket: 1, result });
    assert_eq!(spawn(SpawnResult::Process), (kind::SPAWN_OK, SPAWNS * 8));
    assert_eq!(spawn(SpawnResult::Error), (kind::SPAWN_FAILS, SPAWNS * 8));
    assert_eq!(spawn(SpawnResult::NoThread), (kind::SPAWN_FAILS, SPAWNS * 8));
    assert_eq!(of(Action::Connected { client }), (kind::SERVED, CONNECTS * 8));
    let fails = Action::ConnectFails { client, local: false };
    assert_eq!(of(fails), (kind::CLIENT_FAILS, CONNECTS * 8));
    assert_eq!(of(Action::CloseSession { client }), (kind::CLOSE, CLOSES * 8));
    assert_eq!(of(Action::SessionFails { client }), (kind::CLIENT_FAILS, CLOSES * 8));
}
