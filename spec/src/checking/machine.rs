//! A machine that can be explored, and the way to a state in which it breaks a promise.

use std::fmt::Debug;
use std::hash::Hash;

/// A machine that can be explored.
pub trait Machine: Send + Sync + 'static {
    /// A state of the machine.
    type State: Clone + Debug + PartialEq + Hash + Send + Sync + 'static;
    /// A step of the machine.
    type Action: Clone + Debug + PartialEq + Send + Sync + 'static;

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

/// The fairness class of actions that need never be taken.
pub const UNFAIR: u8 = u8::MAX;

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
