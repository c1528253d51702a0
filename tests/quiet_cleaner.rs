//! The cleaner on the real clock (erratum E30): the one thing here that a hand-driven clock cannot show, for
//! moving it wakes the cleaner. Where a test sleeps, the time that passes is what it is about.

mod common;

use cabrank::ApplicationPool;
use cabrank::in_memory::InMemorySpawner;
use common::{app, before_long};
use std::sync::{Mutex, PoisonError};
use std::thread::sleep;
use std::time::Duration;

const LIMIT: Duration = Duration::from_millis(50);

/// One pool at a time, so that there is one cleaner.
static ALONE: Mutex<()> = Mutex::new(());

/// What was protected by a minimum is due as soon as the minimum is lowered: the cleaner, which had
/// nothing to do, must be told.
#[test]
fn e30_a_process_that_no_minimum_protects_any_more_is_reaped() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let builder = ApplicationPool::builder(InMemorySpawner::new()).max_idle_time(LIMIT);
    let pool = builder.build().expect("a valid pool");
    let two = app("x").with_min_processes(2);
    drop(pool.get(&two).expect("a session"));
    before_long(|| pool.counts().count == 2);
    sleep(3 * LIMIT);
    assert_eq!(pool.counts().count, 2);
    // Held open: no close tells the cleaner anything.
    let busy = pool.get(&app("x")).expect("a session");
    before_long(|| pool.counts().count == 1);
    drop(busy);
}

/// The kernel's counts of how often each cleaner's thread of this process went to sleep.
#[cfg(target_os = "linux")]
fn cleaners_sleeps() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").expect("Linux has it");
    let statuses = tasks.flatten().filter_map(|task| {
        let status = std::fs::read_to_string(task.path().join("status")).ok()?;
        status.starts_with("Name:\tcabrank cleaner\n").then_some(status)
    });
    let sleeps = |status: String| {
        let line = status.lines().find(|line| line.starts_with("voluntary_ctxt_switches:"));
        line.expect("Linux counts them").to_owned()
    };
    statuses.map(sleeps).collect()
}

/// A cleaner that woke up to look whether something is due would do so many times in the time given.
#[cfg(target_os = "linux")]
#[test]
fn e30_the_cleaner_sleeps_while_nothing_is_idle() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    before_long(|| cleaners_sleeps().is_empty());
    let builder = ApplicationPool::builder(InMemorySpawner::new()).max_idle_time(LIMIT);
    let pool = builder.build().expect("a valid pool");
    let busy = pool.get(&app("x")).expect("a session");
    // It may still be on its way to its first sleep: one quiet stretch is enough.
    before_long(|| {
        let before = cleaners_sleeps();
        sleep(10 * LIMIT);
        before.len() == 1 && before == cleaners_sleeps()
    });
    assert_eq!(pool.counts().active, 1);
    // It did not sleep for good.
    drop(busy);
    before_long(|| pool.counts().count == 0);
}
