//! Random threads call the whole public API of one pool. Its factory fails and panics, and its clock
//! jumps.
//!
//! The pool asserts every invariant in every critical section. The test asserts that every call
//! ends, that all counts are zero in the end, and that the limits hold: the factory counts resources
//! and loans.
//!
//! The environment's `CABRANK_STRESS=<seed>` sets the first seed, `CABRANK_STRESS_SEEDS=<n>` how
//! many follow. The seed decides what each thread does, not how the threads interleave: a failure
//! may take some runs to return.

use crate::common::{Keyed, Outcome, Script};
use crate::shared::random::{Random, for_each_seed};
use crate::shared::task::Task;
use crate::shared::{SOON, before_long, end_the_run_when_the_library_panics, soon};
use cabrank::ManualClock;
use cabrank::resource_pool::{Borrowed, KeyedResourcePool, LendOrder, WhenExhausted};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

const KEYS: [&str; 4] = ["a", "b", "c", "d"];
const WORKERS: u64 = 4;
const STEPS: usize = 150;
const MOST: usize = 3;
const SHORT: Duration = Duration::from_millis(10);

/// How many of each key are lent, as their borrowers count.
#[derive(Default)]
struct Seen([AtomicUsize; KEYS.len()]);

impl Seen {
    fn of(&self, key: &str) -> &AtomicUsize {
        &self.0[KEYS.iter().position(|k| *k == key).expect("one of them")]
    }
    fn lent(&self, key: &str, most: usize) {
        let lent = self.of(key).fetch_add(1, SeqCst) + 1;
        assert!(lent <= most, "{lent} of {key} are lent, of {most}");
    }
    fn ends(&self, key: &str) {
        self.of(key).fetch_sub(1, SeqCst);
    }
}

/// The options of one run.
#[derive(Clone, Copy, Debug)]
struct Shape {
    fair: bool,
    lend_order: LendOrder,
    grow: bool,
    min_idle: usize,
    max_active: usize,
}

struct Run {
    pool: Keyed,
    clock: ManualClock,
    seen: Seen,
    /// The highest limit that is ever set, and the most that may be lent.
    most_set: usize,
    most_active: usize,
}

impl Run {
    fn new(shape: Shape, script: &Script) -> Run {
        let clock = ManualClock::new();
        let action = if shape.grow { WhenExhausted::Grow } else { WhenExhausted::Block };
        let pool = KeyedResourcePool::builder(script.clone())
            .max_active(shape.max_active)
            .max_idle(2)
            .min_idle(shape.min_idle)
            .max_total(MOST)
            .max_total_per_key(2)
            .when_exhausted(action)
            .fair(shape.fair)
            .lend_order(shape.lend_order)
            .test_on_create(true)
            .test_on_borrow(true)
            .test_on_return(true)
            .soft_max_idle_time(2 * SHORT)
            .max_idle_time(4 * SHORT)
            .max_lifetime(20 * SHORT)
            .lifetime_jitter(10 * SHORT)
            .abandoned_after(1000 * SHORT)
            .clock(clock.clock())
            .listener(|_, _| {})
            .build()
            .expect("a valid pool");
        let most_active = if shape.grow { MOST } else { shape.max_active };
        Run { pool, clock, seen: Seen::default(), most_set: shape.max_active, most_active }
    }

    fn work(&self, seed: u64) {
        let mut random = Random::new(seed);
        let mut held: Vec<Borrowed<'_, Script>> = Vec::new();
        let mut tasks = Vec::new();
        for _ in 0..STEPS {
            self.step(&mut random, &mut held, &mut tasks);
        }
        held.into_iter().for_each(|lent| self.give_back(lent));
        drop(tasks);
    }

    fn give_back(&self, lent: Borrowed<'_, Script>) {
        self.seen.ends(lent.key);
        drop(lent);
    }

    fn keep<'a>(&self, lent: Borrowed<'a, Script>, held: &mut Vec<Borrowed<'a, Script>>) {
        self.seen.lent(lent.key, self.most_active);
        held.push(lent);
    }

    fn step<'a>(
        &'a self,
        random: &mut Random,
        held: &mut Vec<Borrowed<'a, Script>>,
        tasks: &mut Vec<Task<bool>>,
    ) {
        let pool = &self.pool;
        let key = KEYS[random.below(KEYS.len())];
        // A worker that waited while it holds a loan could wait for itself.
        if held.len() > random.below(3) {
            let mut lent = held.swap_remove(random.below(held.len()));
            match random.below(8) {
                0 => {
                    self.seen.ends(key_of(&lent));
                    Borrowed::invalidate(lent);
                }
                1 => {
                    self.seen.ends(key_of(&lent));
                    drop(Borrowed::detach(lent));
                }
                2 => {
                    lent.valid = false;
                    self.give_back(lent);
                }
                _ => self.give_back(lent),
            }
            return;
        }
        match random.below(12) {
            0 if held.is_empty() => {
                if let Ok(lent) = pool.borrow_timeout(&key, SHORT) {
                    self.keep(lent, held);
                }
            }
            1..=4 => {
                if let Ok(lent) = pool.try_borrow(&key) {
                    self.keep(lent, held);
                }
            }
            5 | 11 => {
                let theirs = pool.clone();
                tasks.push(Task::new(async move { theirs.borrow_async(&key).await.is_ok() }));
            }
            6 if !tasks.is_empty() => {
                let at = random.below(tasks.len());
                if random.one_in(4) || tasks[at].poll().is_some() {
                    drop(tasks.swap_remove(at));
                }
            }
            8 => drop(pool.add(&key)),
            9 => pool.maintain(),
            10 if random.one_in(4) => self.rarely(random, key),
            _ => self.clock.advance(SHORT / 4),
        }
    }

    fn rarely(&self, random: &mut Random, key: &'static str) {
        let pool = &self.pool;
        match random.below(6) {
            0 => pool.clear(),
            1 => pool.clear_all(),
            2 => pool.clear_key(&key),
            3 => pool.retain(|key, resource| *key == resource.key && resource.number % 3 > 0),
            4 => {
                let of_key = 1 + random.below(2);
                pool.set_max_total_per_key(of_key).expect("valid");
                pool.set_max_total(2 + random.below(2)).expect("valid");
                // Another thread may have lowered a total meanwhile: then it is refused.
                let _ = pool.set_max_active(1 + random.below(self.most_set.min(of_key)));
            }
            _ => {
                pool.set_max_idle(1).expect("valid");
                // Refused while the total of a key is 1.
                let _ = pool.set_max_idle(2);
                assert!(pool.snapshot().keys.len() <= KEYS.len());
            }
        }
    }
}

fn key_of(lent: &Borrowed<'_, Script>) -> &'static str {
    lent.key
}

fn run(seed: u64) {
    let mut random = Random::new(seed);
    let shape = Shape {
        fair: !random.one_in(2),
        lend_order: *random.of(&[LendOrder::NewestFirst, LendOrder::OldestFirst]),
        grow: random.one_in(3),
        min_idle: random.below(2),
        max_active: 1 + random.below(2),
    };
    let script = Script::default();
    for call in ["create", "validate", "activate", "passivate"] {
        let calls = AtomicUsize::new(0);
        script.on(call, move |_| match calls.fetch_add(1, SeqCst) % 17 {
            11 => Outcome::Fails,
            // Panics without calling the panic hook.
            13 => std::panic::resume_unwind(Box::new("on purpose")),
            _ => Outcome::Well,
        });
    }
    let run = Run::new(shape, &script);
    std::thread::scope(|scope| {
        let run = &run;
        let start = |worker| scope.spawn(move || run.work(seed * WORKERS + worker));
        let workers: Vec<_> = (0..WORKERS).map(start).collect();
        // Waits end by this clock, so keep it moving.
        while workers.iter().any(|worker| !worker.is_finished()) {
            run.clock.advance(SHORT / 4);
            std::thread::yield_now();
        }
    });
    let pool = run.pool;
    // The maintenance may still be at work.
    before_long(|| {
        let (total, idle) = (pool.num_total(), pool.num_idle());
        total == idle && idle == script.alive()
    });
    assert_eq!((pool.num_active(), pool.num_waiting()), (0, 0), "{shape:?}");
    assert!(pool.num_total() <= MOST, "{shape:?}");
    // A detached resource belongs to its borrower: at most one for each worker, beside the pool's.
    assert!(script.most_alive() <= MOST + WORKERS as usize, "{}", script.most_alive());
    pool.close();
    assert!(pool.wait_closed(SOON), "by the pool's clock, which stands still: it ends by itself");
    assert_eq!((pool.num_total(), script.alive(), pool.num_keys()), (0, 0, 0), "{shape:?}");
}

/// PROP-RP-NOTHING-LOST.
#[test]
fn everything_at_once_leaves_nothing_behind() {
    end_the_run_when_the_library_panics();
    for_each_seed(40, |seed| soon(move || run(seed)));
}
