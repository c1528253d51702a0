//! Checks on random walks through every configuration that the normal form loses no behaviour.
//!
//! A pool and its normal form have the same possible actions. Each action gives the same events except
//! for names, and equal normal forms.

use cabrank_spec::application_pool::configurations::all;
use cabrank_spec::application_pool::pool::{Event, Pool};
use cabrank_spec::checking::key::key;

/// A small random generator that gives the same numbers on every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n as u64) as usize
    }
}

#[test]
fn the_normal_form_behaves_as_the_pool_does() {
    let mut random = Random(0x0DDB_1A5E_5BAD_5EED);
    let mut steps = 0;
    for named in all() {
        for _ in 0..200 {
            let mut pool = Pool::new(named.machine.clone());
            for _ in 0..60 {
                let mut normal = pool.clone();
                let names = normal.normal_and_names();
                let actions = normal.enabled();
                assert_eq!(actions.len(), pool.enabled().len(), "{}\n{pool:?}", named.name);
                if actions.is_empty() {
                    break;
                }
                let action = actions[random.below(actions.len())];
                // A new spawn gets the next identifier in both pools.
                let last = pool.last_identifier;
                let name = |id: usize| match names.get(id - 1) {
                    Some(&name) => name,
                    None => last + id - names.len(),
                };
                normal.apply(&action);
                pool.apply(&action.renamed(name));
                let events: Vec<Event> = normal.events.iter().map(|e| e.renamed(name)).collect();
                assert_eq!(pool.events, events, "{}: {action:?}\n{pool:?}", named.name);
                let mut other = pool.clone();
                other.normal();
                normal.normal();
                assert_eq!(key(&other), key(&normal), "{}: {action:?}\n{pool:?}", named.name);
                // The normal form of a normal form is itself.
                let again = normal.clone();
                normal.normal();
                assert_eq!(key(&again), key(&normal), "{}", named.name);
                steps += 1;
            }
        }
    }
    assert!(steps > 200_000, "{steps}");
}
