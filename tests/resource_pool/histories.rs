//! Random histories of a keyed pool for tasks, in every combination of its options. The factory
//! waits, fails and panics at random at each of its calls. In the end every call succeeds, and
//! everything has to come to its end.
//!
//! The refinement test compares single steps with the specification. This test adds the options that
//! it leaves out: loans that look abandoned, jitter, minima of several keys, and bounded runs.
//! Several calls are under way at once. Sometimes a destruction causes a borrow of the same key.
//!
//! The pool asserts every invariant in every section. The test asserts that a resource serves its
//! own key only, that every wait ends, and that a closed pool is empty, with all counts zero.
//! Existing resources stay within `max_total` and `max_total_per_key`, unless these change or a loan
//! is taken back.
//!
//! The environment's `CABRANK_CASES=60000` runs so many histories instead of 400; `CABRANK_SEED=<n>`
//! sets the first seed.

use crate::common::locked;
use crate::shared::SECOND;
use crate::shared::end_the_run_when_the_library_panics;
use crate::shared::random::Random;
use crate::shared::task::Task;
use cabrank::ManualClock;
use cabrank::resource_pool::{
    Async, AsyncResourceFactory, Borrowed, Builder, KeyedResourcePool, LendOrder,
    WeakKeyedResourcePool, WhenExhausted,
};
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::Poll;
use std::time::Duration;

const STEPS: usize = 300;
const KEYS: usize = 3;

/// The factory's behaviour.
struct Moods {
    random: Mutex<Random>,
    /// From now on every call succeeds.
    calm: AtomicBool,
    alive: Alive,
    alive_of: [Alive; KEYS],
    pool: OnceLock<WeakPool>,
    /// Borrows that began during a destruction.
    asked: Mutex<Vec<Task<Option<Lent>>>>,
}

/// How many exist, and the most that ever existed at once.
#[derive(Default)]
struct Alive {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Alive {
    fn one_more(&self) {
        let now = self.now.fetch_add(1, SeqCst) + 1;
        self.most.fetch_max(now, SeqCst);
    }
    fn one_less(&self) {
        self.now.fetch_sub(1, SeqCst);
    }
}

impl Moods {
    fn one_in(&self, n: usize) -> bool {
        !self.calm.load(SeqCst) && locked(&self.random).one_in(n)
    }
    fn ask(&self, key: usize) {
        let Some(pool) = self.pool.get().and_then(WeakPool::upgrade) else { return };
        let ask = async move { pool.try_borrow_async(&key).await.ok().map(Borrowed::into_owned) };
        let mut task = Task::new(ask);
        // A resource that is lent at once comes back at once.
        if task.poll().is_none() {
            locked(&self.asked).push(task);
        }
    }
    /// Pends for some polls, then succeeds or fails.
    async fn call(&self) -> Result<(), String> {
        let mut polls = 0;
        poll_fn(|_| {
            polls += 1;
            // Some calls pend until `calm`.
            let waits = self.one_in(3) || polls > 3 && !self.calm.load(SeqCst);
            if waits { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
        if self.one_in(20) {
            resume_unwind(Box::new("on purpose"));
        }
        if self.one_in(20) { Err("on purpose".to_owned()) } else { Ok(()) }
    }
}

struct Resource(Arc<Moods>, usize);

impl Drop for Resource {
    fn drop(&mut self) {
        self.0.alive.one_less();
        self.0.alive_of[self.1].one_less();
    }
}

struct Moody(Arc<Moods>);

impl AsyncResourceFactory for Moody {
    type Resource = Resource;
    type Metadata = usize;
    type Error = String;

    async fn create(&self, key: &usize) -> Result<Resource, String> {
        self.0.call().await?;
        self.0.alive.one_more();
        self.0.alive_of[*key].one_more();
        Ok(Resource(self.0.clone(), *key))
    }
    fn destroy(&self, key: &usize, resource: Resource) {
        assert_eq!(*key, resource.1);
        if self.0.one_in(4) {
            self.0.ask(*key);
        }
        drop(resource);
        if self.0.one_in(10) {
            resume_unwind(Box::new("on purpose"));
        }
    }
    async fn validate(&self, key: &usize, resource: &mut Resource) -> bool {
        assert_eq!(*key, resource.1);
        self.0.call().await.is_ok()
    }
    async fn activate(&self, key: &usize, resource: &mut Resource) -> Result<(), String> {
        assert_eq!(*key, resource.1);
        self.0.call().await
    }
    async fn passivate(&self, key: &usize, resource: &mut Resource) -> Result<(), String> {
        assert_eq!(*key, resource.1);
        self.0.call().await
    }
}

type Pool = KeyedResourcePool<usize, Async<Moody>>;
type WeakPool = WeakKeyedResourcePool<usize, Async<Moody>>;
type Lent = Borrowed<'static, Async<Moody>>;

struct History {
    pool: Pool,
    clock: ManualClock,
    moods: Arc<Moods>,
    random: Random,
    /// Calls under way; each ends with its loan, if it gets one.
    tasks: Vec<Task<Option<Lent>>>,
    held: Vec<Lent>,
    most: Most,
}

/// The limits in all and of a key, until one of them is changed.
#[derive(Clone, Copy)]
struct Most {
    in_all: Option<usize>,
    of_key: Option<usize>,
}

fn options(
    random: &mut Random,
    mut b: Builder<Async<Moody>, Pool>,
) -> (Builder<Async<Moody>, Pool>, Most) {
    let total = 1 + random.below(5);
    let active = 1 + random.below(3);
    b = b
        .max_active(active)
        .lend_order(*random.of(&[LendOrder::NewestFirst, LendOrder::OldestFirst]))
        .fair(!random.one_in(2));
    b = b.test_on_borrow(random.one_in(2)).test_on_create(random.one_in(3));
    b = b.test_on_return(random.one_in(3));
    let mut most = Most { in_all: None, of_key: None };
    if !random.one_in(4) {
        b = b.max_total(total).max_active(active.min(total));
        most.in_all = Some(total);
        if random.one_in(3) {
            let of_key = 1 + random.below(total);
            b = b.max_total_per_key(of_key).max_active(active.min(of_key));
            most.of_key = Some(of_key);
        }
    }
    if random.one_in(3) {
        let most = most.in_all.into_iter().chain(most.of_key).min().unwrap_or(usize::MAX);
        b = b.max_idle(random.below(3).min(most));
    } else if random.one_in(3) {
        b = b.min_idle(1);
    }
    if random.one_in(4) {
        b = b.when_exhausted(WhenExhausted::Grow);
    }
    let idle_time = random.one_in(2);
    if idle_time {
        b = b.max_idle_time(10 * SECOND);
        if random.one_in(2) {
            b = b.soft_max_idle_time(4 * SECOND);
        }
    }
    if random.one_in(2) {
        b = b.max_lifetime(15 * SECOND);
        if random.one_in(2) {
            b = b.lifetime_jitter(8 * SECOND);
        }
    }
    let tests = random.one_in(3);
    if tests || idle_time && random.one_in(2) {
        b = b.eviction_interval(3 * SECOND).test_while_idle(tests);
        if random.one_in(2) {
            b = b.evictions_per_run(1);
        }
    }
    let removes = random.one_in(3);
    if removes || random.one_in(3) {
        b = b.abandoned_after(5 * SECOND).remove_abandoned(removes);
    }
    (b, if removes { Most { in_all: None, of_key: None } } else { most })
}

impl History {
    fn new(seed: u64) -> History {
        let mut random = Random::new(seed);
        let moods = Arc::new(Moods {
            random: Mutex::new(Random::new(seed ^ 0x5DEE_CE66)),
            calm: AtomicBool::new(false),
            alive: Alive::default(),
            alive_of: std::array::from_fn(|_| Alive::default()),
            pool: OnceLock::new(),
            asked: Mutex::default(),
        });
        let clock = ManualClock::new();
        let builder = KeyedResourcePool::builder(Async(Moody(moods.clone())));
        let (builder, most) = options(&mut random, builder.clock(clock.clock()));
        let pool = builder.maintenance(false).build_async().expect("a valid pool");
        assert!(moods.pool.set(pool.downgrade()).is_ok());
        History { pool, clock, moods, random, tasks: vec![], held: vec![], most }
    }

    fn begin(&mut self, task: impl Future<Output = Option<Lent>> + Send + 'static) {
        self.tasks.push(Task::new(task));
    }

    fn step(&mut self) {
        let (pool, key) = (self.pool.clone(), self.random.below(KEYS));
        match self.random.below(24) {
            0..=4 => self
                .begin(async move { pool.borrow_async(&key).await.ok().map(Borrowed::into_owned) }),
            5 => self.begin(async move {
                pool.try_borrow_async(&key).await.ok().map(Borrowed::into_owned)
            }),
            6 => self.begin(async move { pool.add_async(&key).await.ok().and(None) }),
            7 | 8 => self.begin(async move {
                pool.maintain_async().await;
                None
            }),
            9..=13 => self.poll_one(),
            14 if !self.tasks.is_empty() => {
                let nth = self.random.below(self.tasks.len());
                drop(self.tasks.swap_remove(nth));
            }
            15..=17 if !self.held.is_empty() => {
                let nth = self.random.below(self.held.len());
                self.give_back(nth);
            }
            18 | 19 => self.clock.advance(SECOND * self.random.below(4) as u32),
            20 => self.clear(key),
            21 if self.random.one_in(3) => self.resize(),
            _ => {}
        }
        self.tasks.append(&mut locked(&self.moods.asked));
    }

    fn poll_one(&mut self) {
        if self.tasks.is_empty() {
            return;
        }
        let nth = self.random.below(self.tasks.len());
        if let Some(lent) = self.tasks[nth].poll() {
            self.held.extend(lent);
            drop(self.tasks.swap_remove(nth));
        }
    }

    fn give_back(&mut self, nth: usize) {
        let lent = self.held.swap_remove(nth);
        match self.random.below(6) {
            0 => Borrowed::invalidate(lent),
            1 => drop(Borrowed::detach(lent)),
            2 => self.begin(async move {
                Borrowed::put_back(lent).await;
                None
            }),
            _ => drop(lent),
        }
    }

    fn clear(&mut self, key: usize) {
        match self.random.below(5) {
            0 => self.pool.clear(),
            1 => self.pool.clear_all(),
            2 => self.pool.clear_key(&key),
            3 => self.pool.retain(|_, _| !self.random.one_in(3)),
            _ => assert!(self.pool.snapshot().total >= self.pool.num_active()),
        }
    }

    fn resize(&mut self) {
        let number = self.random.below(4);
        // The pool refuses values that contradict the other limits.
        let _ = match self.random.below(5) {
            0 => self.pool.set_max_active(1 + number),
            1 => {
                self.most.in_all = None;
                self.pool.set_max_total(1 + number)
            }
            2 => {
                self.most.of_key = None;
                self.pool.set_max_total_per_key(1 + number)
            }
            3 => self.pool.set_max_idle(number),
            _ => self.pool.set_min_idle(number % 2),
        };
    }

    /// Lets every call succeed, returns all loans and polls all tasks: then all ends.
    fn end(mut self) {
        self.moods.calm.store(true, SeqCst);
        self.held.clear();
        for _ in 0..400 {
            self.tasks.retain_mut(|task| task.poll().is_none());
            if self.tasks.is_empty() {
                break;
            }
        }
        assert_eq!(self.tasks.len(), 0, "some never end: {:?}", self.pool.snapshot());
        assert_eq!((self.pool.num_active(), self.pool.num_waiting()), (0, 0));
        assert_eq!(self.pool.num_total(), self.pool.num_idle());
        let within = |alive: &Alive, most: Option<usize>| {
            let alive = alive.most.load(SeqCst);
            assert!(most.is_none_or(|most| alive <= most), "{alive} of {most:?} existed");
        };
        within(&self.moods.alive, self.most.in_all);
        self.moods.alive_of.iter().for_each(|alive| within(alive, self.most.of_key));
        self.pool.close();
        assert!(self.pool.wait_closed(Duration::ZERO));
        assert_eq!((self.moods.alive.now.load(SeqCst), self.pool.num_keys()), (0, 0));
    }
}

fn from_environment(name: &str, usual: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.map_or(usual, |text| text.parse().expect("a number"))
}

#[test]
fn random_histories_come_to_their_end() {
    end_the_run_when_the_library_panics();
    let first = from_environment("CABRANK_SEED", 1);
    for seed in first..first + from_environment("CABRANK_CASES", 400) {
        let run = || {
            let mut history = History::new(seed);
            (0..STEPS).for_each(|_| history.step());
            history.end();
        };
        if let Err(payload) = catch_unwind(AssertUnwindSafe(run)) {
            eprintln!("CABRANK_SEED={seed}");
            resume_unwind(payload);
        }
    }
}
