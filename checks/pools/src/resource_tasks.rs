//! A resource pool that tasks use on tokio, with time limits. Its factory fails, panics, pends and hangs. The time is
//! real.

use crate::course::{Course, DONE, before_long, count};
use crate::random::Random;
use cabrank::periodic_executor::Tokio;
use cabrank::resource_pool::{
    Async, AsyncResourceFactory, AsyncResourcePool, BorrowError, Borrowed,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::time::{sleep, timeout};

const TASKS: u64 = 32;
const FULL: usize = 6;
const MILLISECOND: Duration = Duration::from_millis(1);

#[derive(Default)]
struct Shared {
    alive: AtomicUsize,
    /// Creations in flight.
    creating: AtomicUsize,
    calls: AtomicUsize,
    calm: AtomicBool,
}

/// Counts itself in one of the numbers.
struct Counted(Arc<Shared>, fn(&Shared) -> &AtomicUsize);

impl Counted {
    fn new(shared: &Arc<Shared>, of: fn(&Shared) -> &AtomicUsize) -> Counted {
        of(shared).fetch_add(1, SeqCst);
        Counted(shared.clone(), of)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        (self.1)(&self.0).fetch_sub(1, SeqCst);
    }
}

pub(crate) struct Resource {
    broken: bool,
    _alive: Counted,
}

#[derive(Clone, Default)]
pub(crate) struct Factory(Arc<Shared>);

impl Factory {
    async fn call(&self) -> Result<(), &'static str> {
        let nth = self.0.calls.fetch_add(1, SeqCst);
        match nth % 61 {
            _ if self.0.calm.load(SeqCst) => {}
            7 | 41 => return Err("on purpose"),
            17 => std::panic::resume_unwind(Box::new("on purpose")),
            29 => std::future::pending().await,
            nth if nth % 4 == 0 => sleep(MILLISECOND * (nth as u32 % 5)).await,
            nth if nth % 4 == 1 => tokio::task::yield_now().await,
            _ => {}
        }
        Ok(())
    }
}

impl AsyncResourceFactory for Factory {
    type Resource = Resource;
    type Metadata = ();
    type Error = &'static str;
    async fn create(&self, (): &()) -> Result<Resource, &'static str> {
        let _creating = Counted::new(&self.0, |shared| &shared.creating);
        self.call().await?;
        count(&DONE.created);
        Ok(Resource { broken: false, _alive: Counted::new(&self.0, |shared| &shared.alive) })
    }
    async fn validate(&self, (): &(), resource: &mut Resource) -> bool {
        !resource.broken && self.call().await.is_ok()
    }
    async fn passivate(&self, (): &(), _: &mut Resource) -> Result<(), &'static str> {
        self.call().await
    }
}

type Pool = AsyncResourcePool<Factory>;

pub(crate) struct Tasks {
    /// `None` once it has ended.
    runtime: Option<Runtime>,
    /// The runtime ends before the pool is closed.
    runtime_ends_first: bool,
    pool: Pool,
    factory: Factory,
}

impl Tasks {
    pub(crate) fn open(random: &mut Random) -> Tasks {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(2).enable_time().build().expect("a runtime");
        let factory = Factory::default();
        let pool = Pool::builder(Async(factory.clone()), ())
            .max_total(FULL)
            .max_idle(FULL - 1)
            .min_idle(random.below(3))
            .fair(!random.one_in(3))
            .test_on_borrow(random.one_in(2))
            .test_on_return(random.one_in(2))
            .max_idle_time(20 * MILLISECOND)
            .max_lifetime(100 * MILLISECOND)
            .create_timeout(10 * MILLISECOND)
            .validate_timeout(5 * MILLISECOND)
            .passivate_timeout(5 * MILLISECOND)
            .build_on(Tokio::from(runtime.handle().clone()))
            .expect("a valid pool");
        let runtime_ends_first = random.one_in(2);
        Tasks { runtime: Some(runtime), runtime_ends_first, pool, factory }
    }
}

async fn borrow_and_return(pool: &Pool, random: &mut Random) {
    let patience = MILLISECOND * random.below(8) as u32;
    let mut lent = match timeout(patience, pool.borrow_async()).await {
        Err(_) => return count(&DONE.cancelled),
        Ok(Err(_)) => return count(&DONE.refused),
        Ok(Ok(lent)) => lent,
    };
    count(&DONE.lent);
    if random.one_in(4) {
        sleep(MILLISECOND * random.below(3) as u32).await;
    }
    match random.below(16) {
        0 => Borrowed::invalidate(lent),
        1 => drop(Borrowed::detach(lent)),
        2 => {
            count(&DONE.crashed);
            lent.broken = true;
        }
        3..8 => Borrowed::put_back(lent).await,
        8 => drop(timeout(Duration::ZERO, Borrowed::put_back(lent)).await),
        _ => drop(lent),
    }
}

async fn rarely(pool: &Pool, random: &mut Random) {
    match random.below(5) {
        0 => pool.clear(),
        1 => pool.clear_all(),
        2 => drop(timeout(MILLISECOND, pool.add_async()).await),
        _ => {
            count(&DONE.resized);
            pool.set_max_idle(2 + random.below(3)).expect("valid");
            pool.set_max_total(4 + random.below(FULL)).expect("valid");
        }
    }
}

impl Course for Tasks {
    fn work(&mut self, seed: u64, until: Instant) {
        self.factory.0.calm.store(false, SeqCst);
        let runtime = self.runtime.as_ref().expect("it has not ended");
        let start = |nth| {
            let pool = self.pool.clone();
            runtime.spawn(async move {
                let mut random = Random::new(seed * TASKS + nth);
                while Instant::now() < until {
                    match random.below(40) {
                        0 => rarely(&pool, &mut random).await,
                        _ => borrow_and_return(&pool, &mut random).await,
                    }
                    tokio::task::yield_now().await;
                }
            })
        };
        let tasks: Vec<_> = (0..TASKS).map(start).collect();
        runtime.block_on(async {
            for (nth, task) in tasks.into_iter().enumerate() {
                // Some are aborted, wherever they are.
                if nth % 4 == 0 {
                    sleep(until.saturating_duration_since(Instant::now()) / 8).await;
                    task.abort();
                }
                assert!(!task.await.is_err_and(|error| error.is_panic()), "a task panicked");
            }
        });
    }

    fn rest(&mut self) {
        let (pool, shared) = (&self.pool, &self.factory.0);
        shared.calm.store(true, SeqCst);
        pool.set_max_total(FULL).expect("valid");
        pool.set_max_idle(FULL - 1).expect("valid");
        let agree = || {
            before_long(
                "what lives is idle",
                || (),
                || {
                    let (total, idle) = (pool.num_total(), pool.num_idle());
                    (pool.num_active(), pool.num_waiting()) == (0, 0)
                        && total == idle
                        && idle == shared.alive.load(SeqCst)
                        && shared.creating.load(SeqCst) == 0
                },
            );
        };
        agree();
        self.runtime.as_ref().expect("it has not ended").block_on(async {
            // Every slot can be lent at once.
            let mut all = Vec::new();
            for _ in 0..FULL {
                let lent = timeout(Duration::from_secs(20), pool.borrow_async()).await;
                all.push(lent.expect("a slot is free").expect("the factory succeeds"));
            }
            let further = pool.try_borrow_async().await;
            assert!(matches!(further, Err(BorrowError::WouldBlock)), "no further slot");
        });
        agree();
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        if self.runtime_ends_first {
            drop(self.runtime.take());
        }
        let (pool, shared) = (&self.pool, &self.factory.0);
        pool.close();
        before_long("the pool is closed", || (), || pool.wait_closed(Duration::ZERO));
        let left = (pool.num_total(), shared.alive.load(SeqCst), shared.creating.load(SeqCst));
        assert_eq!(left, (0, 0, 0), "a closed pool is empty");
    }
}
