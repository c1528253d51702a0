//! A machine as a stateright model: for its explorer in the browser, and for a second count of the states.

use crate::checking::promises::Promises;
use crate::checking::story::verdict;
use stateright::{Model, Property};

/// A machine to be explored by stateright.
pub struct Explored<M>(pub M);

impl<M: Promises> Model for Explored<M> {
    type State = M::State;
    type Action = M::Action;

    fn init_states(&self) -> Vec<M::State> {
        let mut initial = self.0.initial();
        self.0.normal(&mut initial);
        vec![initial]
    }
    fn actions(&self, state: &M::State, actions: &mut Vec<M::Action>) {
        actions.extend(self.0.actions(state));
    }
    fn next_state(&self, state: &M::State, action: M::Action) -> Option<M::State> {
        let mut next = self.0.step(state, &action);
        self.0.normal(&mut next);
        Some(next)
    }
    /// Returns two properties: all invariants hold, and there is no deadlock. stateright wants few
    /// properties.
    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("every invariant holds", |model: &Self, state| {
                model.0.broken(state).is_empty()
            }),
            Property::always("no deadlock", |model: &Self, state| {
                !model.0.stuck(state, &model.0.actions(state))
            }),
        ]
    }
    fn format_action(&self, action: &M::Action) -> String {
        format!("{action:?}")
    }
    fn format_step(&self, state: &M::State, action: M::Action) -> Option<String> {
        let next = self.0.step(state, &action);
        let says = self.0.sentence(state, &action, &next);
        let broken = self.0.broken(&next);
        let broken = broken.first().map(|name| format!("{}\n", verdict::<M>(name)));
        Some(format!("{says}\n{}{}", self.0.draw(&next), broken.unwrap_or_default()))
    }
}
