//! The conditions and the number of reloads, and the exclusive part of a reload.

use crate::common::log::{Log, failed};
use crate::common::soon;
use crate::reloader::noting::{ALWAYS, noting, preparing, unloading};
use cabrank::execution::interlock::OwnerState;
use cabrank::execution::{Executor, Interlock, Refused, Reloader};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::SeqCst};
use std::thread;

#[test]
fn always_reloads_after_each_body() {
    let log = Log::default();
    let reloader = noting(&log).always().build().expect("valid");
    for _ in 0..2 {
        reloader.wrap(|_| log.noted("body")).expect("it succeeds");
        assert_eq!(log.take(), ALWAYS);
    }
    // Regardless of the body.
    failed(reloader.wrap(|_| {
        log.note("body");
        Err::<(), _>("on purpose".into())
    }));
    assert_eq!(log.take(), [&ALWAYS[..], &["report: on purpose"]].concat());
}

/// While the interlock is held to unload, no owner enters; before and after, owners do.
#[test]
fn the_exclusive_part_is_as_documented_in_both_modes() {
    for always in [false, true] {
        let (log, interlock) = (Log::default(), Interlock::new());
        let alone = |what: &'static str| {
            let (log, interlock) = (log.clone(), interlock.clone());
            move || {
                let holds = |state| matches!(state, OwnerState::Loading | OwnerState::Unloading);
                let alone = interlock.dump().owners.iter().any(|owner| holds(owner.state));
                let shared = if alone { "alone" } else { "shared" };
                log.noted(format!("{what} {shared}"))
            }
        };
        let executor = Executor::builder()
            .interlock(interlock.clone())
            .to_run(alone("executor run"))
            .to_complete(alone("executor complete"))
            .build();
        let unload = alone("unload");
        let builder = Reloader::builder(executor)
            .check(|| true)
            .before_unload(alone("before"))
            .unload(move |_| unload())
            .after_unload(unloading(alone("after")))
            .to_run(alone("run"))
            .to_complete(alone("complete"))
            .to_prepare(preparing(alone("prepare")));
        let builder = if always { builder.always() } else { builder };
        let body = alone("body");
        builder.build().expect("valid").wrap(|_| body()).expect("it succeeds");
        let expected: &[&str] = match always {
            false => &[
                "executor run shared",
                "before alone",
                "unload alone",
                "after alone",
                "run alone",
                "prepare alone",
                "body shared",
                "complete shared",
                "executor complete shared",
            ],
            true => &[
                "executor run shared",
                "run shared",
                "prepare alone",
                "body shared",
                "before alone",
                "unload alone",
                "after alone",
                "complete alone",
                "executor complete shared",
            ],
        };
        assert_eq!(log.take(), expected);
    }
}

/// Rails reloads again for each request that begins during the first body.
#[test]
fn one_change_reloads_once_although_others_begin_meanwhile() {
    let (log, version) = (Log::default(), Arc::new(AtomicU32::new(1)));
    let watched = version.clone();
    let reloader = noting(&log).watch(move || watched.load(SeqCst)).build().expect("valid");
    version.store(2, SeqCst);
    let theirs = reloader.clone();
    reloader
        .wrap(|_| {
            for _ in 0..3 {
                let theirs = theirs.clone();
                thread::spawn(move || theirs.wrap(|_| Ok(()))).join().expect("no panic")?;
            }
            Ok(())
        })
        .expect("it succeeds");
    assert_eq!(log.take().iter().filter(|what| *what == "unload").count(), 1);
}

#[test]
fn many_executions_that_see_one_change_reload_once() {
    let version = Arc::new(AtomicU32::new(0));
    let (watched, unloads) = (version.clone(), Arc::new(AtomicUsize::new(0)));
    let counted = unloads.clone();
    let executor = Executor::builder().interlock(Interlock::new()).build();
    let reloader = Reloader::builder(executor)
        .watch(move || watched.load(SeqCst))
        .unload(move |_| {
            counted.fetch_add(1, SeqCst);
            Ok(())
        })
        .build()
        .expect("valid");
    for change in 1..=20 {
        version.store(change, SeqCst);
        let reloader = reloader.clone();
        soon(move || {
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    let reloader = reloader.clone();
                    thread::spawn(move || reloader.wrap(|_| Ok(())).expect("it succeeds"))
                })
                .collect();
            threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
        });
        assert_eq!(unloads.load(SeqCst), change as usize);
    }
}

#[test]
fn a_change_during_a_reload_is_left_to_the_next() {
    let version = Arc::new(AtomicU32::new(1));
    let (watched, edited) = (version.clone(), version.clone());
    let log = Log::default();
    let unload = log.noting("unload");
    let executor = Executor::builder().interlock(Interlock::new()).build();
    let reloader = Reloader::builder(executor)
        .watch(move || watched.load(SeqCst))
        .unload(move |_| {
            edited.fetch_max(3, SeqCst);
            unload()
        })
        .build()
        .expect("valid");
    version.store(2, SeqCst);
    for expected in [1, 1, 0] {
        reloader.wrap(|_| Ok(())).expect("it succeeds");
        assert_eq!(log.take().len(), expected);
    }
}

#[test]
fn a_disabled_reloader_is_the_executor() {
    let log = Log::default();
    let executor = Executor::builder().to_run(log.noting("executor run")).build();
    let prepare = log.noting("prepare");
    let builder =
        Reloader::builder(executor).check(|| true).to_prepare(preparing(prepare)).enabled(false);
    let reloader = builder.build().expect("it needs no interlock");
    reloader
        .wrap(|execution| {
            assert!(execution.running().is_none());
            log.noted("body")
        })
        .expect("it succeeds");
    reloader.prepare().expect("it succeeds");
    assert_eq!(log.take(), ["executor run", "body", "prepare"]);
    reloader.executor().wrap(|_| Ok(reloader.wrap(|_| Ok(()))?)).expect("no reason to refuse");
}

#[test]
fn a_reloader_needs_an_interlock_and_an_executor_of_its_own() {
    let bare = Reloader::builder(Executor::builder().build()).build();
    assert!(matches!(bare, Err(Refused::NoInterlock)));
    let executor = Executor::builder().interlock(Interlock::new()).build();
    let first = Reloader::builder(executor.clone()).build();
    assert!(first.is_ok());
    let second = Reloader::builder(executor).build();
    assert!(matches!(second, Err(Refused::SecondReloader)));
}
