//! The maintenance runs by itself: on a thread from when there is something for it, on a runtime as a task.
//! By the real clock: what is waited for is that something comes about.

use crate::shared::task::block_on;
use crate::shared::{before_long, end_the_run_when_the_library_panics};
use cabrank::resource_pool::{Async, AsyncResourceFactory, ResourceFactory, ResourcePool};
use cabrank::{BoxFuture, Runtime};
use std::convert::Infallible;
use std::time::{Duration, Instant};

struct Numbers;

impl ResourceFactory for Numbers {
    type Resource = u32;
    type Metadata = ();
    type Error = Infallible;
    fn create(&self, (): &()) -> Result<u32, Infallible> {
        Ok(1)
    }
}

impl AsyncResourceFactory for Numbers {
    type Resource = u32;
    type Metadata = ();
    type Error = Infallible;
    async fn create(&self, (): &()) -> Result<u32, Infallible> {
        Ok(1)
    }
}

/// A runtime with a thread for each task.
struct Threads;

impl Runtime for Threads {
    type Sleep = BoxFuture<()>;
    fn spawn(&self, task: BoxFuture<()>) {
        std::thread::spawn(|| block_on(task));
    }
    fn sleep_until(&self, at: Instant) -> BoxFuture<()> {
        Box::pin(async move { std::thread::sleep(at.saturating_duration_since(Instant::now())) })
    }
}

#[test]
fn a_minimum_that_is_set_later_is_filled() {
    end_the_run_when_the_library_panics();
    let pool = ResourcePool::builder(Numbers, ()).build().expect("a valid pool");
    pool.set_min_idle(2).expect("a valid limit");
    before_long(|| pool.num_idle() == 2);
}

#[test]
fn a_task_keeps_the_minimum_of_an_asynchronous_pool() {
    end_the_run_when_the_library_panics();
    let builder = ResourcePool::builder(Async(Numbers), ()).min_idle(2);
    let pool = builder.build_on(Threads).expect("a valid pool");
    before_long(|| pool.num_idle() == 2);
    let borrowed = block_on(pool.borrow_async()).expect("one of the two");
    before_long(|| pool.num_idle() == 2);
    drop(borrowed);
    let evicting =
        ResourcePool::builder(Async(Numbers), ()).max_idle_time(Duration::from_millis(1));
    let pool = evicting.build_on(Threads).expect("a valid pool");
    drop(block_on(pool.borrow_async()).expect("a new one"));
    before_long(|| pool.num_idle() == 0);
}
