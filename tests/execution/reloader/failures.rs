//! Failed reloads: their reports, and their retries.

use crate::common::log::{Log, failed, reporting};
use crate::reloader::noting::{once, preparing, unloading};
use cabrank::execution::{
    Executor, HalfReloaded, Interlock, Panicked, Reloader, ReloaderBuilder, ReloaderError,
    Severity, Stage,
};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

/// A reloader whose stage of this name fails while the switch is set.
fn breaking(log: &Log, stage: &'static str, broken: &Arc<AtomicBool>) -> ReloaderBuilder {
    let (broken, stage_log) = (broken.clone(), log.clone());
    let step = move |name: &'static str| {
        let (log, broken) = (stage_log.clone(), broken.clone());
        move || {
            log.note(name);
            if name == stage && broken.load(SeqCst) { Err(name.into()) } else { Ok(()) }
        }
    };
    let executor = reporting(log).interlock(Interlock::new()).build();
    let unload = step("unload");
    Reloader::builder(executor)
        .before_unload(step("before"))
        .unload(move |_| unload())
        .after_unload(unloading(step("after")))
        .to_run(step("run"))
        .to_prepare(preparing(step("prepare")))
        .to_complete(log.noting("complete"))
}

#[test]
fn a_failed_reload_is_reported_and_retried_before_any_body_runs() {
    let stages = [
        ("before", Stage::BeforeUnload),
        ("unload", Stage::Unload),
        ("after", Stage::AfterUnload),
        ("run", Stage::Run),
        ("prepare", Stage::Prepare),
    ];
    for (at, (name, stage)) in stages.into_iter().enumerate() {
        let (log, broken) = (Log::default(), Arc::new(AtomicBool::new(true)));
        let changed = Arc::new(AtomicBool::new(true));
        let builder = breaking(&log, name, &broken).check(once(&changed));
        let reloader = builder.build().expect("valid");
        let done: Vec<&str> = stages[..=at].iter().map(|(name, _)| *name).collect();
        // The check's result no longer matters: it has reported a change once.
        for _ in 0..2 {
            let error = failed(reloader.wrap(|_| log.noted("body")));
            assert_eq!((error.stage(), error.cause().to_string()), (stage, name.to_owned()));
            let completed = if at >= 3 { &["complete"][..] } else { &[] };
            let reported = format!("Error of cabrank: {name}");
            assert_eq!(log.take(), [&done[..], completed, &[&reported]].concat());
            // No other execution runs on a half loaded world.
            let error = failed(reloader.executor().wrap(|_| log.noted("body")));
            assert_eq!((error.stage(), error.cause().is::<HalfReloaded>()), (Stage::Enter, true));
            assert_eq!(log.take(), [format!("Error of cabrank: {HalfReloaded}")]);
        }
        broken.store(false, SeqCst);
        reloader.wrap(|_| log.noted("body")).expect("it succeeds");
        let all = ["before", "unload", "after", "run", "prepare", "body", "complete"];
        assert_eq!(log.take(), all);
        reloader.wrap(|_| log.noted("body")).expect("it succeeds");
        reloader.executor().wrap(|_| log.noted("body")).expect("it succeeds");
        assert_eq!(log.take(), ["body", "body"]);
    }
}

#[test]
fn a_failed_reload_after_a_body_is_retried_before_the_next() {
    let (log, broken) = (Log::default(), Arc::new(AtomicBool::new(true)));
    let reloader = breaking(&log, "unload", &broken).always().build().expect("valid");
    let error = failed(reloader.wrap(|_| log.noted("body")));
    assert_eq!(error.stage(), Stage::Unload);
    let reported = "Error of cabrank: unload";
    assert_eq!(log.take(), ["run", "prepare", "body", "before", "unload", "complete", reported]);
    let error = failed(reloader.wrap(|_| log.noted("body")));
    assert_eq!(error.stage(), Stage::Unload);
    assert_eq!(log.take(), ["before", "unload", reported]);
    broken.store(false, SeqCst);
    reloader.wrap(|_| log.noted("body")).expect("it succeeds");
    let (retry, usual) = (
        ["before", "unload", "after"],
        ["run", "prepare", "body", "before", "unload", "after", "complete"],
    );
    assert_eq!(log.take(), [&retry[..], &usual[..]].concat());
}

#[test]
fn a_panic_in_a_reload_is_its_failure() {
    let log = Log::default();
    let panics = AtomicBool::new(true);
    let executor = reporting(&log).interlock(Interlock::new()).build();
    let reloader = Reloader::builder(executor)
        .check(|| true)
        .unload(move |_| if panics.swap(false, SeqCst) { panic!("on purpose") } else { Ok(()) })
        .build()
        .expect("valid");
    let error = failed(reloader.wrap(|_| Ok(())));
    assert_eq!((error.stage(), error.cause().is::<Panicked>()), (Stage::Unload, true));
    assert_eq!(log.take(), ["Error of cabrank: it panicked: on purpose"]);
    reloader.wrap(|_| log.noted("body")).expect("it succeeds");
    assert_eq!(log.take(), ["body"]);
}

#[test]
fn a_panicking_check_is_an_error_and_leaves_the_world_whole() {
    let panics = AtomicBool::new(true);
    let check = move || if panics.swap(false, SeqCst) { panic!("on purpose") } else { false };
    let executor = Executor::builder().interlock(Interlock::new()).build();
    let reloader = Reloader::builder(executor).check(check).build().expect("valid");
    assert_eq!(failed(reloader.wrap(|_| Ok(()))).stage(), Stage::Check);
    reloader.executor().wrap(|_| Ok(())).expect("it succeeds");
    reloader.wrap(|_| Ok(())).expect("it succeeds");
}

/// The panic reaches the caller of the builder, too, because the version is called there.
#[test]
fn a_panic_of_a_version_is_a_failed_check_at_any_time() {
    let (log, calls) = (Log::default(), AtomicUsize::new(0));
    let executor = reporting(&log).interlock(Interlock::new()).build();
    let reloader = Reloader::builder(executor)
        .watch(move || match calls.fetch_add(1, SeqCst) {
            0 => panic!("at the beginning"),
            1 => panic!("in a reload"),
            3 => panic!("in a look"),
            _ => 7,
        })
        .unload(unloading(log.noting("unload")))
        .build()
        .expect("valid");
    let fails = |why: &str| {
        let error = failed(reloader.wrap(|_| log.noted("body")));
        assert_eq!((error.stage(), error.cause().is::<Panicked>()), (Stage::Check, true));
        assert_eq!(log.take(), [format!("Error of cabrank: it panicked: {why}")]);
        reloader.executor().wrap(|_| Ok(())).expect("it is not half reloaded");
    };
    let runs = |done: &[&str]| {
        reloader.wrap(|_| log.noted("body")).expect("it succeeds");
        assert_eq!(log.take(), done);
    };
    fails("at the beginning");
    // Without an earlier version, the world counts as changed.
    fails("in a reload");
    runs(&["unload", "body"]);
    fails("in a look");
    runs(&["body"]);
}

#[test]
fn the_bodys_error_comes_before_that_of_the_reload_after_it() {
    let (log, broken) = (Log::default(), Arc::new(AtomicBool::new(true)));
    let severities = Arc::new(Mutex::new(Vec::new()));
    let noted = severities.clone();
    let executor = Executor::builder()
        .interlock(Interlock::new())
        .reporter(move |report| noted.lock().expect("no panic").push(report.severity()))
        .build();
    let unload = log.failing("unload");
    let reloader = Reloader::builder(executor)
        .always()
        .unload(move |_| if broken.load(SeqCst) { unload() } else { Ok(()) })
        .build()
        .expect("valid");
    let error = failed(reloader.wrap(|_| Err::<(), _>("on purpose".into())));
    assert_eq!((error.stage(), error.attached().len()), (Stage::Body, 1));
    assert_eq!(error.attached()[0].stage(), Stage::Unload);
    assert_eq!(*severities.lock().expect("no panic"), [Severity::Error]);
}

/// The world belongs to the interlock. Regression: another executor under it ran on a half unloaded world.
#[test]
fn no_execution_of_the_interlock_runs_on_a_half_reloaded_world() {
    let interlock = Interlock::new();
    let [executor, other] =
        [(); 2].map(|()| Executor::builder().interlock(interlock.clone()).build());
    let (broken, inside) = (Arc::new(AtomicBool::new(true)), other.clone());
    let fails = broken.clone();
    let reloader = Reloader::builder(executor.clone())
        .check(|| true)
        .unload(move |_| {
            inside.wrap(|_| Ok(()))?; // The reload itself may run.
            if fails.load(SeqCst) { Err("on purpose".into()) } else { Ok(()) }
        })
        .build()
        .expect("valid");
    reloader.wrap(|_| Ok(())).expect_err("it fails");
    for executor in [&executor, &other] {
        assert!(failed(executor.wrap(|_| Ok(()))).cause().is::<HalfReloaded>());
    }
    broken.store(false, SeqCst);
    reloader.wrap(|_| Ok(())).expect("it is retried");
    other.wrap(|_| Ok(())).expect("it runs again");

    let second = Reloader::builder(other).build();
    assert_eq!(second.expect_err("one is enough"), ReloaderError::SecondReloader);
}
