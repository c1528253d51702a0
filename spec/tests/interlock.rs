//! Explores each scenario of the load interlock to its last state, finds each defect's shortest counterexample, and
//! checks that each planted fault is detected. The counts are pinned, so a change of the machine is noticed.
//!
//! `CABRANK_STORE_STORIES=1 cargo test -p cabrank-spec --test interlock` stores the current stories.

mod common;

use cabrank_spec::checking::check::{check, counterexample};
use cabrank_spec::checking::machine::Machine;
use cabrank_spec::checking::promises::Promises;
use cabrank_spec::checking::search::{Search, explore};
use cabrank_spec::checking::story::story;
use cabrank_spec::checking::switches::Switch;
use cabrank_spec::checking::system::Named;
use cabrank_spec::interlock::rules::{Defect, Planted, Rules};
use cabrank_spec::interlock::scenarios::{again, all, named, owner, parents, programs};
use cabrank_spec::interlock::script::{Action, Op, Script, Step, World};
use cabrank_spec::interlock::state::Purpose::Unload;
use cabrank_spec::interlock::state::{Interlock, Sleep};
use common::{assert_detected, assert_shown, checked, note};

/// The numbers of worlds and of their states: meetings of three and of four programs, streams, and families.
const MEETINGS: (usize, usize) = (816, 453_524);
const MEETINGS_OF_FOUR: (usize, usize) = (330, 1_275_742);
const STREAMS: (usize, usize) = (1456, 1_032_588);
const FAMILIES: (usize, usize) = (1152, 786_423);

fn ruled(world: &World, rules: Rules) -> World {
    World { rules, ..world.clone() }
}

/// Returns the property that does not hold, or `outcomes` if the outcomes differ from the scenario's.
fn detected(scenario: &Named<World>, rules: Rules) -> Option<&'static str> {
    match check(&ruled(&scenario.machine, rules)) {
        Ok(found) => (!found.ends.iter().eq(scenario.ends)).then_some("outcomes"),
        Err(counterexample) => Some(counterexample.what),
    }
}

fn world(name: &str) -> World {
    named(name).expect("a scenario")
}

fn mended(scripts: impl Into<Vec<Script>>) -> World {
    World { scripts: scripts.into(), rules: Rules::AS_MENDED }
}

#[test]
fn every_scenario_holds_as_mended() {
    all().iter().for_each(|scenario| drop(checked(scenario)));
}

/// With all its defects, Rails breaks these scenarios.
#[test]
fn rails_breaks_the_scenarios_of_its_defects() {
    let breaks = |name: &str, what: &str| {
        let found = counterexample(&ruled(&world(name), Rules::AS_IN_RAILS), what);
        assert!(found.is_some(), "{name}: {what} holds");
    };
    breaks("load-in-permit", "INV-ILK-ONE-GENERATION");
    breaks("permit-in-permit", "INV-ILK-NO-PERMIT-IN-UNLOAD");
    breaks("stream-x-pending-unload", "PROP-ILK-UNLOADS-END");
    breaks("two-unnamed", "deadlock");
    breaks("permit-x-upgraded-unload-x-child", "deadlock");
    breaks("dies-with-a-share", "deadlock");
}

#[test]
fn each_defect_is_shown_by_its_stored_story_and_mended() {
    assert_shown::<Defect>();
}

#[test]
fn every_planted_fault_is_detected() {
    let scenarios = all();
    assert_detected(|fault| {
        let rules = Rules::AS_MENDED.with(fault);
        scenarios.iter().find_map(|scenario| Some((scenario.name, detected(scenario, rules)?)))
    });
}

/// Each promised property is broken by some defect or fault.
#[test]
fn every_property_can_be_broken() {
    let defects = Defect::ALL.iter().map(|&defect| Rules::AS_MENDED.but(&[defect]));
    let faults = Planted::ALL.iter().map(|&fault| Rules::AS_MENDED.with(fault));
    let rules: Vec<_> = defects.chain(faults).collect();
    for (name, _) in World::promises() {
        let breaks = |rules: &Rules, scenario: &Named<World>| {
            counterexample(&ruled(&scenario.machine, *rules), name).is_some()
        };
        let broken = all().iter().any(|scenario| rules.iter().any(|rules| breaks(rules, scenario)));
        assert!(broken, "no defect or fault breaks {name}");
    }
}

/// Checks every promise in each world, but not the outcomes. Returns the number of worlds and of their states.
fn all_hold(worlds: impl IntoIterator<Item = World>) -> (usize, usize) {
    let (mut count, mut states) = (0, 0);
    for world in worlds {
        let found = check(&world).unwrap_or_else(|broken| panic!("{}", story(&world, &broken)));
        (count, states) = (count + 1, states + found.states);
    }
    note(&format!("{count} worlds, {states} states"));
    (count, states)
}

/// Returns every choice of `n` of these programs, in their order, each as often as one likes.
fn choices(programs: &[Script], n: usize) -> Vec<Vec<Script>> {
    let Some(fewer) = n.checked_sub(1) else { return vec![vec![]] };
    let from = |at: usize| {
        let rest = choices(&programs[at..], fewer);
        rest.into_iter().map(move |rest| [vec![programs[at].clone()], rest].concat())
    };
    (0..programs.len()).flat_map(from).collect()
}

#[test]
fn every_meeting_of_three_holds() {
    let worlds = choices(&programs(), 3).into_iter().map(mended);
    assert_eq!(all_hold(worlds), MEETINGS, "the counts have changed");
}

#[test]
fn every_meeting_of_four_holds() {
    const SOME: &[&str] = &[
        "run",
        "unload",
        "run-load",
        "run-unload",
        "permit-load",
        "load-drop-permit",
        "limited-unload",
        "limited-permit",
    ];
    let some: Vec<_> =
        programs().into_iter().filter(|script| SOME.contains(&script.name)).collect();
    let worlds = choices(&some, 4).into_iter().map(mended);
    assert_eq!(all_hold(worlds), MEETINGS_OF_FOUR, "the counts have changed");
}

fn unloads(script: &Script) -> bool {
    script.ops.contains(&Op::Acquire(Unload))
}
fn permits(script: &Script) -> bool {
    script.ops.contains(&Op::Permit)
}

/// Two executions that begin again and again starve no load, and no owner that drains or resumes. They starve no
/// unload, unless both permit loads.
#[test]
fn no_stream_of_executions_starves_a_request() {
    let endless = |script: Script| Script { ops: again(script.ops), ..script };
    let is_execution = |script: &Script| script.ops[0] == Op::Enter && script.name != "dies";
    let streams: Vec<_> = programs().into_iter().filter(is_execution).map(endless).collect();
    let mut worlds = vec![];
    for two in choices(&streams, 2) {
        worlds.extend(programs().into_iter().map(|other| mended([&two[..], &[other]].concat())));
    }
    assert_eq!(all_hold(worlds), STREAMS, "the counts have changed");
}

/// A world in which an execution that permits loads begins only while no other one is in progress.
struct NoOverlap(World);

impl NoOverlap {
    /// Returns whether another owner is in such an execution.
    fn overlaps(&self, s: &Interlock, o: usize) -> bool {
        permits(&self.0.scripts[o])
            && s.others(o).any(|(q, other)| permits(&self.0.scripts[q]) && other.in_execution())
    }
}

impl Machine for NoOverlap {
    type State = Interlock;
    type Action = Action;
    fn initial(&self) -> Interlock {
        self.0.initial()
    }
    fn actions(&self, s: &Interlock) -> Vec<Action> {
        let mut actions = self.0.actions(s);
        let enters = |action: &Action| action.step == Step::Next(Op::Enter);
        actions.retain(|action| !enters(action) || !self.overlaps(s, action.owner));
        actions
    }
    fn step(&self, s: &Interlock, action: &Action) -> Interlock {
        self.0.step(s, action)
    }
    fn normal(&self, s: &mut Interlock) {
        self.0.normal(s);
    }
    fn stuck(&self, _: &Interlock, _: &[Action]) -> bool {
        false
    }
}

/// The premise of PROP-ILK-UNLOADS-END: without it, two executions that permit loads again and again starve an unload,
/// and at each moment one of them is in progress. Each lets the next one in, so their permit blocks need not overlap.
#[test]
fn an_unload_starves_only_while_executions_that_permit_overlap() {
    let permit = vec![Op::Enter, Op::Permit, Op::End, Op::Leave];
    let two = ["a", "b"].map(|name| owner(name, again(permit.clone())));
    for reloader in programs().into_iter().filter(|script| unloads(script) && !script.limited) {
        let world = mended([&two[..], &[reloader]].concat());
        let starves = counterexample(&world, "PROP-ILK-UNLOADS-END").expect("the unload starves");
        let mut state = world.initial();
        for action in &starves.actions {
            state = world.step(&state, action);
        }
        for action in &starves.for_ever {
            assert!(state.owners[..2].iter().any(|owner| owner.in_execution()), "{starves:?}");
            state = world.step(&state, action);
        }
        let waits = |s: &Interlock| s.owners[2].sleeps == Some(Sleep::For(Unload));
        let search = Search {
            marks: &|s| u64::from(waits(s)),
            kind: Some(&World::kind_and_class),
            ..Search::nothing()
        };
        let Ok(explored) = explore(&NoOverlap(world), &search) else {
            unreachable!("the search looks for no failure")
        };
        assert!(explored.for_ever(0, 1, &|_| true).is_none(), "the unload starves");
    }
}

/// Not promised: a newcomer starves while others load or unload for ever.
#[test]
fn a_newcomer_may_starve() {
    for name in ["stream-x-upgraded-unload", "unloads-again-and-again"] {
        let starves = counterexample(&world(name), "PROP-ILK-ENTERS").expect("the owner starves");
        assert!(starves.for_ever.len() > 1, "{starves:?}");
    }
}

/// Returns families: each parent that waits for a child, with each child that does not unload, each third program, and
/// a stream of newcomers.
fn families() -> Vec<World> {
    let stream = owner("stream", again(vec![Op::Enter, Op::Leave]));
    let mut worlds = vec![];
    for parent in parents(1) {
        for child in programs().into_iter().filter(|child| !unloads(child)) {
            for other in programs() {
                let scripts = [parent.clone(), child.clone(), other, stream.clone()];
                worlds.push(mended(scripts));
            }
        }
    }
    worlds
}

/// With a permit block around each wait for another thread, every program ends, although unloads are queued and
/// newcomers come (PROP-ILK-PROGRAMS-END).
#[test]
fn with_a_permit_block_around_each_join_every_program_ends() {
    assert_eq!(all_hold(families()), FAMILIES, "the counts have changed");
}

/// The interlock does not know of a wait without a permit block: a child that loads waits for ever, and so does one
/// that enters behind an unload. A time limit on each wait ends them. So it is with a child that unloads.
#[test]
fn without_the_permit_block_only_a_time_limit_ends_the_wait() {
    let by_name = |name| programs().into_iter().find(|script| script.name == name).expect(name);
    for parent in parents(1) {
        for (child, other, with_permit) in
            [("run-load", "run", false), ("run", "unload", false), ("run-unload", "run", true)]
        {
            let mut world = mended([parent.clone(), by_name(child), by_name(other)]);
            let joins = |ops: &[Op]| ops.iter().position(|op| *op == Op::Join(1));
            let ops = &mut world.scripts[0].ops;
            let at = joins(ops).expect("it joins");
            if !with_permit {
                // The permit blocks around the join.
                ops.retain(|op| !matches!(op, Op::Permit | Op::End));
                assert!(joins(ops) < Some(at));
            }
            assert!(counterexample(&world, "deadlock").is_some(), "{world:?}");
            world.scripts.iter_mut().for_each(|script| script.limited = true);
            all_hold([world]);
        }
    }
    for name in ["guide-without-permit", "child-x-unload", "child-reloads", "leaked-share"] {
        let mut world = world(name);
        assert!(check(&world).is_ok());
        world.scripts.iter_mut().for_each(|script| script.limited = false);
        assert!(counterexample(&world, "deadlock").is_some(), "{name}");
    }
}
