//! A second opinion: stateright, which shares nothing with our checker but the machine, counts as many
//! states in the same configurations, to the same depth, and finds no invariant broken.

#[path = "../src/explorer.rs"]
mod explorer;

use cabrank_spec::checker::Machine;
use cabrank_spec::checker::{Search, explore};
use cabrank_spec::configurations::named;
use cabrank_spec::interlock::rules::Rules;
use cabrank_spec::interlock::scenarios;
use cabrank_spec::interlock::script::World;
use explorer::Explored;
use stateright::{Checker, Model, Property};

fn counts<M: Machine>(config: &M) -> (usize, usize, usize) {
    match explore(config, &Search::nothing()) {
        Ok(found) => (found.states, found.steps, found.depth),
        Err(_) => unreachable!("nothing is looked for"),
    }
}

#[test]
fn stateright_counts_the_same_states() {
    for name in
        ["two-restarts", "two-connecting", "one-concurrent", "three-draining", "two-minimum"]
    {
        let config = named(name).expect("a configuration").config;
        let (states, steps, depth) = counts(&config);
        let checker = Explored(config).checker().threads(1).spawn_bfs().join();
        checker.assert_properties();
        assert_eq!(checker.unique_state_count(), states, "{name}");
        // It counts the initial state as generated, and as the first level.
        assert_eq!(checker.state_count(), steps + 1, "{name}");
        assert_eq!(checker.max_depth(), depth + 1, "{name}");
    }
}

/// The load interlock as stateright sees it.
struct Meeting(World);

impl Model for Meeting {
    type State = <World as Machine>::State;
    type Action = <World as Machine>::Action;

    fn init_states(&self) -> Vec<Self::State> {
        let mut initial = self.0.initial();
        self.0.normal(&mut initial);
        vec![initial]
    }
    fn actions(&self, state: &Self::State, actions: &mut Vec<Self::Action>) {
        actions.extend(self.0.actions(state));
    }
    fn next_state(&self, state: &Self::State, action: Self::Action) -> Option<Self::State> {
        let mut next = self.0.step(state, &action);
        self.0.normal(&mut next);
        Some(next)
    }
    fn properties(&self) -> Vec<Property<Self>> {
        vec![Property::always("nobody is stuck", |model: &Meeting, state| {
            !model.0.stuck(state, &model.0.actions(state))
        })]
    }
}

#[test]
fn stateright_counts_the_same_states_of_the_load_interlock() {
    for scenario in scenarios::all() {
        let world = scenario.world(Rules::AS_MENDED);
        let (states, steps, depth) = counts(&world);
        let checker = Meeting(world).checker().threads(1).spawn_bfs().join();
        checker.assert_properties();
        assert_eq!(checker.unique_state_count(), states, "{}", scenario.name);
        assert_eq!(checker.state_count(), steps + 1, "{}", scenario.name);
        assert_eq!(checker.max_depth(), depth + 1, "{}", scenario.name);
    }
}
