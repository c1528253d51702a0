//! The rest of the Elixir pool's suite: a hundred threads count to fifty each, and the sum is right.

use cabrank::resource_pool::{BorrowError, Builder, ResourceFactory, ResourcePool, WhenExhausted};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

/// Creates counters.
struct Counter;

/// A hundred threads count to fifty each.
fn crowd(configure: impl FnOnce(Building) -> Building) {
    let pool = configure(ResourcePool::builder(Counter, ()));
    let pool = pool.build().expect("valid");
    let most = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..100 {
            scope.spawn(|| {
                let mut counted = 0;
                while counted < 50 {
                    match pool.borrow() {
                        Ok(mut counter) => {
                            most.fetch_max(pool.num_active(), SeqCst);
                            *counter += 1;
                            counted += 1;
                        }
                        Err(BorrowError::TimedOut(_) | BorrowError::Exhausted) => {
                            std::thread::yield_now();
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
    });
    assert!(most.into_inner() <= 8);
    let idle = pool.num_idle();
    assert_eq!((pool.num_active(), pool.num_waiting(), pool.num_total()), (0, 0, idle));
    let mut sum = 0;
    pool.retain(|_, counter| {
        sum += *counter;
        true
    });
    assert_eq!(sum, 5000);
}

type Building = Builder<Counter, ResourcePool<Counter>>;

impl ResourceFactory for Counter {
    type Resource = usize;
    type Metadata = ();
    type Error = std::convert::Infallible;
    fn create(&self, (): &()) -> Result<usize, Self::Error> {
        Ok(0)
    }
}

#[test]
fn a_crowd_that_waits_for_a_millisecond() {
    crowd(|b| b.max_wait(Duration::from_millis(1)));
}

#[test]
fn a_crowd_that_waits_for_ten() {
    crowd(|b| b.max_wait(Duration::from_millis(10)));
}

#[test]
fn a_crowd_that_does_not_wait() {
    crowd(|b| b.when_exhausted(WhenExhausted::Fail));
}
