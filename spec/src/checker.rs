//! An explicit-state checker. It searches breadth first, so each counterexample is a shortest one.
//!
//! [`explore`] visits every state that a [`Machine`] can reach, in normal form. It looks for a state that
//! breaks an invariant, a step that breaks a step property, and a deadlock. It remembers a state by its
//! [key], which contains the whole state: the checker takes two states for the same only if they are
//! equal.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt::Debug;
use std::hash::{BuildHasherDefault, Hash, Hasher};

/// A machine that can be explored.
pub trait Machine {
    /// A state of the machine.
    type State: Clone + Hash;
    /// A step of the machine.
    type Action: Clone + Debug;

    /// Returns the initial state.
    fn initial(&self) -> Self::State;
    /// Returns the possible actions.
    fn actions(&self, state: &Self::State) -> Vec<Self::Action>;
    /// Returns the state after an action.
    fn step(&self, state: &Self::State, action: &Self::Action) -> Self::State;
    /// Brings a state into its normal form, which is equal for states that behave alike.
    fn normal(&self, state: &mut Self::State);
    /// Returns whether the state is a deadlock, given its possible actions.
    fn stuck(&self, state: &Self::State, actions: &[Self::Action]) -> bool;
}

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
    /// The number of states at which the search gives up.
    pub at_most: usize,
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
            at_most: usize::MAX,
        }
    }
}

/// A broken promise, and the actions that lead there.
#[derive(Clone, Debug)]
pub struct Counterexample<A> {
    /// The name of the promise.
    pub what: &'static str,
    /// The actions from the initial state.
    pub actions: Vec<A>,
    /// The actions that then repeat for ever, if a liveness property is broken.
    pub for_ever: Vec<A>,
}

/// The reason why a search ended early.
#[derive(Clone, Debug)]
pub enum Ended<A> {
    /// A promise is broken.
    Broken(Counterexample<A>),
    /// There are more states than [`Search::at_most`].
    TooMany,
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

/// The fairness class of actions that need never be taken.
pub const UNFAIR: u8 = u8::MAX;

/// Explores a machine.
///
/// # Errors
/// The shortest counterexample, or that there are too many states.
pub fn explore<M: Machine>(
    machine: &M,
    search: &Search<'_, M>,
) -> Result<Explored<M::Action>, Ended<M::Action>> {
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
                Err(Ended::Broken(Counterexample { what, actions, for_ever: vec![] }))
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
                        if new >= search.at_most {
                            return Err(Ended::TooMany);
                        }
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

/// Returns everything that a state's `Hash` writes, lengths and variants included.
///
/// Equal keys mean equal states. Small numbers take one byte.
pub fn key<S: Hash>(state: &S) -> Box<[u8]> {
    let mut bytes = Bytes(Vec::with_capacity(160));
    state.hash(&mut bytes);
    bytes.0.into_boxed_slice()
}

/// A fast hasher; its keys are not chosen by an adversary.
#[derive(Default)]
struct FastHasher(u64);

impl Hasher for FastHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            let mixed = (self.0 ^ u64::from_le_bytes(word)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            self.0 = mixed ^ mixed >> 29;
        }
    }
}

struct Bytes(Vec<u8>);

impl Bytes {
    fn number(&mut self, number: u64) {
        match u8::try_from(number) {
            Ok(byte) if byte < u8::MAX => self.0.push(byte),
            _ => {
                self.0.push(u8::MAX);
                self.0.extend(number.to_le_bytes());
            }
        }
    }
}

impl Hasher for Bytes {
    fn finish(&self) -> u64 {
        0
    }
    fn write(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend(bytes);
    }
    fn write_u8(&mut self, number: u8) {
        self.number(number.into());
    }
    fn write_u32(&mut self, number: u32) {
        self.number(number.into());
    }
    fn write_u64(&mut self, number: u64) {
        self.number(number);
    }
    fn write_usize(&mut self, number: usize) {
        self.number(number as u64);
    }
    fn write_i64(&mut self, number: i64) {
        self.number(number as u64);
    }
    fn write_isize(&mut self, number: isize) {
        self.number(number as u64);
    }
}
