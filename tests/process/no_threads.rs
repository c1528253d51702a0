//! A process in which no thread starts: the pool starts a spawner's thread, a thread that looks, a cleaner's thread and
//! one that drops a process.
//!
//! Each test runs itself once more in such a process. There the stack that a thread has by default is larger than the
//! memory; a thread of the test's own asks for a small one.

use crate::common::task::Task;
use crate::common::{SECOND, app};
use cabrank::application_pool::{BuildError, GetError, RestartMode};
use cabrank::in_memory::InMemorySpawner;
use cabrank::{ApplicationPool, ManualClock};
use std::process::Command;
use std::time::Duration;

const INSIDE: &str = "CABRANK_TEST_WITHOUT_THREADS";
/// A stack for the spawner's thread, which starts.
const SMALL: usize = 1 << 20;

/// Runs this test in a process without threads. Returns whether this is that process.
#[track_caller]
fn is_without_threads(name: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let program = std::env::current_exe().expect("this program");
    let run = Command::new(program)
        // With one thread, the test runs on the main one.
        .args(["--exact", &format!("no_threads::{name}"), "--test-threads=1", "--nocapture"])
        .env("RUST_MIN_STACK", (usize::MAX / 2).to_string())
        .env(INSIDE, "1")
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{said}\n{}", String::from_utf8_lossy(&run.stderr));
    assert!(said.contains("1 passed"), "{said}");
    false
}

fn builder(clock: &ManualClock) -> cabrank::application_pool::Builder<InMemorySpawner> {
    ApplicationPool::builder(InMemorySpawner::new()).clock(clock.clock()).cleaner(false)
}

#[test]
fn a_pool_with_a_cleaner_is_not_built_and_one_without_is() {
    if !is_without_threads("a_pool_with_a_cleaner_is_not_built_and_one_without_is") {
        return;
    }
    assert!(std::thread::Builder::new().spawn(|| ()).is_err(), "no thread starts");
    let refused = ApplicationPool::builder(InMemorySpawner::new()).build();
    let error = refused.map(drop).expect_err("it has no cleaner");
    assert!(matches!(error, BuildError::Cleaner(_)), "{error}");
    assert_eq!(error.to_string(), "the pool has no cleaner");
    assert!(std::error::Error::source(&error).is_some());
    drop(builder(&ManualClock::new()).build().expect("a valid pool"));
}

/// The look that no thread makes counts as one at a directory that cannot be read: it asks for no restart.
#[test]
fn gets_are_served_though_no_thread_looks() {
    if !is_without_threads("gets_are_served_though_no_thread_looks") {
        return;
    }
    let clock = ManualClock::new();
    let builder = builder(&clock).spawner_stack_size(SMALL);
    let builder = builder.restart_files(|_| Ok(std::time::SystemTime::UNIX_EPOCH));
    let pool = builder.build().expect("a valid pool");
    let task = || {
        let pool = pool.clone();
        Task::new(async move { pool.get_async(&app("x").with_max_queue(None)).await.map(drop) })
    };
    // All of them begin before any has been served.
    let mut waits = Vec::new();
    for mut task in [(); 4].map(|()| task()) {
        match task.poll() {
            Some(got) => got.expect("a session"),
            None => waits.push(task),
        }
    }
    for task in waits {
        task.finish().expect("a session");
    }
    drop(pool.get_timeout(&app("x"), 100 * SECOND).expect("a session"));
    drop(pool.checkout_timeout(&app("y"), 100 * SECOND).expect("a lease"));
    // This one waits for no look, and has a baseline: it is served.
    drop(pool.get_timeout(&app("x"), Duration::ZERO).expect("an idle process"));
    assert!(matches!(pool.get_timeout(&app("new"), Duration::ZERO), Err(GetError::TimedOut)));
    drop(pool.get(&app("x")).expect("a session"));
    pool.close();
    assert!(pool.wait_closed(SECOND));
}

/// Each get fails, and the next one, after the back-off, tries again. Each reservation is given back.
#[test]
fn spawns_fail_and_are_tried_again() {
    if !is_without_threads("spawns_fail_and_are_tried_again") {
        return;
    }
    let clock = ManualClock::new();
    let pool = builder(&clock).max(1).build().expect("a valid pool");
    for failures in 1..=3 {
        let error = pool.get(&app("x")).map(drop).expect_err("no thread");
        let GetError::Spawn(cause) = &error else { panic!("{error}") };
        assert!(
            cause.to_string().starts_with("the spawner thread could not be started"),
            "{cause}"
        );
        let mut task = Task::new({
            let pool = pool.clone();
            async move { pool.get_async(&app("y")).await.map(drop) }
        });
        assert!(matches!(task.poll().or_else(|| task.poll()), Some(Err(GetError::Spawn(_)))));
        assert!(pool.restart_group("/srv/x", RestartMode::Rolling), "it has been asked for");
        let shown = pool.snapshot();
        assert_eq!((shown.spawning, shown.count, shown.waiting), (0, 0, 0));
        assert!(shown.totals.spawns_failed >= 2 * failures);
        clock.advance(100 * SECOND);
    }
    pool.pre_start(&app("z").with_min_processes(2)).expect("an open pool");
    assert_eq!(pool.counts().spawning, 0);
    pool.close_timeout(Duration::ZERO).expect("it is empty");
}

/// The caller drops the process where no thread does.
#[test]
fn a_process_that_leaves_is_dropped() {
    if !is_without_threads("a_process_that_leaves_is_dropped") {
        return;
    }
    let clock = ManualClock::new();
    let spawner = InMemorySpawner::new();
    let builder = ApplicationPool::builder(spawner.clone()).clock(clock.clock()).cleaner(false);
    let pool = builder.spawner_stack_size(SMALL).build().expect("a valid pool");
    drop(pool.get(&app("x")).expect("a session"));
    assert!(pool.detach_group("/srv/x"));
    assert_eq!((spawner.processes().len(), spawner.shut_down().len()), (0, 1));
}
