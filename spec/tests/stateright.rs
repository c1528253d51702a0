//! A second opinion: stateright, which shares nothing with our checker but the machine, counts as many
//! states in the same configurations, to the same depth, and finds no invariant broken.

#[path = "../src/explorer.rs"]
mod explorer;

use cabrank_spec::checker::{Search, explore};
use cabrank_spec::configuration::Config;
use cabrank_spec::configurations::named;
use explorer::Explored;
use stateright::{Checker, Model};

fn counts(config: &Config) -> (usize, usize, usize) {
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
