//! A second opinion: stateright, which shares nothing with our checker but the machine, counts as many
//! states in the same configurations, to the same depth, and finds no invariant broken.

#[path = "../src/explorer.rs"]
mod explorer;

use cabrank_spec::checker::Machine;
use cabrank_spec::checker::{Search, explore};
use cabrank_spec::configurations::named;
use cabrank_spec::interlock::rules::Rules;
use cabrank_spec::interlock::scenarios;
use cabrank_spec::resource_pool;
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

/// A machine as stateright sees it.
struct Seen<M>(M);

impl<M: Machine> Model for Seen<M>
where
    M::State: std::fmt::Debug + PartialEq,
    M::Action: PartialEq,
{
    type State = M::State;
    type Action = M::Action;

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
        vec![Property::always("nobody is stuck", |model: &Seen<M>, state| {
            !model.0.stuck(state, &model.0.actions(state))
        })]
    }
}

fn stateright_agrees<M>(name: &str, machine: M)
where
    M: Machine + Send + Sync + 'static,
    M::State: std::fmt::Debug + PartialEq + Send + Sync + 'static,
    M::Action: PartialEq + Send + Sync + 'static,
{
    let (states, steps, depth) = counts(&machine);
    let checker = Seen(machine).checker().threads(1).spawn_bfs().join();
    checker.assert_properties();
    assert_eq!(checker.unique_state_count(), states, "{name}");
    // It counts the initial state as generated, and as the first level.
    assert_eq!(checker.state_count(), steps + 1, "{name}");
    assert_eq!(checker.max_depth(), depth + 1, "{name}");
}

#[test]
fn stateright_counts_the_same_states_of_the_load_interlock() {
    for scenario in scenarios::all() {
        stateright_agrees(scenario.name, scenario.world(Rules::AS_MENDED));
    }
}

#[test]
fn stateright_counts_the_same_states_of_the_resource_pools() {
    for config in resource_pool::configurations::all() {
        stateright_agrees(config.name, config);
    }
}
