//! The normal form forgets nothing that matters: a pool and its normal form can do the same, what they
//! tell is the same but for names, and their normal forms stay equal. On random walks through every
//! configuration, long enough for everything that the form forgets to have happened.

use cabrank_spec::checker::key;
use cabrank_spec::configurations::all;
use cabrank_spec::pool::{Event, Pool};

/// Small, and the same on every machine.
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
            let mut pool = Pool::new(named.config.clone());
            for _ in 0..60 {
                let mut normal = pool.clone();
                let names = normal.normal_and_names();
                let actions = normal.enabled();
                assert_eq!(actions.len(), pool.enabled().len(), "{}\n{pool:?}", named.name);
                if actions.is_empty() {
                    break;
                }
                let action = actions[random.below(actions.len())];
                // What begins in this step is called after what there is.
                let last = pool.last_identifier;
                let name = |id: usize| match names.get(id - 1) {
                    Some(&name) => name,
                    None => last + id - names.len(),
                };
                normal.apply(&action);
                pool.apply(&action.renamed(name));
                let told: Vec<Event> = normal.told.iter().map(|e| e.renamed(name)).collect();
                assert_eq!(pool.told, told, "{}: {action:?}\n{pool:?}", named.name);
                let mut other = pool.clone();
                other.normal();
                normal.normal();
                assert_eq!(key(&other), key(&normal), "{}: {action:?}\n{pool:?}", named.name);
                // And it is a normal form: it has itself.
                let again = normal.clone();
                normal.normal();
                assert_eq!(key(&again), key(&normal), "{}", named.name);
                steps += 1;
            }
        }
    }
    assert!(steps > 200_000, "{steps}");
}
