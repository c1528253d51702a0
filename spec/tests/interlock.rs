//! The load interlock: every scenario to its last state, each defect's shortest counterexample, and that
//! every fault that could be planted in a rule is noticed. The figures are pinned: if the machine
//! changes, so do they, and whoever changes it looks twice.
//!
//! To store the stories that are told now:
//! `CABRANK_STORE_STORIES=1 cargo test -p cabrank-spec --test interlock`.

use cabrank_spec::checker::{Ended, Machine, Search, explore};
use cabrank_spec::interlock::defects::{shown, story};
use cabrank_spec::interlock::exploration::{check, counterexample};
use cabrank_spec::interlock::properties::{LIVENESS, PROPERTIES, STEP_PROPERTIES};
use cabrank_spec::interlock::rules::{Defect, Planted, Rules};
use cabrank_spec::interlock::scenarios::{Scenario, all, named, parents, programs};
use cabrank_spec::interlock::script::{Action, Op, Script, Step, World};
use cabrank_spec::interlock::state::Purpose::{Load, Unload};
use cabrank_spec::interlock::state::{Event, Interlock, Refusal};
use cabrank_spec::interlock::story::tell;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io::Write;

/// Name, states, steps, depth.
const PINNED: &[(&str, usize, usize, usize)] = &[
    ("two-loaders", 49, 68, 10),
    ("loaders-who-meet-afterwards", 30, 38, 15),
    ("seed-with-permit", 16, 17, 12),
    ("seed-without-permit", 16, 16, 9),
    ("seed-with-a-bystander", 77, 131, 13),
    ("seed-untold", 10, 9, 9),
    ("seed-futures", 223, 482, 21),
    ("permit-x-unload-x-child", 51, 71, 15),
    ("permit-x-upgraded-unload-x-child", 84, 134, 18),
    ("waiting-parent-x-unload", 42, 62, 12),
    ("grandchild-x-unload", 108, 222, 16),
    ("undeclared-child-x-unload", 66, 110, 12),
    ("child-reloads", 17, 22, 10),
    ("child-reloads-x-draining-parent", 106, 191, 14),
    ("two-unloads", 57, 76, 12),
    ("two-unloads-x-sharer", 101, 146, 12),
    ("loads-x-unloads", 752, 1322, 18),
    ("load-x-pending-unload", 312, 687, 14),
    ("stream-x-pending-unload", 14, 27, 5),
    ("stream-x-upgraded-unload", 43, 85, 9),
    ("unloads-again-and-again", 80, 154, 12),
    ("two-unnamed", 41, 46, 10),
    ("unnamed-x-load", 109, 168, 11),
    ("two-unnamed-pending", 57, 84, 9),
    ("drain-x-unnamed", 226, 326, 12),
    ("drain-x-permit", 249, 365, 18),
    ("load-in-permit", 131, 206, 13),
    ("permit-in-permit", 16, 18, 11),
    ("run-in-permit", 82, 122, 16),
    ("unloads-in-permits", 66, 84, 14),
    ("unload-in-permit", 172, 278, 16),
    ("nested", 85, 114, 18),
    ("unload-in-load", 35, 50, 10),
    ("load-in-unload", 37, 46, 12),
    ("try", 162, 313, 13),
    ("cancel-x-grant", 768, 1523, 17),
    ("cancelled-unload", 204, 400, 13),
    ("cancelled-pending-unload", 85, 159, 9),
    ("dies-with-a-share", 23, 31, 8),
    ("dies-holding", 115, 177, 12),
    ("parent-loads-while-it-waits", 24, 28, 10),
    ("holder-waits-for-a-permitting-child", 40, 53, 13),
    ("drain-x-waiting-parent", 188, 323, 15),
    ("cancelled-drain", 319, 587, 15),
    ("dropped-lock", 127, 194, 13),
    ("circle-through-a-permit", 46, 61, 16),
    ("untold-through-a-permit", 38, 63, 16),
    ("waits-for-both", 58, 91, 13),
];

/// How many meetings there are of [`programs`], and states in all.
const MEETINGS: (usize, usize) = (4340, 1_027_311);
/// The same of four.
const MEETINGS_OF_FOUR: (usize, usize) = (1582, 1_911_383);
/// How often somebody is told of a deadlock, in all of them and in the scenarios.
const TOLD: usize = 13_238;
/// The same of the streams.
const STREAMS: (usize, usize) = (2100, 993_862);

/// What is noticed: a property that does not hold, or another end than the scenario's.
fn noticed(scenario: &Scenario, rules: Rules) -> Option<&'static str> {
    match check(&scenario.world(rules)) {
        Ok(found) => (found.ends != ends(scenario)).then_some("ends"),
        Err(counterexample) => Some(counterexample.what),
    }
}

fn ends(scenario: &Scenario) -> BTreeSet<String> {
    scenario.ends.iter().map(|end| end.to_string()).collect()
}

#[test]
fn every_scenario_holds_as_mended() {
    let mut found_all = vec![];
    for scenario in all() {
        let world = scenario.world(Rules::AS_MENDED);
        let found = check(&world)
            .unwrap_or_else(|broken| panic!("{}\n{}", scenario.name, tell(&world, &broken)));
        assert_eq!(found.ends, ends(&scenario), "{}", scenario.name);
        // Past the test harness, which shows what failed only.
        let _ = writeln!(
            std::io::stderr(),
            "{}: {} states, {} steps, depth {} ({})",
            scenario.name,
            found.states,
            found.steps,
            found.depth,
            scenario.shows
        );
        found_all.push((scenario.name, found.states, found.steps, found.depth));
    }
    assert_eq!(found_all, PINNED, "the figures have changed");
}

/// Rails itself: the scenarios in which something does not hold that does as mended.
#[test]
fn rails_breaks_what_its_defects_break() {
    let breaks = |name: &str, what: &str| {
        let scenario = named(name).expect("a scenario");
        let found = counterexample(&scenario.world(Rules::AS_IN_RAILS), what);
        assert!(found.is_some(), "{name}: {what} holds");
    };
    breaks("load-in-permit", "INV-ILK-SEES-ONE-WORLD");
    breaks("permit-in-permit", "INV-ILK-NO-PERMIT-IN-UNLOAD");
    breaks("stream-x-pending-unload", "PROP-ILK-REQUESTS-END");
    breaks("two-unnamed", "deadlock");
    breaks("seed-without-permit", "deadlock");
    breaks("child-reloads", "deadlock");
    breaks("permit-x-upgraded-unload-x-child", "deadlock");
    breaks("dies-with-a-share", "deadlock");
}

#[test]
fn each_story_is_the_one_that_is_stored() {
    for &defect in Defect::ALL {
        let file = format!("{}/stories/{}.txt", env!("CARGO_MANIFEST_DIR"), defect.name());
        let told = story(defect);
        if std::env::var_os("CABRANK_STORE_STORIES").is_some() {
            std::fs::write(&file, &told).expect("stored");
        }
        let stored = std::fs::read_to_string(&file).unwrap_or_default();
        assert_eq!(told, stored, "the story of {defect:?} has changed");
    }
}

#[test]
fn what_a_defect_breaks_holds_as_mended() {
    for &defect in Defect::ALL {
        let (breaks, scenario) = shown(defect);
        let original = scenario.world(Rules::AS_MENDED.but(defect));
        assert!(counterexample(&original, breaks).is_some(), "{defect:?} breaks nothing");
        let mended = scenario.world(Rules::AS_MENDED);
        assert!(counterexample(&mended, breaks).is_none(), "{defect:?} is not mended");
    }
}

#[test]
fn every_planted_fault_is_noticed() {
    for &fault in Planted::ALL {
        let rules = Rules::AS_MENDED.with(fault);
        let by: Vec<_> = all()
            .iter()
            .filter_map(|scenario| Some((scenario.name, noticed(scenario, rules)?)))
            .collect();
        let first = by.first().map_or_else(String::new, |(name, what)| format!("{name}: {what}"));
        let _ = writeln!(
            std::io::stderr(),
            "{fault:?}: noticed in {} scenarios, in {first} ({})",
            by.len(),
            fault.is()
        );
        assert!(!by.is_empty(), "nobody notices that {}", fault.is());
        if fault == Planted::PermitAcceptsUnload {
            assert_eq!(by.len(), 10, "{by:?}");
        }
    }
}

/// No property is there for nothing: each is broken by some defect or fault.
#[test]
fn every_property_can_be_broken() {
    let defects = Defect::ALL.iter().map(|&defect| Rules::AS_MENDED.but(defect));
    let faults = Planted::ALL.iter().map(|&fault| Rules::AS_MENDED.with(fault));
    let rules: Vec<_> = defects.chain(faults).collect();
    let names = PROPERTIES.iter().map(|p| p.name).chain(STEP_PROPERTIES.iter().map(|p| p.name));
    for name in names.chain(LIVENESS.iter().filter(|p| p.promised).map(|p| p.name)) {
        let breaks = |rules: &Rules, scenario: &Scenario| {
            counterexample(&scenario.world(*rules), name).is_some()
        };
        let broken = all().iter().any(|scenario| rules.iter().any(|rules| breaks(rules, scenario)));
        assert!(broken, "nothing breaks {name}");
    }
}

/// What nobody is told of nobody can know: without its time limit the child waits for ever.
#[test]
fn a_wait_that_is_not_told_can_only_be_ended_by_a_time_limit() {
    for name in ["seed-untold", "undeclared-child-x-unload", "untold-through-a-permit"] {
        let mut world = named(name).expect("a scenario").world(Rules::AS_MENDED);
        assert!(check(&world).is_ok());
        for op in world.scripts.iter_mut().flat_map(|script| &mut script.ops) {
            if let Op::AcquireFor(purpose) = *op {
                *op = Op::Acquire(purpose);
            }
        }
        assert!(counterexample(&world, "deadlock").is_some(), "{name}");
    }
}

/// Not promised: a newcomer may wait for ever while others load, or one unloads, for ever.
#[test]
fn a_newcomer_may_starve() {
    for name in ["stream-x-upgraded-unload", "unloads-again-and-again"] {
        let world = named(name).expect("a scenario").world(Rules::AS_MENDED);
        let starves = counterexample(&world, "PROP-ILK-ENTERS").expect("it starves");
        assert!(starves.for_ever.len() > 1, "{starves:?}");
    }
}

/// Nor is who ends a permit block while two load for ever without shares: that nobody holds comes and goes.
#[test]
fn the_end_of_a_permit_block_may_starve() {
    let loads = [Op::Acquire(Load), Op::Release, Op::Again];
    let scripts = vec![
        script(None, &("parent", vec![Op::Enter, Op::Permit, Op::End, Op::Leave])),
        script(None, &("a", loads.to_vec())),
        script(None, &("b", loads.to_vec())),
    ];
    let world = World { scripts, rules: Rules::AS_MENDED };
    let starves = counterexample(&world, "PROP-ILK-PERMIT-ENDS").expect("it starves");
    assert!(
        !starves.for_ever.is_empty() && starves.for_ever.iter().all(|action| action.owner != 0)
    );
}

/// Every three of the programs, and every parent with every child and every third.
fn meetings() -> Vec<World> {
    let programs = programs();
    let mut worlds = vec![];
    for a in 0..programs.len() {
        for b in a..programs.len() {
            for c in b..programs.len() {
                let three = [a, b, c].map(|at| script(None, &programs[at]));
                worlds.push(World { scripts: three.to_vec(), rules: Rules::AS_MENDED });
            }
        }
    }
    for parent in parents(1) {
        for child in &programs {
            for third in &programs {
                let scripts =
                    vec![script(None, &parent), script(Some(0), child), script(None, third)];
                worlds.push(World { scripts, rules: Rules::AS_MENDED });
            }
        }
    }
    worlds
}

/// Every four of some programs, and every parent with every child and every two others of them.
fn meetings_of_four() -> Vec<World> {
    const SOME: &[&str] = &[
        "run",
        "unload",
        "run-load",
        "run-unload",
        "permit-load",
        "permit-unload",
        "unload-for-a-while",
    ];
    let programs: Vec<_> = programs().into_iter().filter(|(name, _)| SOME.contains(name)).collect();
    let mut worlds = vec![];
    for a in 0..programs.len() {
        for b in a..programs.len() {
            for c in 0..programs.len() {
                for d in c..programs.len() {
                    let four = [a, b, c, d].map(|at| script(None, &programs[at]));
                    if b <= c {
                        worlds.push(World { scripts: four.to_vec(), rules: Rules::AS_MENDED });
                    }
                }
                for parent in parents(1) {
                    let mut scripts = vec![script(None, &parent), script(Some(0), &programs[c])];
                    scripts.extend([a, b].map(|at| script(None, &programs[at])));
                    worlds.push(World { scripts, rules: Rules::AS_MENDED });
                }
            }
        }
    }
    worlds
}

/// Nothing breaks, whoever meets whom. Who is refused what is not looked at.
fn nothing_breaks(worlds: &[World]) -> (usize, usize) {
    let states = worlds.iter().map(|world| match check(world) {
        Ok(found) => found.states,
        Err(broken) => panic!("{}", tell(world, &broken)),
    });
    let found = (worlds.len(), states.sum());
    let _ = writeln!(std::io::stderr(), "{} meetings, {} states", found.0, found.1);
    found
}

#[test]
fn nobody_who_meets_anybody_breaks_anything() {
    assert_eq!(nothing_breaks(&meetings()), MEETINGS, "the figures have changed");
}

#[test]
fn nor_do_four() {
    assert_eq!(nothing_breaks(&meetings_of_four()), MEETINGS_OF_FOUR, "the figures have changed");
}

fn script(parent: Option<usize>, (name, ops): &(&'static str, Vec<Op>)) -> Script {
    Script { name, parent, ops: ops.clone() }
}

/// Two executions that begin again and again, whatever they do, keep no request waiting for ever, and
/// nobody who drains or gave up (PROP-ILK-REQUESTS-END).
#[test]
fn no_stream_of_executions_starves_a_request() {
    let programs = programs();
    let endless = |(name, ops): &(&'static str, Vec<Op>)| {
        let is_one = ops[0] == Op::Enter && !ops.contains(&Op::Die);
        is_one.then(|| (*name, [&ops[..], &[Op::Again]].concat()))
    };
    let streams: Vec<_> = programs.iter().filter_map(endless).collect();
    let (mut worlds, mut states) = (0, 0);
    for (at, a) in streams.iter().enumerate() {
        for b in &streams[at..] {
            for other in &programs {
                let scripts = vec![script(None, a), script(None, b), script(None, other)];
                let world = World { scripts, rules: Rules::AS_MENDED };
                let found =
                    check(&world).unwrap_or_else(|broken| panic!("{}", tell(&world, &broken)));
                worlds += 1;
                states += found.states;
            }
        }
    }
    let _ = writeln!(std::io::stderr(), "{worlds} streams, {states} states");
    assert_eq!((worlds, states), STREAMS, "the figures have changed");
}

/// Not promised: who loads again and again out of any execution keeps an unload waiting for ever. The
/// library does not let anybody: to load one must be in an execution.
#[test]
fn loads_out_of_executions_may_starve_an_unload() {
    let loads = ("loader", vec![Op::Acquire(Load), Op::Release, Op::Again]);
    let unloads = ("reloader", vec![Op::Acquire(Unload), Op::Unload, Op::Release]);
    let scripts = vec![script(None, &loads), script(None, &unloads)];
    let world = World { scripts, rules: Rules::AS_MENDED };
    let starves = counterexample(&world, "PROP-ILK-REQUESTS-END").expect("it starves");
    assert!(
        !starves.for_ever.is_empty() && starves.for_ever.iter().all(|action| action.owner == 0)
    );
}

/// A world from some state on, in which no time limit is ever up.
struct From {
    world: World,
    state: Interlock,
}

impl Machine for From {
    type State = Interlock;
    type Action = Action;
    fn initial(&self) -> Interlock {
        self.state.clone()
    }
    fn actions(&self, s: &Interlock) -> Vec<Action> {
        let mut actions = self.world.actions(s);
        actions.retain(|action| !matches!(action.step, Step::GiveUp(_)));
        actions
    }
    fn step(&self, s: &Interlock, action: &Action) -> Interlock {
        self.world.step(s, action)
    }
    fn normal(&self, s: &mut Interlock) {
        self.world.normal(s);
    }
    fn stuck(&self, s: &Interlock, actions: &[Action]) -> bool {
        self.world.stuck(s, actions)
    }
}

/// How often somebody is told of a deadlock in a world; each time nothing but a time limit would have ended
/// the wait.
fn told_of_a_deadlock(world: &World) -> usize {
    let rules = Rules::AS_MENDED.with(Planted::NobodyIsTold);
    let untold = World { rules, ..world.clone() };
    let told = RefCell::new(0);
    let look = |before: &Interlock, action: &Action, after: &Interlock| {
        if !after.told.contains(&Event::Refused(Refusal::Deadlock)) {
            return None;
        }
        *told.borrow_mut() += 1;
        let before = Interlock { rules, ..before.clone() };
        // Who is refused entry would not even have begun to wait.
        let waits = untold.actions(&before).contains(action);
        let state = if waits { untold.step(&before, action) } else { before };
        let at = state.owners[action.owner].at;
        let goes_on = |s: &Interlock| (s.owners[action.owner].at != at).then_some("it goes on");
        let search = Search { broken: &goes_on, ..Search::nothing() };
        match explore(&From { world: untold.clone(), state }, &search) {
            Err(Ended::Broken(way)) => Some(way.what),
            _ => None,
        }
    };
    let search = Search { broken_step: &look, ..Search::nothing() };
    match explore(world, &search) {
        Err(Ended::Broken(way)) => panic!("told in vain: {}", tell(world, &way)),
        _ => told.into_inner(),
    }
}

#[test]
fn whoever_is_told_of_a_deadlock_would_have_waited_for_ever() {
    let scenarios = all().into_iter().map(|scenario| scenario.world(Rules::AS_MENDED));
    let told: usize = scenarios.chain(meetings()).map(|world| told_of_a_deadlock(&world)).sum();
    let _ = writeln!(std::io::stderr(), "told of a deadlock: {told} times, each with reason");
    assert_eq!(told, TOLD, "the figure has changed");
}
