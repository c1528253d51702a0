//! Every executor of the program is shut down. The pools' own maintenance is in no registry, so each kind of pool goes
//! on, and new ones are built.

use crate::common::locked;
use crate::runtimes::{MOMENT, Names, Numbers, Threads};
use crate::shared::task::block_on;
use crate::shared::woken::Woken;
use crate::shared::{SECOND, before_long, end_the_run_when_the_library_panics};
use cabrank::application_pool::Event;
use cabrank::in_memory::InMemorySpawner;
use cabrank::periodic_executor::{OpenError, shutdown_all};
use cabrank::resource_pool::{Async, KeyedResourcePool, ResourcePool};
use cabrank::{ApplicationPool, Interlock, ManualClock, PeriodicExecutor, PoolOptions};
use std::future::pending;
use std::sync::{Arc, Mutex};
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

/// An application pool evicts the idle processes by its cleaner.
fn clean(pool: &ApplicationPool<InMemorySpawner>, clock: &ManualClock, events: &Events) {
    let before = locked(events).len();
    drop(pool.get(&PoolOptions::new("/srv/shop")).expect("a session"));
    before_long(|| {
        clock.advance(3600 * SECOND);
        locked(events).len() > before
    });
}

type Events = Arc<Mutex<Vec<Option<u32>>>>;

fn application_pool(clock: &ManualClock) -> (ApplicationPool<InMemorySpawner>, Events) {
    let events = Events::default();
    let theirs = events.clone();
    let builder = ApplicationPool::builder(InMemorySpawner::with_clock(clock.clock()));
    let builder = builder.clock(clock.clock()).observer(move |event| {
        if let Event::Detached { pid, .. } = event {
            locked(&theirs).push(*pid);
        }
    });
    (builder.build().expect("valid"), events)
}

/// A task that waits to unload gives up at its time.
fn gives_up(interlock: &Interlock) {
    let mut holds = Box::pin(interlock.run_async(async |_| pending::<()>().await));
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(holds.as_mut().poll(&mut cx).is_pending());
    let waits = block_on(interlock.unload_async(async |_| ()));
    assert!(waits.is_err(), "the first one stays");
}

/// One test, because it ends what the process has registered.
#[test]
fn pools_go_on_after_all_executors_were_shut_down() {
    end_the_run_when_the_library_panics();
    let clock = ManualClock::new();
    let before = pools(&clock);
    let (applications, events) = application_pool(&clock);
    let interlock = Interlock::builder().acquire_timeout(MOMENT).build();
    let registered = PeriodicExecutor::builder(SECOND).build(|| ());
    registered.open().expect("a thread");
    evict(&before, &clock);
    clean(&applications, &clock, &events);
    gives_up(&interlock);
    shutdown_all(Duration::MAX).expect("each ends");
    assert!(!registered.is_open());
    assert!(matches!(registered.open(), Err(OpenError::ShutDown)));
    evict(&before, &clock);
    clean(&applications, &clock, &events);
    gives_up(&interlock);

    let after = pools(&clock);
    evict(&after, &clock);
    let (applications, events) = application_pool(&clock);
    clean(&applications, &clock, &events);
    gives_up(&Interlock::builder().acquire_timeout(MOMENT).build());
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
