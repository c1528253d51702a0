//! How a pool is loaded and timed.
//!
//! A *round* is: a pool that is warm, threads that set out together, each of which borrows and returns so and
//! so often. Its time is what passed until the last was done, by the number of operations: with several
//! threads that is the reciprocal of the throughput.
//!
//! The driver of an asynchronous pool is minimal: each thread has one task, which it enters once in a round and
//! polls to its end. [`Driver::Alone`] parks the thread while the task waits. [`Driver::Tokio`] is a runtime of one
//! thread, for the pools that need it: bb8 sets one of its timers, and mobc returns a resource by a task.

use std::fmt::Debug;
use std::hint::black_box;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

/// A load on a pool: one column of the table.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    pub(crate) name: &'static str,
    pub(crate) threads: usize,
    /// How many resources the pool has.
    pub(crate) size: usize,
    /// How many of them are borrowed all the while.
    pub(crate) borrowed: usize,
    /// How long each operation keeps what it borrowed. Where it does, the waits are timed.
    pub(crate) hold: Option<Duration>,
    /// How many operations each thread makes in a round.
    pub(crate) operations: u32,
}

/// The result of a round.
pub(crate) struct Round {
    pub(crate) elapsed: Duration,
    pub(crate) operations: u64,
    /// How many allocations the threads made, those for setting out included.
    pub(crate) allocations: u64,
    /// How long each call waited for its resource. Empty unless the load holds.
    pub(crate) waits: Vec<Duration>,
}

impl Round {
    pub(crate) fn nanoseconds(&self) -> f64 {
        self.elapsed.as_secs_f64() * 1e9 / self.operations as f64
    }
}

/// A pool whose `borrow` blocks the thread. Dropping the guard returns.
pub(crate) trait Blocking: Sync + Sized + 'static {
    type Guard<'a>;
    fn of(size: usize) -> Self;
    fn borrow(&self) -> Self::Guard<'_>;
}

/// A pool whose `borrow` is a future: its own, for another around it would cost as much as some pools do.
pub(crate) trait Asynchronous: Sync + Sized + 'static {
    type Guard<'a>;
    type Error: Debug;
    async fn of(size: usize) -> Self;
    fn borrow(&self) -> impl Future<Output = Result<Self::Guard<'_>, Self::Error>>;
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Limit,
    Blocking,
    Asynchronous,
}

/// The order in which a pool serves waiters.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// A returned resource is granted to the oldest waiter.
    FirstCome,
    /// A newcomer may take it before the waiters.
    Barging,
}

impl Order {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Order::FirstCome => "in order",
            Order::Barging => "barging newcomers",
        }
    }
}

#[derive(Clone, Copy)]
pub(crate) enum Driver {
    /// The task is polled by its thread, which parks in between.
    Alone,
    /// The same in a runtime of tokio's, one for each thread.
    Tokio,
}

impl Driver {
    fn run<T>(self, task: impl Future<Output = T>) -> T {
        match self {
            Driver::Alone => futures_executor::block_on(task),
            Driver::Tokio => {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
                runtime.expect("a runtime").block_on(async {
                    let done = task.await;
                    // A pool may return a resource by a task, which runs before the runtime is dropped.
                    tokio::task::yield_now().await;
                    done
                })
            }
        }
    }
}

/// One row of the table: builds a pool for a load.
pub(crate) struct Contender {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) order: Order,
    prepare: Box<dyn Fn(usize) -> Box<dyn Loaded>>,
}

impl Contender {
    /// A pool of the load's size in which every resource has been made.
    pub(crate) fn prepare(&self, load: &Load) -> Box<dyn Loaded> {
        (self.prepare)(load.size)
    }
}

/// A pool that can be put to a load, again and again.
pub(crate) trait Loaded {
    fn round(&self, load: &Load, operations: u32) -> Round;
}

pub(crate) fn threads<P: Blocking>(name: &'static str, kind: Kind, order: Order) -> Contender {
    let prepare = |size| {
        let pool = P::of(size);
        drop((0..size).map(|_| pool.borrow()).collect::<Vec<_>>());
        Box::new(Threads(pool)) as Box<dyn Loaded>
    };
    Contender { name, kind, order, prepare: Box::new(prepare) }
}

struct Threads<P>(P);

impl<P: Blocking> Loaded for Threads<P> {
    fn round(&self, load: &Load, operations: u32) -> Round {
        let pool = &self.0;
        let _crowd: Vec<_> = (0..load.borrowed).map(|_| pool.borrow()).collect();
        side_by_side(load, operations, |share| {
            share.start();
            match load.hold {
                None => {
                    for _ in 0..operations {
                        let guard = pool.borrow();
                        black_box(&guard);
                    }
                }
                Some(hold) => {
                    for _ in 0..operations {
                        let asked = Instant::now();
                        let guard = pool.borrow();
                        share.hold(asked, hold);
                        drop(guard);
                    }
                }
            }
            share.stop();
        })
    }
}

pub(crate) fn tasks<P: Asynchronous>(
    name: &'static str,
    driver: Driver,
    order: Order,
) -> Contender {
    let prepare = move |size| {
        let pool = driver.run(async {
            let pool = P::of(size).await;
            let mut all = Vec::with_capacity(size);
            for _ in 0..size {
                all.push(pool.borrow().await.expect(LENT));
            }
            drop(all);
            pool
        });
        Box::new(Tasks { pool, driver }) as Box<dyn Loaded>
    };
    Contender { name, kind: Kind::Asynchronous, order, prepare: Box::new(prepare) }
}

/// The pool stays open, a creation cannot fail, and a resource is returned in time.
const LENT: &str = "a resource is lent";

struct Tasks<P> {
    pool: P,
    driver: Driver,
}

impl<P: Asynchronous> Loaded for Tasks<P> {
    fn round(&self, load: &Load, operations: u32) -> Round {
        let pool = &self.pool;
        // Borrowed and returned in a runtime as well: mobc returns by a task.
        let one = async |share: &mut Share<'_>| {
            let mut crowd = Vec::with_capacity(load.borrowed);
            for _ in 0..load.borrowed {
                crowd.push(pool.borrow().await.expect(LENT));
            }
            share.start();
            match load.hold {
                None => {
                    for _ in 0..operations {
                        let guard = pool.borrow().await.expect(LENT);
                        black_box(&guard);
                    }
                }
                Some(hold) => {
                    for _ in 0..operations {
                        let asked = Instant::now();
                        let guard = pool.borrow().await.expect(LENT);
                        share.hold(asked, hold);
                        drop(guard);
                    }
                }
            }
            share.stop();
            drop(crowd);
        };
        side_by_side(load, operations, |share| self.driver.run(one(share)))
    }
}

/// The share of one thread in a round.
struct Share<'a> {
    threads: usize,
    arrived: &'a AtomicUsize,
    span: Option<(Instant, Instant)>,
    allocations: u64,
    waits: Vec<Duration>,
}

impl Share<'_> {
    /// Sets out together with the others.
    fn start(&mut self) {
        // Not asleep: who has to be woken comes when the others are half done.
        self.arrived.fetch_add(1, SeqCst);
        while self.arrived.load(SeqCst) < self.threads {
            std::thread::yield_now();
        }
        let now = Instant::now();
        self.span = Some((now, now));
    }
    fn stop(&mut self) {
        if let Some((_, ended)) = &mut self.span {
            *ended = Instant::now();
        }
    }
    /// The resource is there: notes the wait, and works so long with it.
    #[inline]
    fn hold(&mut self, asked: Instant, hold: Duration) {
        let got = Instant::now();
        self.waits.push(got - asked);
        while got.elapsed() < hold {
            std::hint::spin_loop();
        }
    }
}

/// Runs `work` once on each of the load's threads. One of them is the caller's: with a single thread, only the work
/// runs.
fn side_by_side(load: &Load, operations: u32, work: impl Fn(&mut Share<'_>) + Sync) -> Round {
    let (threads, arrived) = (load.threads, AtomicUsize::new(0));
    let waits = if load.hold.is_some() { operations as usize } else { 0 };
    let one = || {
        let waits = Vec::with_capacity(waits);
        let mut share = Share { threads, arrived: &arrived, span: None, allocations: 0, waits };
        share.allocations = allocation_counter::measure(|| work(&mut share)).count_total;
        share
    };
    let shares: Vec<Share<'_>> = std::thread::scope(|scope| {
        let others: Vec<_> = (1..load.threads).map(|_| scope.spawn(one)).collect();
        let mine = one();
        let others = others.into_iter().map(|other| other.join().expect("no panic"));
        others.chain([mine]).collect()
    });
    let spans = || shares.iter().filter_map(|share| share.span);
    let (began, ended) = (spans().map(|span| span.0).min(), spans().map(|span| span.1).max());
    let elapsed = began.zip(ended).map(|(began, ended)| ended - began);
    Round {
        elapsed: elapsed.expect("there are threads"),
        operations: u64::from(operations) * load.threads as u64,
        allocations: shares.iter().map(|share| share.allocations).sum(),
        waits: shares.into_iter().flat_map(|share| share.waits).collect(),
    }
}
