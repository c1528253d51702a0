//! Compares the checker with stateright, which shares only the machines with it. Both count the same
//! states and steps to the same depth, and find no broken invariant and no deadlock.

use cabrank_spec::application_pool::configurations::named;
use cabrank_spec::application_pool::invariants::all_broken;
use cabrank_spec::checking::machine::Machine;
use cabrank_spec::checking::search::{Search, explore};
use cabrank_spec::interlock::rules::Rules;
use cabrank_spec::interlock::scenarios;
use cabrank_spec::resource_pool;
use stateright::{Checker, Model, Property};
use std::fmt::Debug;

/// A machine as a stateright model, and whether its invariants hold in a state.
struct Seen<M: Machine>(M, fn(&M::State) -> bool);

impl<M: Machine> Model for Seen<M>
where
    M::State: Debug + PartialEq,
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
        vec![
            Property::always("every invariant holds", |model: &Seen<M>, state| (model.1)(state)),
            Property::always("no deadlock", |model: &Seen<M>, state| {
                !model.0.stuck(state, &model.0.actions(state))
            }),
        ]
    }
}

fn agree<M>(name: &str, machine: M, holds: fn(&M::State) -> bool)
where
    M: Machine + Send + Sync + 'static,
    M::State: Debug + PartialEq + Send + Sync + 'static,
    M::Action: PartialEq + Send + Sync + 'static,
{
    let Ok(found) = explore(&machine, &Search::nothing()) else {
        unreachable!("the search has no aims")
    };
    let checker = Seen(machine, holds).checker().threads(1).spawn_bfs().join();
    checker.assert_properties();
    assert_eq!(checker.unique_state_count(), found.states, "{name}");
    // stateright counts the initial state as generated, and as the first level.
    assert_eq!(checker.state_count(), found.steps + 1, "{name}");
    assert_eq!(checker.max_depth(), found.depth + 1, "{name}");
}

#[test]
fn stateright_counts_the_same_states() {
    for name in
        ["two-restarts", "two-connecting", "one-concurrent", "three-draining", "two-minimum"]
    {
        let config = named(name).expect("the configuration exists").config;
        agree(name, config, |pool| all_broken(pool).is_empty());
    }
}

#[test]
fn stateright_counts_the_same_states_of_the_load_interlock() {
    for scenario in scenarios::all() {
        agree(scenario.name, scenario.world(Rules::AS_MENDED), |_| true);
    }
}

#[test]
fn stateright_counts_the_same_states_of_the_resource_pools() {
    for config in resource_pool::configurations::all() {
        agree(config.name, config, |_| true);
    }
}
