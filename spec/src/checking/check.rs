//! Checks a machine against its promises, and counts its states.

use crate::checking::machine::Counterexample;
use crate::checking::promises::{Liveness, Promises, SUBJECTS};
use crate::checking::search::{Explored, Search, explore};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// The name of the property that no deadlock is reached.
pub const DEADLOCK: &str = "deadlock";

/// The numbers of states and steps, and the depth.
pub type Counts = (usize, usize, usize);

/// The result of a complete exploration.
#[derive(Debug)]
pub struct Report {
    /// The number of states in normal form.
    pub states: usize,
    /// The number of steps between them.
    pub steps: usize,
    /// The number of steps on the shortest way to the farthest state.
    pub depth: usize,
    /// For each property of steps and of the end that was checked, the number of steps or states to which it applied.
    pub applied: Vec<(&'static str, usize)>,
    /// The outcomes of the final states.
    pub ends: BTreeSet<String>,
    /// The duration of the exploration.
    pub time: Duration,
    /// The duration of the search for broken properties of the end.
    pub liveness_time: Duration,
}

impl Report {
    /// Returns the counts, to be compared with the pinned ones.
    pub fn counts(&self) -> Counts {
        (self.states, self.steps, self.depth)
    }
}

/// Checks every promise.
///
/// # Errors
/// Returns the shortest counterexample to the first promise that does not hold.
pub fn check<M: Promises>(machine: &M) -> Result<Report, Counterexample<M::Action>> {
    look_for(machine, None)
}

/// Checks the property named `only`, promised or not. [`DEADLOCK`] is one of them.
///
/// # Errors
/// Returns the shortest counterexample.
///
/// # Panics
/// If the machine has no such property.
pub fn check_only<M: Promises>(
    machine: &M,
    only: &str,
) -> Result<Report, Counterexample<M::Action>> {
    assert!(only == DEADLOCK || M::says(only).is_some(), "there is no property {only}");
    look_for(machine, Some(only))
}

/// Returns the shortest counterexample to the property named `breaks`.
///
/// # Panics
/// If the machine has no such property.
pub fn counterexample<M: Promises>(machine: &M, breaks: &str) -> Option<Counterexample<M::Action>> {
    check_only(machine, breaks).err()
}

/// Checks one property, or every promise.
fn look_for<M: Promises>(
    machine: &M,
    only: Option<&str>,
) -> Result<Report, Counterexample<M::Action>> {
    let begun = Instant::now();
    let wanted = |name: &str| only.is_none_or(|only| only == name);
    let ends = RefCell::new(BTreeSet::new());
    let broken = |s: &M::State| {
        ends.borrow_mut().extend(machine.ending(s));
        let mut invariants = M::INVARIANTS.iter().filter(|i| wanted(i.name));
        invariants.find(|i| !(i.holds)(machine, s)).map(|i| i.name)
    };
    let applied = vec![Cell::new(0_usize); M::STEP_PROPERTIES.len()];
    let broken_step = |before: &M::State, action: &M::Action, after: &M::State| {
        let mut properties =
            M::STEP_PROPERTIES.iter().zip(&applied).filter(|(p, _)| wanted(p.name));
        properties.find_map(|(property, applied)| {
            let kept = (property.judge)(machine, before, action, after)?;
            applied.set(applied.get() + 1);
            (!kept).then_some(property.name)
        })
    };
    let looked_at =
        |p: &&Liveness<M>| wanted(p.name) && (only.is_some() || p.promised && (p.applies)(machine));
    let in_the_end: Vec<&Liveness<M>> = M::LIVENESS.iter().filter(looked_at).collect();
    let mut search = Search {
        broken: &broken,
        broken_step: &broken_step,
        deadlock: wanted(DEADLOCK),
        ..Search::nothing()
    };
    // Marks and edges take time and memory, and only properties of the end need them.
    let marks = |s: &M::State| marks(machine, s);
    if !in_the_end.is_empty() {
        search.marks = &marks;
        search.kind = Some(&M::kind_and_class);
    }
    let explored = explore(machine, &search)?;
    let time = begun.elapsed();
    let names = M::STEP_PROPERTIES.iter().map(|p| p.name);
    let mut applied: Vec<_> = names.zip(applied.iter().map(Cell::get)).collect();
    for property in in_the_end {
        if let Some(counterexample) = never(machine, &explored, property) {
            return Err(counterexample);
        }
        let bits = ((1 << SUBJECTS) - 1) << first_bit(property);
        applied.push((property.name, explored.marks.iter().filter(|&&m| m & bits != 0).count()));
    }
    let Explored { states, steps, depth, .. } = explored;
    let liveness_time = begun.elapsed() - time;
    Ok(Report { states, steps, depth, applied, ends: ends.into_inner(), time, liveness_time })
}

/// Returns a shortest run in which a property of the end never comes about. The space was explored with [`marks`] and
/// [`Promises::kind_and_class`].
///
/// # Panics
/// If the machine has no property of this name.
pub fn never<M: Promises>(
    machine: &M,
    explored: &Explored<M::Action>,
    property: &Liveness<M>,
) -> Option<Counterexample<M::Action>> {
    let sets = (0..(property.subjects)(machine)).filter_map(|subject| {
        let bit = (first_bit(property) + subject) as u8;
        explored.for_ever(bit, property.may, &property.fair)
    });
    let set = sets.min_by_key(|set| explored.stem(set).len())?;
    let for_ever = explored.round(machine, &set, property.may, &property.fair);
    Some(Counterexample { what: property.name, actions: explored.stem(&set), for_ever })
}

/// Returns a state's marks: one bit per liveness property and subject, set if the property has not come about yet.
pub fn marks<M: Promises>(machine: &M, s: &M::State) -> u64 {
    let mut bits = 0;
    for (at, property) in M::LIVENESS.iter().enumerate() {
        for subject in 0..(property.subjects)(machine) {
            bits |= u64::from((property.not_yet)(machine, s, subject)) << (at * SUBJECTS + subject);
        }
    }
    bits
}

/// Returns the first of a property's bits in the marks of a state.
fn first_bit<M: Promises>(property: &Liveness<M>) -> usize {
    let place = M::LIVENESS.iter().position(|other| other.name == property.name);
    place.unwrap_or_else(|| panic!("the machine has no {}", property.name)) * SUBJECTS
}
