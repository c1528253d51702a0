//! Every executor of the program is shut down. The pools' own maintenance is in no registry, so each kind of pool goes
//! on, and new ones are built.

use crate::runtimes::{Names, Numbers, Threads};
use crate::shared::task::block_on;
use crate::shared::woken::Woken;
use crate::shared::{SECOND, before_long, end_the_run_when_the_library_panics};
use cabrank::periodic_executor::{OpenError, shutdown_all};
use cabrank::resource_pool::{Async, KeyedResourcePool, ResourcePool};
use cabrank::{ManualClock, PeriodicExecutor};
use std::time::Duration;

/// A pool that evicts and refills, by its own maintenance.
trait Works {
    fn num_idle(&self) -> usize;
    fn is_used(&self);
}

impl Works for ResourcePool<Numbers> {
    fn num_idle(&self) -> usize {
        ResourcePool::num_idle(self)
    }
    fn is_used(&self) {
        drop(self.borrow().expect("one"));
    }
}

impl Works for ResourcePool<Async<Numbers>> {
    fn num_idle(&self) -> usize {
        ResourcePool::num_idle(self)
    }
    fn is_used(&self) {
        drop(block_on(self.borrow_async()).expect("one"));
    }
}

impl Works for KeyedResourcePool<&'static str, Async<Names>> {
    fn num_idle(&self) -> usize {
        KeyedResourcePool::num_idle(self)
    }
    fn is_used(&self) {
        drop(block_on(self.borrow_async(&"a")).expect("one"));
    }
}

/// Builds one pool of each kind. All evict what is idle for a second by the clock.
fn pools(clock: &ManualClock) -> Vec<Box<dyn Works>> {
    let on_threads = ResourcePool::builder(Numbers, ()).max_idle_time(SECOND);
    let in_tasks = ResourcePool::builder(Async(Numbers), ()).max_idle_time(SECOND);
    let keyed = KeyedResourcePool::builder(Async(Names)).max_idle_time(SECOND);
    vec![
        Box::new(on_threads.clock(clock.clock()).build().expect("valid")),
        Box::new(in_tasks.clock(clock.clock()).build_on(Threads).expect("valid")),
        Box::new(keyed.clock(clock.clock()).build_on(Threads).expect("valid")),
    ]
}

fn evict(pools: &[Box<dyn Works>], clock: &ManualClock) {
    pools.iter().for_each(|pool| pool.is_used());
    assert!(pools.iter().all(|pool| pool.num_idle() == 1));
    before_long(|| {
        clock.advance(SECOND);
        pools.iter().all(|pool| pool.num_idle() == 0)
    });
}

/// One test, because it ends what the process has registered.
#[test]
fn pools_go_on_after_all_executors_were_shut_down() {
    end_the_run_when_the_library_panics();
    let clock = ManualClock::new();
    let before = pools(&clock);
    let registered = PeriodicExecutor::builder(SECOND).build(|| ());
    registered.open().expect("a thread");
    evict(&before, &clock);
    shutdown_all(Duration::MAX).expect("each ends");
    assert!(!registered.is_open());
    assert!(matches!(registered.open(), Err(OpenError::ShutDown)));
    evict(&before, &clock);

    let after = pools(&clock);
    evict(&after, &clock);
    // On a runtime, and with a minimum.
    let woken = Woken::default();
    let builder = ResourcePool::builder(Async(Numbers), ()).min_idle(2).clock(clock.clock());
    let filled = builder.build_on(woken.clone()).expect("valid");
    woken.run();
    assert_eq!(filled.num_idle(), 2);
    let builder = ResourcePool::builder(Numbers, ()).min_idle(2).clock(clock.clock());
    let filled = builder.build().expect("valid");
    before_long(|| filled.num_idle() == 2);
}
