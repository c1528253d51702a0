//! Explores each scenario of the load interlock to its last state, finds each defect's shortest counterexample, and
//! checks that each planted fault is detected. The counts are pinned, so a change of the machine is noticed.
//!
//! `CABRANK_STORE_STORIES=1 cargo test -p cabrank-spec --test interlock` stores the current stories.

mod common;

use cabrank_spec::check::{Promises, check, counterexample};
use cabrank_spec::checker::{Ended, Machine, Search, explore};
use cabrank_spec::interlock::defects::{shown, story};
use cabrank_spec::interlock::rules::{Defect, Planted, Rules};
use cabrank_spec::interlock::scenarios::{Scenario, all, named, parents, programs};
use cabrank_spec::interlock::script::{Action, Op, Script, Step, World};
use cabrank_spec::interlock::state::Purpose::{Load, Unload};
use cabrank_spec::interlock::state::{Event, Interlock, Refusal};
use common::{Pinned, assert_mended, checked, compare_story, note};
use std::cell::RefCell;
use std::collections::BTreeSet;

const PINNED: &[Pinned] = &[
    ("two-loaders", 49, 68, 10),
    ("loaders-who-meet-afterwards", 30, 38, 15),
    ("guide-with-permit", 16, 17, 12),
    ("guide-without-permit", 16, 16, 9),
    ("guide-with-a-bystander", 77, 131, 13),
    ("guide-undeclared", 10, 9, 9),
    ("guide-futures", 223, 482, 21),
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
    ("undeclared-through-a-permit", 38, 63, 16),
    ("waits-for-both", 58, 91, 13),
];

/// The number of meetings of three [`programs`], and of their states.
const MEETINGS: (usize, usize) = (4340, 1_027_311);
/// The number of meetings of four, and of their states.
const MEETINGS_OF_FOUR: (usize, usize) = (1582, 1_911_383);
/// The number of requests refused with `Deadlock`, in the scenarios and the meetings of three.
const REFUSED: usize = 13_238;
/// The number of streams, and of their states.
const STREAMS: (usize, usize) = (2100, 993_862);

/// Returns the property that does not hold, or `outcomes` if the outcomes differ from the scenario's.
fn detected(scenario: &Scenario, rules: Rules) -> Option<&'static str> {
    match check(&scenario.world(rules)) {
        Ok(found) => (found.ends != ends(scenario)).then_some("outcomes"),
        Err(counterexample) => Some(counterexample.what),
    }
}

fn ends(scenario: &Scenario) -> BTreeSet<String> {
    scenario.ends.iter().map(|end| end.to_string()).collect()
}

fn world(name: &str) -> World {
    named(name).expect("a scenario").world(Rules::AS_MENDED)
}

#[test]
fn every_scenario_holds_as_mended() {
    let mut counts = vec![];
    for scenario in all() {
        let (count, found) =
            checked(scenario.name, scenario.shows, &scenario.world(Rules::AS_MENDED));
        assert_eq!(found.ends, ends(&scenario), "{}", scenario.name);
        counts.push(count);
    }
    assert_eq!(counts, PINNED, "the counts have changed");
}

/// With all its defects, Rails breaks these scenarios.
#[test]
fn rails_breaks_the_scenarios_of_its_defects() {
    let breaks = |name: &str, what: &str| {
        let scenario = named(name).expect("a scenario");
        let found = counterexample(&scenario.world(Rules::AS_IN_RAILS), what);
        assert!(found.is_some(), "{name}: {what} holds");
    };
    breaks("load-in-permit", "INV-ILK-SEES-ONE-WORLD");
    breaks("permit-in-permit", "INV-ILK-NO-PERMIT-IN-UNLOAD");
    breaks("stream-x-pending-unload", "PROP-ILK-REQUESTS-END");
    breaks("two-unnamed", "deadlock");
    breaks("guide-without-permit", "deadlock");
    breaks("child-reloads", "deadlock");
    breaks("permit-x-upgraded-unload-x-child", "deadlock");
    breaks("dies-with-a-share", "deadlock");
}

#[test]
fn each_story_equals_the_stored_one() {
    for &defect in Defect::ALL {
        compare_story(&defect.name(), &story(defect));
    }
}

#[test]
fn a_property_that_a_defect_breaks_holds_as_mended() {
    for &defect in Defect::ALL {
        let (breaks, scenario) = shown(defect);
        let original = scenario.world(Rules::AS_MENDED.but(defect));
        assert_mended(&defect.name(), breaks, &original, &scenario.world(Rules::AS_MENDED));
    }
}

#[test]
fn every_planted_fault_is_detected() {
    for &fault in Planted::ALL {
        let rules = Rules::AS_MENDED.with(fault);
        let by: Vec<_> = all()
            .iter()
            .filter_map(|scenario| Some((scenario.name, detected(scenario, rules)?)))
            .collect();
        let &(name, what) = by.first().unwrap_or_else(|| panic!("undetected: {}", fault.is()));
        let count = by.len();
        note(&format!(
            "{fault:?}: detected in {count} scenarios, in {name}: {what} ({})",
            fault.is()
        ));
        if fault == Planted::PermitAcceptsUnload {
            assert_eq!(count, 10, "{by:?}");
        }
    }
}

/// Each promised property is broken by some defect or fault.
#[test]
fn every_property_can_be_broken() {
    let defects = Defect::ALL.iter().map(|&defect| Rules::AS_MENDED.but(defect));
    let faults = Planted::ALL.iter().map(|&fault| Rules::AS_MENDED.with(fault));
    let rules: Vec<_> = defects.chain(faults).collect();
    for (name, _) in World::promises() {
        let breaks = |rules: &Rules, scenario: &Scenario| {
            counterexample(&scenario.world(*rules), name).is_some()
        };
        let broken = all().iter().any(|scenario| rules.iter().any(|rules| breaks(rules, scenario)));
        assert!(broken, "no defect or fault breaks {name}");
    }
}

/// The interlock does not know of an undeclared wait: without its time limit the child waits for ever.
#[test]
fn only_a_time_limit_ends_an_undeclared_deadlock() {
    for name in ["guide-undeclared", "undeclared-child-x-unload", "undeclared-through-a-permit"] {
        let mut world = world(name);
        assert!(check(&world).is_ok());
        for op in world.scripts.iter_mut().flat_map(|script| &mut script.ops) {
            if let Op::AcquireFor(purpose) = *op {
                *op = Op::Acquire(purpose);
            }
        }
        assert!(counterexample(&world, "deadlock").is_some(), "{name}");
    }
}

/// Not promised: a newcomer starves while others load or unload for ever.
#[test]
fn a_newcomer_may_starve() {
    for name in ["stream-x-upgraded-unload", "unloads-again-and-again"] {
        let world = world(name);
        let starves = counterexample(&world, "PROP-ILK-ENTERS").expect("the owner starves");
        assert!(starves.for_ever.len() > 1, "{starves:?}");
    }
}

/// Not promised: the end of a permit block starves while two owners load for ever without shares, because guard C comes
/// and goes.
#[test]
fn the_end_of_a_permit_block_may_starve() {
    let loads = [Op::Acquire(Load), Op::Release, Op::Again];
    let scripts = vec![
        script(None, &("parent", vec![Op::Enter, Op::Permit, Op::End, Op::Leave])),
        script(None, &("a", loads.to_vec())),
        script(None, &("b", loads.to_vec())),
    ];
    let world = World { scripts, rules: Rules::AS_MENDED };
    let starves = counterexample(&world, "PROP-ILK-PERMIT-ENDS").expect("the owner starves");
    assert!(
        !starves.for_ever.is_empty() && starves.for_ever.iter().all(|action| action.owner != 0)
    );
}

/// Returns every three programs, and every parent with every child and every third program.
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

/// Returns every four of some programs, and every parent with every child and every two others of them.
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

/// Checks every promise in each world, but not the outcomes. Returns the number of worlds and of their states.
fn all_hold(worlds: &[World]) -> (usize, usize) {
    let states = worlds.iter().map(|world| match check(world) {
        Ok(found) => found.states,
        Err(broken) => panic!("{}", world.tell(&broken)),
    });
    let found = (worlds.len(), states.sum());
    note(&format!("{} meetings, {} states", found.0, found.1));
    found
}

#[test]
fn every_meeting_of_three_holds() {
    assert_eq!(all_hold(&meetings()), MEETINGS, "the counts have changed");
}

#[test]
fn every_meeting_of_four_holds() {
    assert_eq!(all_hold(&meetings_of_four()), MEETINGS_OF_FOUR, "the counts have changed");
}

fn script(parent: Option<usize>, (name, ops): &(&'static str, Vec<Op>)) -> Script {
    Script { name, parent, ops: ops.clone() }
}

/// Two executions that begin again and again starve no request and no owner that drains or gave up
/// (PROP-ILK-REQUESTS-END).
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
                    check(&world).unwrap_or_else(|broken| panic!("{}", world.tell(&broken)));
                worlds += 1;
                states += found.states;
            }
        }
    }
    note(&format!("{worlds} streams, {states} states"));
    assert_eq!((worlds, states), STREAMS, "the counts have changed");
}

/// Not promised: an endless stream of loads outside any execution starves an unload. The library has a queue for
/// requests of owners outside executions.
#[test]
fn loads_out_of_executions_may_starve_an_unload() {
    let loads = ("loader", vec![Op::Acquire(Load), Op::Release, Op::Again]);
    let unloads = ("reloader", vec![Op::Acquire(Unload), Op::Unload, Op::Release]);
    let scripts = vec![script(None, &loads), script(None, &unloads)];
    let world = World { scripts, rules: Rules::AS_MENDED };
    let starves = counterexample(&world, "PROP-ILK-REQUESTS-END").expect("the owner starves");
    assert!(
        !starves.for_ever.is_empty() && starves.for_ever.iter().all(|action| action.owner == 0)
    );
}

/// A world from a given state on, in which no time limit expires.
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

/// Returns the number of requests that a world refuses with `Deadlock`, and checks that only a time limit would have
/// ended each of these waits.
fn refused_with_deadlock(world: &World) -> usize {
    let rules = Rules::AS_MENDED.with(Planted::DeadlockUnreported);
    let waiting = World { rules, ..world.clone() };
    let refused = RefCell::new(0);
    let look = |before: &Interlock, action: &Action, after: &Interlock| {
        if !after.events.contains(&Event::Refused(Refusal::Deadlock)) {
            return None;
        }
        *refused.borrow_mut() += 1;
        let before = Interlock { rules, ..before.clone() };
        // An owner that is refused entry has not begun to wait.
        let waits = waiting.actions(&before).contains(action);
        let state = if waits { waiting.step(&before, action) } else { before };
        let at = state.owners[action.owner].at;
        let goes_on =
            |s: &Interlock| (s.owners[action.owner].at != at).then_some("the owner goes on");
        let search = Search { broken: &goes_on, ..Search::nothing() };
        match explore(&From { world: waiting.clone(), state }, &search) {
            Err(Ended::Broken(way)) => Some(way.what),
            _ => None,
        }
    };
    let search = Search { broken_step: &look, ..Search::nothing() };
    match explore(world, &search) {
        Err(Ended::Broken(way)) => {
            panic!("refused although the wait would have ended: {}", world.tell(&way))
        }
        _ => refused.into_inner(),
    }
}

#[test]
fn an_owner_refused_with_deadlock_would_have_waited_for_ever() {
    let scenarios = all().into_iter().map(|scenario| scenario.world(Rules::AS_MENDED));
    let refused: usize =
        scenarios.chain(meetings()).map(|world| refused_with_deadlock(&world)).sum();
    note(&format!("refused with a deadlock: {refused} times"));
    assert_eq!(refused, REFUSED, "the count has changed");
}
