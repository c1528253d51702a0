//! Explores a pool to the last state.

use crate::checker::{Counterexample, Ended, Explored, Search, explore};
use crate::resource_pool::invariants::INVARIANTS;
use crate::resource_pool::machine::{Action, Config};
use crate::resource_pool::properties::{LIVENESS, Liveness, STEP_PROPERTIES, SUBJECTS, marks};
use crate::resource_pool::state::ResourcePool;
use std::cell::Cell;

/// What an exploration found.
#[derive(Debug)]
pub struct Report {
    /// How many states there are.
    pub states: usize,
    /// How many steps between them.
    pub steps: usize,
    /// The length of the longest shortest way to one.
    pub depth: usize,
    /// In how many steps, or states, each property of steps and of the end had something to say.
    pub said: Vec<(&'static str, usize)>,
}

/// Looks for everything.
///
/// # Errors
/// The shortest counterexample to what does not hold.
pub fn check(config: &Config) -> Result<Report, Counterexample<Action>> {
    look_for(config, None)
}

/// The shortest counterexample to one invariant or property, or to there being no `deadlock`.
pub fn counterexample(config: &Config, breaks: &str) -> Option<Counterexample<Action>> {
    look_for(config, Some(breaks)).err()
}

fn look_for(config: &Config, only: Option<&str>) -> Result<Report, Counterexample<Action>> {
    let wanted = |name: &str| only.is_none_or(|only| only == name);
    let broken = |s: &ResourcePool| {
        let mut invariants = INVARIANTS.iter().filter(|i| wanted(i.name));
        invariants.find(|i| !(i.holds)(config, s)).map(|i| i.name)
    };
    let said = vec![Cell::new(0_usize); STEP_PROPERTIES.len()];
    let broken_step = |before: &ResourcePool, action: &Action, after: &ResourcePool| {
        let properties = STEP_PROPERTIES.iter().zip(&said).filter(|(p, _)| wanted(p.name));
        properties.into_iter().find_map(|(property, said)| {
            let kept = (property.judge)(before, action, after)?;
            said.set(said.get() + 1);
            (!kept).then_some(property.name)
        })
    };
    let search = Search {
        broken: &broken,
        broken_step: &broken_step,
        deadlock: wanted("deadlock"),
        marks: &|s| marks(config, s),
        kind: Some(&|s, action: &Action| action.kind_and_class(s)),
        at_most: usize::MAX,
    };
    let explored = match explore(config, &search) {
        Ok(explored) => explored,
        Err(Ended::Broken(counterexample)) => return Err(counterexample),
        Err(Ended::TooMany) => unreachable!("there is no limit"),
    };
    let mut said: Vec<_> =
        STEP_PROPERTIES.iter().zip(said).map(|(p, n)| (p.name, n.get())).collect();
    let promised =
        |p: &Liveness| wanted(p.name) && (p.promised && (p.applies)(config) || only.is_some());
    for (place, property) in LIVENESS.iter().enumerate().filter(|(_, p)| promised(p)) {
        if let Some(counterexample) = never(config, &explored, place, property) {
            return Err(counterexample);
        }
        let bits = ((1 << SUBJECTS) - 1) << (place * SUBJECTS);
        said.push((property.name, explored.marks.iter().filter(|&&m| m & bits != 0).count()));
    }
    let Explored { states, steps, depth, .. } = explored;
    Ok(Report { states, steps, depth, said })
}

/// How it can be that a promise never comes about.
fn never(
    config: &Config,
    explored: &Explored<Action>,
    place: usize,
    property: &Liveness,
) -> Option<Counterexample<Action>> {
    let bit = |subject: usize| (place * SUBJECTS + subject) as u8;
    let sets = (0..property.subjects(config))
        .filter_map(|subject| explored.for_ever(bit(subject), property.may, &|_| true));
    let set = sets.min_by_key(|set| explored.stem(set).len())?;
    let for_ever = explored.round(config, &set, property.may, &|_| true);
    Some(Counterexample { what: property.name, actions: explored.stem(&set), for_ever })
}
