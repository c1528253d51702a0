//! An explicit-state search. It goes breadth first, so each counterexample is a shortest one.
//!
//! [`explore`] visits every state that a [`Machine`] can reach, in normal form. It looks for a state that
//! breaks an invariant, a step that breaks a step property, and a deadlock. It remembers a state by its
//! [key], which contains the whole state: the search takes two states for the same only if they are
//! equal.

use crate::checking::key::{FastHasher, key};
use crate::checking::machine::{Counterexample, Machine};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::BuildHasherDefault;

/// Returns the name of the property that a step breaks, if any.
pub type StepJudge<'a, M> =
    &'a dyn Fn(&StateOf<M>, &ActionOf<M>, &StateOf<M>) -> Option<&'static str>;
/// Returns an action's kind and fairness class.
pub type Kind<'a, M> = &'a dyn Fn(&StateOf<M>, &ActionOf<M>) -> (u8, u8);
type StateOf<M> = <M as Machine>::State;
type ActionOf<M> = <M as Machine>::Action;

/// The aims of a search.
pub struct Search<'a, M: Machine> {
    /// Returns the name of the invariant that a state breaks, if any.
    pub broken: &'a dyn Fn(&M::State) -> Option<&'static str>,
    /// Judges a step. The state after it is not in normal form yet.
    pub broken_step: StepJudge<'a, M>,
    /// Whether the search looks for deadlocks.
    pub deadlock: bool,
    /// Returns the marks of a state, one bit each, for [`Explored::for_ever`].
    pub marks: &'a dyn Fn(&M::State) -> u64,
    /// Returns the kind and class of an action, for [`Explored::for_ever`]; `None` keeps no edges.
    pub kind: Option<Kind<'a, M>>,
}

impl<M: Machine> Search<'_, M> {
    /// Returns a search without aims: it only counts the states.
    pub fn nothing() -> Self {
        Search {
            broken: &|_| None,
            broken_step: &|_, _, _| None,
            deadlock: false,
            marks: &|_| 0,
            kind: None,
        }
    }
}

/// The explored space.
pub struct Explored<A> {
    /// The number of states.
    pub states: usize,
    /// The number of steps.
    pub steps: usize,
    /// The largest distance of a state from the initial state.
    pub depth: usize,
    pub(crate) parents: Vec<(u32, Option<A>)>,
    pub(crate) marks: Vec<u64>,
    /// For each state, the index of its first edge; the edges are (kind, class, target).
    pub(crate) first_edge: Vec<u32>,
    pub(crate) edges: Vec<(u8, u8, u32)>,
}

/// Explores a machine.
///
/// # Errors
/// The shortest counterexample.
pub fn explore<M: Machine>(
    machine: &M,
    search: &Search<'_, M>,
) -> Result<Explored<M::Action>, Counterexample<M::Action>> {
    let mut found: Explored<M::Action> = Explored {
        states: 0,
        steps: 0,
        depth: 0,
        parents: vec![(0, None)],
        marks: vec![],
        first_edge: vec![],
        edges: vec![],
    };
    let mut initial = machine.initial();
    machine.normal(&mut initial);
    let mut seen: HashMap<Box<[u8]>, u32, BuildHasherDefault<FastHasher>> = HashMap::default();
    seen.insert(key(&initial), 0);
    let mut level = vec![initial];
    while !level.is_empty() {
        let mut next_level = Vec::new();
        for state in level {
            let at = found.states;
            let ends = |what, found: &Explored<M::Action>, last: Option<M::Action>| {
                let mut actions = found.way_to(at);
                actions.extend(last);
                Err(Counterexample { what, actions, for_ever: vec![] })
            };
            if let Some(what) = (search.broken)(&state) {
                return ends(what, &found, None);
            }
            let actions = machine.actions(&state);
            if search.deadlock && machine.stuck(&state, &actions) {
                return ends("deadlock", &found, None);
            }
            found.states += 1;
            found.marks.push((search.marks)(&state));
            found.first_edge.push(found.edges.len() as u32);
            for action in actions {
                found.steps += 1;
                let mut next = machine.step(&state, &action);
                if let Some(what) = (search.broken_step)(&state, &action, &next) {
                    return ends(what, &found, Some(action));
                }
                machine.normal(&mut next);
                let kind = search.kind.map(|kind| kind(&state, &action));
                let to = match seen.entry(key(&next)) {
                    Entry::Occupied(there) => *there.get(),
                    Entry::Vacant(vacant) => {
                        let new = found.parents.len();
                        found.parents.push((at as u32, Some(action)));
                        next_level.push(next);
                        *vacant.insert(new as u32)
                    }
                };
                if let Some((kind, class)) = kind {
                    found.edges.push((kind, class, to));
                }
            }
        }
        found.depth += usize::from(!next_level.is_empty());
        level = next_level;
    }
    found.first_edge.push(found.edges.len() as u32);
    Ok(found)
}

impl<A: Clone> Explored<A> {
    /// Returns the shortest way to a state.
    pub(crate) fn way_to(&self, mut state: usize) -> Vec<A> {
        let mut way = Vec::new();
        while let (parent, Some(action)) = &self.parents[state] {
            way.push(action.clone());
            state = *parent as usize;
        }
        way.reverse();
        way
    }
}
