//! The shutdown of the process's registry ends no thread of a pool, and pools that are built after it work.
//!
//! The test runs itself once more in a process of its own, because the shutdown is final.

use crate::common::{SECOND, app, before_long, soon};
use cabrank::application_pool::GetError;
use cabrank::in_memory::InMemorySpawner;
use cabrank::{ApplicationPool, ManualClock};
use cabrank::{PeriodicExecutor, periodic_executor};
use std::process::Command;
use std::time::Duration;

const INSIDE: &str = "CABRANK_TEST_AFTER_SHUTDOWN";

fn pool(clock: &ManualClock) -> ApplicationPool<InMemorySpawner> {
    ApplicationPool::builder(InMemorySpawner::new())
        .clock(clock.clock())
        .max(1)
        .max_idle_time(60 * SECOND)
        .forget_groups_after(60 * SECOND)
        .build()
        .expect("a valid pool")
}

/// Serves, ends a queue time, evicts for another group, reaps and forgets: each by its own thread.
fn works(pool: &ApplicationPool<InMemorySpawner>, clock: &ManualClock) {
    let busy = pool.get(&app("x")).expect("a session");
    let (theirs, hurried) = (pool.clone(), app("x").with_max_queue_time(SECOND));
    let waits = std::thread::spawn(move || theirs.get(&hurried).map(drop));
    before_long(|| pool.counts().waiting == 1);
    clock.advance(SECOND);
    let ended = soon(move || waits.join().expect("no panic"));
    assert!(matches!(ended, Err(GetError::QueuedTooLong)), "{ended:?}");
    drop(busy);
    let theirs = pool.clone();
    soon(move || theirs.get(&app("y")).map(drop)).expect("the place of the idle process");
    clock.advance(60 * SECOND);
    before_long(|| pool.counts().count == 0);
    clock.advance(60 * SECOND);
    before_long(|| pool.snapshot().groups.is_empty());
}

#[test]
fn pools_work_after_the_shutdown_of_all_registered_executors() {
    if std::env::var_os(INSIDE).is_none() {
        let name = "shutdown_all::pools_work_after_the_shutdown_of_all_registered_executors";
        let program = std::env::current_exe().expect("this program");
        let run = Command::new(program).args(["--exact", name]).env(INSIDE, "1").output();
        let run = run.expect("it runs");
        let said = String::from_utf8_lossy(&run.stdout);
        assert!(run.status.success(), "{said}");
        assert!(said.contains("1 passed"), "{said}");
        return;
    }
    let clock = ManualClock::new();
    let before = pool(&clock);
    let registered = PeriodicExecutor::builder(None).build(|| ());
    registered.open().expect("a thread");
    periodic_executor::shutdown_all(Duration::from_secs(60)).expect("all end in time");
    works(&before, &clock);
    works(&pool(&clock), &clock);
    before.close();
    assert!(before.wait_closed(SECOND));
}
