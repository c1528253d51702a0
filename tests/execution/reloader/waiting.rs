//! Waiting for a reload: threads, futures and drops.

use crate::common::log::Log;
use crate::common::task::{Task, block_on};
use crate::common::{before_long, soon};
use crate::polling::yield_once;
use crate::reloader::noting::{ALWAYS, ENDS, RELOAD, noting, once};
use cabrank::execution::Execution;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;

#[test]
fn a_reload_waits_for_running_executions_on_any_thread() {
    let (log, changed) = (Log::default(), Arc::new(AtomicBool::new(false)));
    let reloader = noting(&log).check(once(&changed)).build().expect("valid");
    let old = block_on(reloader.run_async()).expect("it runs");
    changed.store(true, SeqCst);
    let (theirs, noted) = (reloader.clone(), log.clone());
    let reloading = thread::spawn(move || theirs.wrap(|_| noted.noted("new")));
    before_long(|| log.has("executor run", 2));
    log.note("old");
    thread::spawn(move || drop(old)).join().expect("no panic");
    reloading.join().expect("no panic").expect("it succeeds");
    let log = log.take();
    let at = |what: &str| log.iter().position(|noted| noted == what).expect("it happened");
    assert!(at("old") < at("unload") && at("unload") < at("new"), "{log:?}");
}

#[test]
fn a_dropped_execution_does_not_wait_and_leaves_its_reload_to_the_next() {
    let log = Log::default();
    let reloader = noting(&log).always().build().expect("valid");
    let execution = reloader.run().expect("it runs");
    let theirs = reloader.executor().clone();
    let other = thread::spawn(move || block_on(theirs.run_async()).expect("it runs"));
    let other = other.join().expect("no panic");
    log.take();
    drop(execution); // the other still runs
    assert_eq!(log.take(), ["complete", "executor complete"]);
    drop(other);
    log.take();
    reloader.wrap(|_| log.noted("body")).expect("it succeeds");
    let owed = ["executor run", "before", "unload", "after"];
    assert_eq!(log.take(), [&owed[..], &ALWAYS[1..]].concat());
}

#[test]
fn a_future_finds_the_world_reloaded() {
    let log = Log::default();
    let reloader = noting(&log).check(|| true).build().expect("valid");
    block_on(reloader.wrap_async(async |_| log.noted("body"))).expect("it succeeds");
    assert_eq!(log.take(), [&RELOAD[..], &["body"], &ENDS[..]].concat());

    let theirs = reloader.clone();
    let forever = async |_: &mut Execution<'_>| {
        std::future::pending::<()>().await;
        Ok(())
    };
    let mut task = Task::new(async move { theirs.wrap_async(forever).await });
    assert!(task.poll().is_none());
    drop(task);
    assert_eq!(log.take(), [&RELOAD[..], &ENDS[..]].concat());
}

#[test]
fn a_future_that_waits_to_reload_blocks_no_thread() {
    let (log, changed) = (Log::default(), Arc::new(AtomicBool::new(true)));
    let reloader = noting(&log).check(once(&changed)).build().expect("valid");
    let old = block_on(reloader.executor().run_async()).expect("it runs");
    let (theirs, noted) = (reloader.clone(), log.clone());
    let mut task = Task::new(async move { theirs.wrap_async(async |_| noted.noted("new")).await });
    assert!(task.poll().is_none());
    drop(old);
    soon(move || task.finish()).expect("it succeeds");
    let order = [&["executor run", "executor run", "executor complete"], &RELOAD[1..]].concat();
    assert_eq!(log.take(), [&order[..], &["new"], &ENDS[..]].concat());
}

#[test]
fn a_future_that_gives_up_waiting_leaves_its_reload_to_the_next() {
    let (log, changed) = (Log::default(), Arc::new(AtomicBool::new(true)));
    let reloader = noting(&log).check(once(&changed)).build().expect("valid");
    let old = block_on(reloader.executor().run_async()).expect("it runs");
    let theirs = reloader.clone();
    let mut task = Task::new(async move { theirs.wrap_async(async |_| Ok(())).await });
    assert!(task.poll().is_none());
    drop(task);
    assert_eq!(log.take(), ["executor run", "executor run", "executor complete"]);
    drop(old);
    log.take();
    reloader.wrap(|_| log.noted("body")).expect("it succeeds");
    assert_eq!(log.take(), [&RELOAD[..], &["body"], &ENDS[..]].concat());
}

#[test]
fn a_bodys_error_is_reported_although_its_future_is_dropped_while_it_waits_to_reload() {
    let log = Log::default();
    let reloader = noting(&log).always().build().expect("valid");
    let theirs = reloader.clone();
    let fails = async |_: &mut Execution<'_>| {
        yield_once().await;
        Err::<(), _>("on purpose".into())
    };
    let mut task = Task::new(async move { theirs.wrap_async(fails).await });
    assert!(task.poll().is_none());
    let other = block_on(reloader.executor().run_async()).expect("it runs");
    assert!(task.poll().is_none(), "it waits to unload");
    log.take();
    drop(task);
    let noted = ["complete", "executor complete", "report of a dropped one: on purpose"];
    assert_eq!(log.take(), noted);
    drop(other);
}
