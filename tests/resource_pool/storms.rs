//! Pools on tokio under load: how many connections they open, and what becomes of each resource.

use crate::common::locked;
use crate::runtimes::HOUR;
use crate::shared::random::{Random, for_each_seed};
use crate::shared::{before_long, end_the_run_when_the_library_panics};
use cabrank::periodic_executor::Tokio;
use cabrank::resource_pool::{
    Async, AsyncResourceFactory, AsyncResourcePool, Borrowed, ResourcePool,
};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::runtime::Builder;

const MOMENT: Duration = Duration::from_millis(1);

/// A factory whose creations wait until the test lets them go on, and that counts them.
#[derive(Clone, Default)]
struct Connects(Arc<Counts>);

#[derive(Default)]
struct Counts {
    begun: AtomicUsize,
    goes_on: tokio::sync::Notify,
    is_slow: AtomicBool,
}

impl AsyncResourceFactory for Connects {
    type Resource = usize;
    type Metadata = ();
    type Error = String;
    async fn create(&self, (): &()) -> Result<usize, String> {
        let number = self.0.begun.fetch_add(1, SeqCst);
        if self.0.is_slow.load(SeqCst) {
            self.0.goes_on.notified().await;
        }
        Ok(number)
    }
}

/// Two tasks borrow in turn, and one connection is open: they open one more, however many loans there are
/// (HikariCP #774).
#[test]
fn a_burst_of_loans_opens_no_burst_of_connections() {
    end_the_run_when_the_library_panics();
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_time().build();
    runtime.expect("a runtime").block_on(async {
        let connects = Connects::default();
        let builder = ResourcePool::builder(Async(connects.clone()), ()).max_total(50);
        let builder = builder.create_timeout(HOUR).overdue_after(HOUR / 2);
        let pool = builder.build_on(Tokio::current()).expect("a valid pool");
        pool.add_async().await.expect("there is room");
        connects.0.is_slow.store(true, SeqCst);
        let tasks = [(); 2].map(|()| {
            let pool = pool.clone();
            tokio::spawn(async move {
                for _ in 0..200 {
                    let lent = pool.borrow_async().await.expect("the one");
                    tokio::task::yield_now().await;
                    drop(lent);
                }
            })
        });
        for task in tasks {
            task.await.expect("no panic");
        }
        let begun = connects.0.begun.load(SeqCst);
        assert!(begun <= 2, "{begun} connections for two borrowers");
        connects.0.goes_on.notify_waiters();
    });
}

/// A factory that fails, panics and takes its time now and then, and knows where each resource is.
#[derive(Clone)]
struct Tracks(Arc<Track>);

struct Track {
    random: Mutex<Random>,
    made: AtomicUsize,
    /// How many loans of each existing resource there are.
    alive: Mutex<BTreeMap<usize, usize>>,
    destroyed: AtomicUsize,
}

impl Tracks {
    fn one_in(&self, n: usize) -> bool {
        locked(&self.0.random).one_in(n)
    }
    fn leaves(&self, resource: usize, loans: usize) {
        let left = locked(&self.0.alive).remove(&resource);
        assert_eq!(left, Some(loans), "resource {resource}");
    }
    fn lend(&self, resource: usize, by: isize) {
        let mut alive = locked(&self.0.alive);
        let loans = alive.get_mut(&resource).expect("a destroyed resource is lent");
        *loans = loans.checked_add_signed(by).expect("it is lent");
        assert!(*loans <= 1, "resource {resource} is lent twice");
    }
}

impl AsyncResourceFactory for Tracks {
    type Resource = usize;
    type Metadata = ();
    type Error = String;
    async fn create(&self, (): &()) -> Result<usize, String> {
        let polls = locked(&self.0.random).below(4);
        for _ in 0..polls {
            tokio::task::yield_now().await;
        }
        if self.one_in(20) {
            tokio::time::sleep(MOMENT).await;
        }
        if self.one_in(10) {
            return Err("on purpose".to_owned());
        }
        if self.one_in(30) {
            std::panic::resume_unwind(Box::new("on purpose"));
        }
        let number = self.0.made.fetch_add(1, SeqCst);
        locked(&self.0.alive).insert(number, 0);
        Ok(number)
    }
    fn destroy(&self, (): &(), resource: usize) {
        self.0.destroyed.fetch_add(1, SeqCst);
        self.leaves(resource, 0);
    }
}

/// Borrows, keeps the resource for a while, and ends the loan in some way.
async fn use_one(pool: &AsyncResourcePool<Tracks>, tracks: &Tracks, random: &Mutex<Random>) {
    let Ok(lent) = pool.borrow_async().await else { return };
    let lent = Loan { lent: Some(lent), tracks };
    tracks.lend(lent.number(), 1);
    if locked(random).one_in(2) {
        tokio::task::yield_now().await;
    }
    let end = locked(random).below(6);
    lent.end(end);
}

/// A loan that is noted: it ends also when its task is aborted.
struct Loan<'p> {
    lent: Option<Borrowed<'p, Async<Tracks>>>,
    tracks: &'p Tracks,
}

impl Loan<'_> {
    fn number(&self) -> usize {
        **self.lent.as_ref().expect("taken at the end only")
    }
    fn end(mut self, how: usize) {
        let number = self.number();
        let lent = self.lent.take().expect("taken at the end only");
        match how {
            0 => {
                assert_eq!(Borrowed::detach(lent), number);
                self.tracks.leaves(number, 1);
            }
            1 => {
                self.tracks.lend(number, -1);
                Borrowed::invalidate(lent);
            }
            _ => {
                self.tracks.lend(number, -1);
                drop(lent);
            }
        }
    }
}

impl Drop for Loan<'_> {
    fn drop(&mut self) {
        if let Some(lent) = self.lent.take() {
            self.tracks.lend(*lent, -1);
            drop(lent);
        }
    }
}

/// Borrowers are cancelled, the pool is cleared and resized: each resource is lent to one borrower at a time, and is
/// destroyed or detached once.
#[test]
fn each_resource_of_a_storm_ends_once() {
    end_the_run_when_the_library_panics();
    for_each_seed(6, |seed| {
        let runtime = Builder::new_multi_thread().worker_threads(4).enable_time().build();
        let runtime = runtime.expect("a runtime");
        let track = Track {
            random: Mutex::new(Random::new(seed)),
            made: AtomicUsize::new(0),
            alive: Mutex::default(),
            destroyed: AtomicUsize::new(0),
        };
        let tracks = Tracks(Arc::new(track));
        let builder = ResourcePool::builder(Async(tracks.clone()), ()).max_total(6);
        let builder = builder.fair(seed % 2 == 0).min_idle(seed as usize % 3).listener(|(), _| {});
        // So short that a few creations are overdue.
        let builder = builder.overdue_after(MOMENT).max_creating(4);
        let handle = Tokio::from(runtime.handle().clone());
        let pool = builder.build_on(handle).expect("a valid pool");
        runtime.block_on(async {
            let workers: Vec<_> = (0..8)
                .map(|worker| {
                    let (pool, tracks) = (pool.clone(), tracks.clone());
                    let random = Arc::new(Mutex::new(Random::new(100 * seed + worker)));
                    tokio::spawn(async move {
                        for _ in 0..150 {
                            let action = locked(&random).below(40);
                            match action {
                                0 => pool.clear_all(),
                                1 => {
                                    let most = 3 + locked(&random).below(6);
                                    drop(pool.set_max_total(most));
                                }
                                2..10 => {
                                    // Cancelled, somewhere.
                                    let (pool, tracks) = (pool.clone(), tracks.clone());
                                    let theirs = random.clone();
                                    let task = tokio::spawn(async move {
                                        use_one(&pool, &tracks, &theirs).await;
                                    });
                                    tokio::task::yield_now().await;
                                    task.abort();
                                    let _ = task.await;
                                }
                                _ => use_one(&pool, &tracks, &random).await,
                            }
                        }
                    })
                })
                .collect();
            for worker in workers {
                worker.await.expect("no panic");
            }
            assert_eq!((pool.num_active(), pool.num_waiting()), (0, 0));
            pool.close();
            pool.wait_closed_async().await;
        });
        assert_eq!(pool.num_total(), 0);
        // A resource of a task that ended in its last poll may still be on its way.
        before_long(|| locked(&tracks.0.alive).is_empty());
        assert!(tracks.0.destroyed.load(SeqCst) > 0 && tracks.0.made.load(SeqCst) > 0);
    });
}
