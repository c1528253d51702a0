//! Explores a configuration as ruled: every invariant in every state, every step property in every
//! step, no deadlock, and every liveness property.

use crate::application_pool::configuration::Config;
use crate::application_pool::invariants;
use crate::application_pool::liveness::{self, LIVENESS, Liveness, SUBJECTS};
use crate::application_pool::pool::{Action, Pool};
use crate::application_pool::properties::STEP_PROPERTIES;
use crate::application_pool::story;
use crate::checking::machine::Counterexample;
use crate::checking::search::{Explored, Search, explore};
use std::cell::Cell;
use std::time::{Duration, Instant};

/// The result of an exploration.
pub struct Report {
    /// The number of states in normal form.
    pub states: usize,
    /// The number of steps between them.
    pub steps: usize,
    /// The largest distance of a state from the initial state.
    pub depth: usize,
    /// The duration of the exploration.
    pub time: Duration,
    /// The duration of the search for broken liveness properties.
    pub liveness_time: Duration,
    /// The liveness properties that apply to the configuration.
    pub liveness: Vec<&'static str>,
    /// How often each property applied: the number of steps that it judged, or of states in which its
    /// promise was outstanding.
    pub applied: Vec<(&'static str, usize)>,
}

/// Explores the configuration.
///
/// # Errors
/// Returns the story of the broken promise.
pub fn check(config: &Config) -> Result<Report, String> {
    let begun = Instant::now();
    let applied = vec![Cell::new(0_usize); STEP_PROPERTIES.len()];
    let broken_step = |before: &Pool, action: &Action, after: &Pool| {
        STEP_PROPERTIES.iter().zip(&applied).find_map(|(property, applied)| {
            let kept = (property.judge)(before, action, after)?;
            applied.set(applied.get() + 1);
            (!kept).then_some(property.name)
        })
    };
    let search = Search {
        broken: &invariants::broken,
        broken_step: &broken_step,
        deadlock: true,
        marks: &liveness::marks,
        kind: Some(&liveness::kind_and_class),
    };
    let explored = match explore(config, &search) {
        Ok(explored) => explored,
        Err(counterexample) => return Err(story::describe(config, &counterexample)),
    };
    let time = begun.elapsed();
    let looked_at: Vec<_> = LIVENESS.iter().filter(|property| (property.applies)(config)).collect();
    for property in &looked_at {
        if let Some(counterexample) = never(config, &explored, property) {
            return Err(story::describe(config, &counterexample));
        }
    }
    let of_steps = STEP_PROPERTIES.iter().zip(&applied).map(|(p, applied)| (p.name, applied.get()));
    let in_the_end = looked_at.iter().map(|p| (p.name, p.not_yet_in(&explored.marks)));
    Ok(Report {
        applied: of_steps.chain(in_the_end).collect(),
        states: explored.states,
        steps: explored.steps,
        depth: explored.depth,
        time,
        liveness_time: begun.elapsed() - time,
        liveness: looked_at.iter().map(|property| property.name).collect(),
    })
}

/// Returns a way in which a liveness property's promise stays outstanding for ever.
pub fn never(
    config: &Config,
    explored: &Explored<Action>,
    property: &Liveness,
) -> Option<Counterexample<Action>> {
    let place = LIVENESS.iter().position(|other| other.name == property.name)?;
    let subjects = property.subjects(&Pool::new(config.clone()));
    let sets = (0..subjects).filter_map(|subject| {
        let bit = (place * SUBJECTS + subject) as u8;
        explored.for_ever(bit, property.may, &property.fair)
    });
    let set = sets.min_by_key(|set| explored.stem(set).len())?;
    let actions = explored.stem(&set);
    let for_ever = explored.round(config, &set, property.may, &property.fair);
    Some(Counterexample { what: property.name, actions, for_ever })
}
