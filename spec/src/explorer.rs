//! The machine as a stateright model, for its explorer in the browser.

use cabrank_spec::application_pool::configuration::Config;
use cabrank_spec::application_pool::invariants::{self, INVARIANTS};
use cabrank_spec::application_pool::pool::{Action, Pool};
use cabrank_spec::application_pool::story;
use cabrank_spec::checking::machine::Machine;
use stateright::{Model, Property};

/// A configuration.
pub(crate) struct Explored(pub(crate) Config);

impl Model for Explored {
    type State = Pool;
    type Action = Action;

    fn init_states(&self) -> Vec<Pool> {
        let mut initial = self.0.initial();
        self.0.normal(&mut initial);
        vec![initial]
    }
    fn actions(&self, pool: &Pool, actions: &mut Vec<Action>) {
        actions.extend(self.0.actions(pool));
    }
    fn next_state(&self, pool: &Pool, action: Action) -> Option<Pool> {
        let mut next = self.0.step(pool, &action);
        self.0.normal(&mut next);
        Some(next)
    }
    /// Returns two properties: all invariants hold, and there is no deadlock. stateright wants few
    /// properties.
    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("every invariant holds", |_, pool| {
                INVARIANTS.iter().all(|invariant| (invariant.holds)(pool))
            }),
            Property::always("no deadlock", |model: &Explored, pool| {
                !model.0.stuck(pool, &model.0.actions(pool))
            }),
        ]
    }
    fn format_action(&self, action: &Action) -> String {
        format!("{action:?}")
    }
    fn format_step(&self, pool: &Pool, action: Action) -> Option<String> {
        let next = self.0.step(pool, &action);
        let says = story::sentence(pool, &action, &next);
        let broken = invariants::broken(&next).map(|name| format!("{}\n", story::verdict(name)));
        Some(format!("{says}\n{}{}", story::draw(&next), broken.unwrap_or_default()))
    }
}
