//! Compares the checker with stateright, which shares only the machines with it. Both count the same
//! states and steps to the same depth, and find no broken invariant and no deadlock.

use cabrank_spec::application_pool;
use cabrank_spec::checking::explorer::Explored;
use cabrank_spec::checking::promises::Promises;
use cabrank_spec::checking::search::{Search, explore};
use cabrank_spec::checking::system::Named;
use cabrank_spec::interlock::scenarios;
use cabrank_spec::{kept, resource_pool};
use stateright::{Checker, Model};

fn agree<M: Promises>(Named { name, machine, .. }: Named<M>) {
    let Ok(found) = explore(&machine, &Search::nothing()) else {
        unreachable!("the search has no aims")
    };
    let checker = Explored(machine).checker().threads(1).spawn_bfs().join();
    checker.assert_properties();
    assert_eq!(checker.unique_state_count(), found.states, "{name}");
    // stateright counts the initial state as generated, and as the first level.
    assert_eq!(checker.state_count(), found.steps + 1, "{name}");
    assert_eq!(checker.max_depth(), found.depth + 1, "{name}");
}

#[test]
fn stateright_counts_the_same_states() {
    let some =
        ["two-restarts", "two-connecting", "one-concurrent", "three-draining", "two-minimum"];
    let all = application_pool::configurations::all().into_iter();
    all.filter(|named| some.contains(&named.name)).for_each(agree);
}

#[test]
fn stateright_counts_the_same_states_of_the_load_interlock() {
    scenarios::all().into_iter().for_each(agree);
}

#[test]
fn stateright_counts_the_same_states_of_the_resource_pools() {
    resource_pool::configurations::all().into_iter().for_each(agree);
}

#[test]
fn stateright_counts_the_same_states_of_the_kept_sessions() {
    kept::configurations::all().into_iter().for_each(agree);
}
