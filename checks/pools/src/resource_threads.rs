//! A keyed resource pool that threads use. Its factory fails and panics, and its clock jumps.

use crate::course::{Course, DONE, before_long, count};
use crate::random::Random;
use cabrank::ManualClock;
use cabrank::resource_pool::{
    BorrowError, Borrowed, KeyedResourcePool, LendOrder, ResourceFactory, WhenExhausted,
};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

const KEYS: usize = 6;
const WORKERS: u64 = 4;
const FULL: usize = 4;
const SHORT: Duration = Duration::from_millis(10);

/// The state that resources and their factory share.
#[derive(Default)]
struct Shared {
    alive: AtomicUsize,
    calls: AtomicUsize,
    /// Calls of the factory succeed.
    calm: AtomicBool,
}

pub(crate) struct Resource {
    shared: Arc<Shared>,
    broken: bool,
}

impl Drop for Resource {
    fn drop(&mut self) {
        self.shared.alive.fetch_sub(1, SeqCst);
    }
}

#[derive(Clone, Default)]
pub(crate) struct Factory(Arc<Shared>);

impl Factory {
    /// Fails or panics now and then. The panics do not call the panic hook.
    fn call(&self) -> Result<(), &'static str> {
        match self.0.calls.fetch_add(1, SeqCst) % 31 {
            _ if self.0.calm.load(SeqCst) => Ok(()),
            11 => Err("on purpose"),
            23 => std::panic::resume_unwind(Box::new("on purpose")),
            _ => Ok(()),
        }
    }
}

impl ResourceFactory for Factory {
    type Resource = Resource;
    type Metadata = usize;
    type Error = &'static str;
    fn create(&self, _: &usize) -> Result<Resource, &'static str> {
        self.call()?;
        count(&DONE.created);
        self.0.alive.fetch_add(1, SeqCst);
        Ok(Resource { shared: self.0.clone(), broken: false })
    }
    fn destroy(&self, _: &usize, resource: Resource) {
        drop(resource);
        let _ = self.call();
    }
    fn validate(&self, _: &usize, resource: &mut Resource) -> bool {
        !resource.broken && self.call().is_ok()
    }
    fn activate(&self, _: &usize, _: &mut Resource) -> Result<(), &'static str> {
        self.call()
    }
    fn passivate(&self, _: &usize, _: &mut Resource) -> Result<(), &'static str> {
        self.call()
    }
}

type Pool = KeyedResourcePool<usize, Factory>;
type Task = Pin<Box<dyn Future<Output = bool> + Send>>;

pub(crate) struct Threads {
    pool: Pool,
    factory: Factory,
    clock: ManualClock,
}

impl Threads {
    pub(crate) fn open(random: &mut Random) -> Threads {
        let (clock, factory) = (ManualClock::new(), Factory::default());
        let actions = [WhenExhausted::Block, WhenExhausted::Block, WhenExhausted::Grow];
        let pool = KeyedResourcePool::builder(factory.clone())
            .max_active(1 + random.below(2))
            .max_idle(2)
            .min_idle(random.below(2))
            .max_total(FULL)
            .max_total_per_key(2)
            .when_exhausted(*random.of(&actions))
            .fair(!random.one_in(2))
            .lend_order(*random.of(&[LendOrder::NewestFirst, LendOrder::OldestFirst]))
            .test_on_create(random.one_in(2))
            .test_on_borrow(random.one_in(2))
            .test_on_return(random.one_in(2))
            .test_while_idle(true)
            .eviction_interval(SHORT)
            .soft_max_idle_time(2 * SHORT)
            .max_idle_time(4 * SHORT)
            .max_lifetime(20 * SHORT)
            .lifetime_jitter(10 * SHORT)
            .abandoned_after(100 * SHORT)
            .remove_abandoned(random.one_in(2))
            .clock(clock.clock())
            .listener(|_, _| {})
            .build()
            .expect("a valid pool");
        Threads { pool, factory, clock }
    }

    fn worker(&self, seed: u64, until: Instant) {
        let mut random = Random::new(seed);
        let (mut held, mut tasks) = (Vec::new(), Vec::new());
        while Instant::now() < until {
            self.step(&mut random, &mut held, &mut tasks);
        }
    }

    fn step<'a>(
        &'a self,
        random: &mut Random,
        held: &mut Vec<Borrowed<'a, Factory>>,
        tasks: &mut Vec<Task>,
    ) {
        let (pool, key) = (&self.pool, random.below(KEYS));
        let keep = |got: Result<Borrowed<'a, Factory>, _>, held: &mut Vec<_>| {
            count(if got.is_ok() { &DONE.lent } else { &DONE.refused });
            held.extend(got);
        };
        // A worker that waited while it has a loan could wait for itself.
        if held.len() > random.below(3) {
            let mut lent = held.swap_remove(random.below(held.len()));
            match random.below(12) {
                0 => Borrowed::invalidate(lent),
                1 => drop(Borrowed::detach(lent)),
                2 => {
                    count(&DONE.crashed);
                    lent.broken = true;
                }
                // The borrower panics.
                3 => {
                    let panics = move || {
                        let _lent = lent;
                        std::panic::resume_unwind(Box::new("on purpose"))
                    };
                    let panicked: Result<(), _> =
                        std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics));
                    assert!(panicked.is_err());
                }
                _ => drop(lent),
            }
            return;
        }
        match random.below(16) {
            0..2 if held.is_empty() => keep(pool.borrow_timeout(&key, SHORT), held),
            2..8 => keep(pool.try_borrow(&key), held),
            8..10 => {
                let theirs = pool.clone();
                tasks.push(Box::pin(async move { theirs.borrow_async(&key).await.is_ok() }));
            }
            10..12 if !tasks.is_empty() => {
                let nth = random.below(tasks.len());
                let mut cx = Context::from_waker(Waker::noop());
                if let Poll::Ready(served) = tasks[nth].as_mut().poll(&mut cx) {
                    count(if served { &DONE.lent } else { &DONE.refused });
                    drop(tasks.swap_remove(nth));
                } else if random.one_in(2) || tasks.len() > 8 {
                    count(&DONE.cancelled);
                    drop(tasks.swap_remove(nth));
                }
            }
            12 => drop(pool.add(&key)),
            13 => pool.maintain(),
            14 => self.rarely(random, key),
            _ => self.clock.advance(SHORT * *random.of(&[0, 0, 1, 3, 1000])),
        }
    }

    fn rarely(&self, random: &mut Random, key: usize) {
        let pool = &self.pool;
        match random.below(6) {
            0 => pool.clear(),
            1 => pool.clear_all(),
            2 => pool.clear_key(&key),
            3 => pool.retain(|key, _| key % 3 > 0),
            _ => {
                count(&DONE.resized);
                // The pool refuses what contradicts another limit.
                drop(pool.set_max_total_per_key(1 + random.below(2)));
                drop(pool.set_max_total(2 + random.below(3)));
                drop(pool.set_max_active(1 + random.below(3)));
                drop(pool.set_max_idle(1 + random.below(3)));
            }
        }
    }
}

impl Course for Threads {
    fn work(&mut self, seed: u64, until: Instant) {
        self.factory.0.calm.store(false, SeqCst);
        let this = &*self;
        std::thread::scope(|scope| {
            let start = |nth| scope.spawn(move || this.worker(seed * WORKERS + nth, until));
            let workers: Vec<_> = (0..WORKERS).map(start).collect();
            while workers.iter().any(|worker| !worker.is_finished()) {
                this.clock.advance(SHORT / 4);
                std::thread::sleep(Duration::from_micros(50));
            }
        });
    }

    fn rest(&mut self) {
        let (pool, alive) = (&self.pool, &self.factory.0.alive);
        self.factory.0.calm.store(true, SeqCst);
        pool.set_max_total(FULL).expect("valid");
        pool.set_max_total_per_key(FULL).expect("valid");
        pool.set_max_active(FULL).expect("valid");
        pool.set_max_idle(FULL - 1).expect("valid");
        let agree = || {
            before_long(
                "what lives is idle",
                || self.clock.advance(SHORT),
                || {
                    let (total, idle) = (pool.num_total(), pool.num_idle());
                    (pool.num_active(), pool.num_waiting()) == (0, 0)
                        && total == idle
                        && idle == alive.load(SeqCst)
                },
            );
        };
        agree();
        // Every slot can be lent at once, to one key.
        let mut all = Vec::new();
        before_long(
            "every slot is lent",
            || (),
            || {
                all.extend(pool.try_borrow(&0));
                all.len() == FULL
            },
        );
        assert!(matches!(pool.try_borrow(&1), Err(BorrowError::WouldBlock)), "no further slot");
        drop(all);
        agree();
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        let (pool, alive) = (&self.pool, &self.factory.0.alive);
        pool.close();
        before_long(
            "the pool is closed",
            || self.clock.advance(SHORT),
            || pool.wait_closed(Duration::ZERO),
        );
        let left = (pool.num_total(), pool.num_keys(), alive.load(SeqCst));
        assert_eq!(left, (0, 0, 0), "a closed pool is empty");
    }
}
