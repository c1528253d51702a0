//! Checks a machine against its promises: invariants of states, properties of steps, and what comes about in the end.

use crate::checking::machine::{Counterexample, Machine};
use crate::checking::search::{Explored, Search, explore};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

/// An invariant, which holds in every state.
pub struct Invariant<M: Machine> {
    /// Its name.
    pub name: &'static str,
    /// The sentence that it states.
    pub says: &'static str,
    /// Returns whether it holds.
    pub holds: fn(&M, &M::State) -> bool,
}

/// Judges one step: the machine, the state before, the action, and the state after.
pub type Judge<M> =
    fn(&M, &<M as Machine>::State, &<M as Machine>::Action, &<M as Machine>::State) -> Option<bool>;

/// A property of every step.
pub struct StepProperty<M: Machine> {
    /// Its name.
    pub name: &'static str,
    /// The sentence that it states.
    pub says: &'static str,
    /// Returns whether a step from the first state to the second keeps it, or `None` if it does not apply to this
    /// step.
    pub judge: Judge<M>,
}

/// A property that comes about in the end, for each of its subjects, such as each client or each key.
pub struct Liveness<M: Machine> {
    /// Its name.
    pub name: &'static str,
    /// The sentence that it states.
    pub says: &'static str,
    /// Its assumptions beside fairness ([`Promises::kind_and_class`]).
    pub assumes: &'static str,
    /// The kinds of actions that may go on for ever, one bit each.
    pub may: u64,
    /// Whether it is promised. Otherwise it is known to fail, and the machine's test shows where.
    pub promised: bool,
    /// Returns whether it applies to this machine.
    pub applies: fn(&M) -> bool,
    /// Returns the number of its subjects, at most [`SUBJECTS`].
    pub subjects: fn(&M) -> usize,
    /// Returns whether it has not come about yet for a subject.
    pub not_yet: fn(&M, &M::State, usize) -> bool,
}

macro_rules! invariants {
    ($of:ty: $($name:literal $says:literal $holds:expr;)*) => {
        /// The invariants.
        pub const INVARIANTS: &[$crate::checking::check::Invariant<$of>] =
            &[$($crate::checking::check::Invariant { name: $name, says: $says, holds: $holds }),*];
    };
}
macro_rules! step_properties {
    ($of:ty: $($name:literal $says:literal $judge:expr;)*) => {
        /// The properties of every step.
        pub const STEP_PROPERTIES: &[$crate::checking::check::StepProperty<$of>] =
            &[$($crate::checking::check::StepProperty { name: $name, says: $says, judge: $judge }),*];
    };
}
pub(crate) use {invariants, step_properties};

/// A machine with promises.
pub trait Promises: Machine + Sized + 'static {
    /// Hold in every state.
    const INVARIANTS: &'static [Invariant<Self>];
    /// Hold in every step.
    const STEP_PROPERTIES: &'static [StepProperty<Self>];
    /// Come about in the end.
    const LIVENESS: &'static [Liveness<Self>];

    /// Returns the kind of an action and its fairness class ([`UNFAIR`](crate::checking::machine::UNFAIR): none).
    fn kind_and_class(state: &Self::State, action: &Self::Action) -> (u8, u8);
    /// Writes a counterexample as a story.
    fn describe(&self, counterexample: &Counterexample<Self::Action>) -> String;

    /// Describes the outcome of a final state.
    fn ending(&self, _: &Self::State) -> Option<String> {
        None
    }

    /// Returns the name and the sentence of each promise.
    fn promises() -> impl Iterator<Item = (&'static str, &'static str)> {
        let states = Self::INVARIANTS.iter().map(|p| (p.name, p.says));
        let steps = Self::STEP_PROPERTIES.iter().map(|p| (p.name, p.says));
        let ends = Self::LIVENESS.iter().filter(|p| p.promised).map(|p| (p.name, p.says));
        states.chain(steps).chain(ends)
    }
    /// Returns the last line of a story: the property that does not hold.
    fn verdict(what: &str) -> Option<String> {
        let known = Self::LIVENESS.iter().map(|p| (p.name, p.says));
        let (name, says) = Self::promises().chain(known).find(|(name, _)| *name == what)?;
        Some(format!("=> {name} does not hold: {says}.\n"))
    }
}

/// The counts of a complete exploration.
#[derive(Debug)]
pub struct Report {
    /// The number of states.
    pub states: usize,
    /// The number of steps between them.
    pub steps: usize,
    /// The number of steps on the shortest way to the farthest state.
    pub depth: usize,
    /// For each property of steps and of the end, the number of steps or states to which it applied.
    pub applied: Vec<(&'static str, usize)>,
    /// The outcomes of the final states.
    pub ends: BTreeSet<String>,
}

/// Checks every promise.
///
/// # Errors
/// Returns the shortest counterexample to the first promise that does not hold.
pub fn check<M: Promises>(machine: &M) -> Result<Report, Counterexample<M::Action>> {
    look_for(machine, None)
}

/// Returns the shortest counterexample to the property named `breaks`, promised or not.
///
/// The name `deadlock` stands for the property that no deadlock is reached.
pub fn counterexample<M: Promises>(machine: &M, breaks: &str) -> Option<Counterexample<M::Action>> {
    look_for(machine, Some(breaks)).err()
}

/// Returns the story of a defect: the defective rule, the mended rule, and the shortest way to the failure.
pub fn defect_story<M: Promises>(
    machine: &M,
    name: &str,
    breaks: &str,
    [original, mended]: [String; 2],
) -> String {
    let story = match counterexample(machine, breaks) {
        Some(counterexample) => machine.describe(&counterexample),
        None => format!("{breaks} holds: there is no counterexample.\n"),
    };
    format!("{name}\n{original}.\n{mended}.\n\nEverything is as mended except {name}.\n{story}")
}

/// Writes the steps of a counterexample: numbered ones, and those that then repeat for ever.
pub(crate) fn write_steps<A>(
    story: &mut String,
    counterexample: &Counterexample<A>,
    mut step: impl FnMut(&A) -> String,
) {
    for (number, action) in (1..).zip(&counterexample.actions) {
        *story += &format!("{number}. {}\n", step(action));
    }
    if !counterexample.for_ever.is_empty() {
        *story += "And then, over and over again:\n\n";
    }
    for action in &counterexample.for_ever {
        *story += &format!("* {}\n", step(action));
    }
}

/// Checks one property, or every promise.
fn look_for<M: Promises>(
    machine: &M,
    only: Option<&str>,
) -> Result<Report, Counterexample<M::Action>> {
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
    let search = Search {
        broken: &broken,
        broken_step: &broken_step,
        deadlock: wanted("deadlock"),
        marks: &|s| marks(machine, s),
        kind: Some(&M::kind_and_class),
    };
    let explored = explore(machine, &search)?;
    let names = M::STEP_PROPERTIES.iter().map(|p| p.name);
    let mut applied: Vec<_> = names.zip(applied.iter().map(Cell::get)).collect();
    let checked =
        |p: &Liveness<M>| wanted(p.name) && (p.promised && (p.applies)(machine) || only.is_some());
    for (place, property) in M::LIVENESS.iter().enumerate().filter(|(_, p)| checked(p)) {
        if let Some(counterexample) = never(machine, &explored, place, property) {
            return Err(counterexample);
        }
        let bits = ((1 << SUBJECTS) - 1) << (place * SUBJECTS);
        applied.push((property.name, explored.marks.iter().filter(|&&m| m & bits != 0).count()));
    }
    let Explored { states, steps, depth, .. } = explored;
    Ok(Report { states, steps, depth, applied, ends: ends.into_inner() })
}

/// Returns a run in which a property never comes about.
fn never<M: Promises>(
    machine: &M,
    explored: &Explored<M::Action>,
    place: usize,
    property: &Liveness<M>,
) -> Option<Counterexample<M::Action>> {
    let bit = |subject: usize| (place * SUBJECTS + subject) as u8;
    let sets = (0..(property.subjects)(machine))
        .filter_map(|subject| explored.for_ever(bit(subject), property.may, &|_| true));
    let set = sets.min_by_key(|set| explored.stem(set).len())?;
    let for_ever = explored.round(machine, &set, property.may, &|_| true);
    Some(Counterexample { what: property.name, actions: explored.stem(&set), for_ever })
}

/// The most subjects that a liveness property may have. Each has one bit in a state's marks.
pub const SUBJECTS: usize = 8;

/// Returns a state's marks: one bit per liveness property and subject, set if the property has not come about yet.
fn marks<M: Promises>(machine: &M, s: &M::State) -> u64 {
    let mut bits = 0;
    for (at, property) in M::LIVENESS.iter().enumerate() {
        for subject in 0..(property.subjects)(machine) {
            bits |= u64::from((property.not_yet)(machine, s, subject)) << (at * SUBJECTS + subject);
        }
    }
    bits
}
