//! Explores a scenario to the last state.

use crate::checker::{Counterexample, Ended, Explored, Machine, Search, explore};
use crate::interlock::properties::{
    LIVENESS, Liveness, PROPERTIES, STEP_PROPERTIES, SUBJECTS, kind_and_class, marks,
};
use crate::interlock::script::{Action, World};
use crate::interlock::state::Interlock;
use std::cell::RefCell;
use std::collections::BTreeSet;

/// What an exploration found.
#[derive(Debug, PartialEq, Eq)]
pub struct Report {
    /// How many states there are.
    pub states: usize,
    /// How many steps between them.
    pub steps: usize,
    /// The length of the longest shortest way to one.
    pub depth: usize,
    /// How it can end, when every program is over: who was refused what.
    pub ends: BTreeSet<String>,
}

/// Looks for everything.
///
/// # Errors
/// The shortest counterexample to what does not hold.
pub fn check(world: &World) -> Result<Report, Counterexample<Action>> {
    look_for(world, None)
}

/// The shortest counterexample to one property, or to there being no `deadlock`.
pub fn counterexample(world: &World, breaks: &str) -> Option<Counterexample<Action>> {
    look_for(world, Some(breaks)).err()
}

fn look_for(world: &World, only: Option<&str>) -> Result<Report, Counterexample<Action>> {
    let wanted = |name: &str| only.is_none_or(|only| only == name);
    let ends = RefCell::new(BTreeSet::new());
    let broken = |s: &Interlock| {
        if world.actions(s).is_empty() {
            ends.borrow_mut().insert(ending(world, s));
        }
        let mut states = PROPERTIES.iter().filter(|p| wanted(p.name));
        states.find(|p| !(p.holds)(world, s)).map(|p| p.name)
    };
    let broken_step = |before: &Interlock, action: &Action, after: &Interlock| {
        let mut steps = STEP_PROPERTIES.iter().filter(|p| wanted(p.name));
        steps.find(|p| !(p.holds)(world, before, action, after)).map(|p| p.name)
    };
    let search = Search {
        broken: &broken,
        broken_step: &broken_step,
        deadlock: wanted("deadlock"),
        marks: &|s| marks(world, s),
        kind: Some(&kind_and_class),
        at_most: usize::MAX,
    };
    let explored = match explore(world, &search) {
        Ok(explored) => explored,
        Err(Ended::Broken(counterexample)) => return Err(counterexample),
        Err(Ended::TooMany) => unreachable!("there is no limit"),
    };
    let looked_at = |p: &Liveness| wanted(p.name) && (p.promised || only.is_some());
    for (place, property) in LIVENESS.iter().enumerate().filter(|(_, p)| looked_at(p)) {
        if let Some(counterexample) = never(world, &explored, place, property.name) {
            return Err(counterexample);
        }
    }
    let Explored { states, steps, depth, .. } = explored;
    Ok(Report { states, steps, depth, ends: ends.into_inner() })
}

/// How it can be that a promise never comes about.
fn never(
    world: &World,
    explored: &Explored<Action>,
    place: usize,
    what: &'static str,
) -> Option<Counterexample<Action>> {
    let of = |o: usize| explored.for_ever((place * SUBJECTS + o) as u8, 1, &|_| true);
    let sets = (0..world.scripts.len()).filter_map(of);
    let set = sets.min_by_key(|set| explored.stem(set).len())?;
    let for_ever = explored.round(world, &set, 1, &|_| true);
    Some(Counterexample { what, actions: explored.stem(&set), for_ever })
}

/// Who was refused what, in the end.
fn ending(world: &World, s: &Interlock) -> String {
    let refused = |(o, owner): (usize, &crate::interlock::state::Owner)| {
        let name = world.scripts[o].name;
        let died = owner.dead.then(|| format!("{name} died"));
        owner.refused.map(|why| format!("{name}: {why:?}")).or(died)
    };
    let refused: Vec<_> = s.owners.iter().enumerate().filter_map(refused).collect();
    if refused.is_empty() { "all are served".into() } else { refused.join(", ") }
}
