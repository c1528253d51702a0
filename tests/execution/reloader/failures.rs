//! Failed reloads: their reports, and their retries.

use crate::common::SECOND;
use crate::common::log::{Log, failed, reporting};
use crate::common::task::block_on;
use crate::reloader::noting::{on, once, preparing, unloading};
use cabrank::ManualClock;
use cabrank::execution::{
    Executor, Interlock, Panicked, Refused, Reloader, ReloaderBuilder, Stage,
};
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

/// A reloader whose stage of this name fails while the switch is set.
fn breaking(
    log: &Log,
    stage: &'static str,
    broken: &Arc<AtomicBool>,
    time: &ManualClock,
) -> ReloaderBuilder {
    let (broken, stage_log) = (broken.clone(), log.clone());
    let step = move |name: &'static str| {
        let (log, broken) = (stage_log.clone(), broken.clone());
        move || {
            log.note(name);
            if name == stage && broken.load(SeqCst) { Err(name.into()) } else { Ok(()) }
        }
    };
    let executor = reporting(log).interlock(on(time)).build();
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
        let (time, changed) = (ManualClock::new(), Arc::new(AtomicBool::new(true)));
        let builder = breaking(&log, name, &broken, &time).check(once(&changed));
        let reloader = builder.build().expect("valid");
        let done: Vec<&str> = stages[..=at].iter().map(|(name, _)| *name).collect();
        // The check's result no longer matters: it has reported a change once.
        for _ in 0..2 {
            let error = failed(reloader.wrap(|_| log.noted("body")));
            assert_eq!(
                (error.first().stage(), error.first().cause().to_string()),
                (stage, name.to_owned())
            );
            let completed = if at >= 3 { &["complete"][..] } else { &[] };
            let reported = format!("report: {name}");
            assert_eq!(log.take(), [&done[..], completed, &[&reported]].concat());
            // No other execution runs on half loaded code.
            let error = failed(reloader.executor().wrap(|_| log.noted("body")));
            let refused = error.first().cause().downcast_ref();
            let Some(Refused::ReloadFailed(failure)) = refused else { panic!("{error}") };
            assert_eq!((failure.stage(), failure.cause().to_string()), (stage, name.to_owned()));
            assert_eq!(error.source().expect("the failure").to_string(), failure.to_string());
            assert_eq!(error.first().stage(), Stage::Enter);
            assert_eq!(log.take(), ["report: the last reload has failed"]);
            time.advance(SECOND);
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
    let time = ManualClock::new();
    let builder = breaking(&log, "unload", &broken, &time).always();
    let reloader = builder.build().expect("valid");
    let error = failed(reloader.wrap(|_| log.noted("body")));
    assert_eq!(error.first().stage(), Stage::Unload);
    let reported = "report: unload";
    assert_eq!(log.take(), ["run", "prepare", "body", "before", "unload", "complete", reported]);
    time.advance(SECOND);
    let error = failed(reloader.wrap(|_| log.noted("body")));
    assert_eq!(error.first().stage(), Stage::Unload);
    assert_eq!(log.take(), ["before", "unload", reported]);
    broken.store(false, SeqCst);
    time.advance(SECOND);
    reloader.wrap(|_| log.noted("body")).expect("it succeeds");
    let (retry, usual) = (
        ["before", "unload", "after"],
        ["run", "prepare", "body", "before", "unload", "after", "complete"],
    );
    assert_eq!(log.take(), [&retry[..], &usual[..]].concat());
}

/// A hook of the reloader may have used the code before it failed, so the next execution reloads first.
#[test]
fn an_execution_whose_hook_fails_leaves_its_reload_to_the_next() {
    let (log, broken) = (Log::default(), Arc::new(AtomicBool::new(true)));
    let builder = breaking(&log, "run", &broken, &ManualClock::new()).always();
    let reloader = builder.build().expect("valid");
    assert_eq!(failed(reloader.wrap(|_| log.noted("body"))).first().stage(), Stage::Run);
    assert_eq!(log.take(), ["run", "complete", "report: run"]);
    broken.store(false, SeqCst);
    reloader.wrap(|_| log.noted("body")).expect("it succeeds");
    let (first, usual) = (
        ["before", "unload", "after"],
        ["run", "prepare", "body", "before", "unload", "after", "complete"],
    );
    assert_eq!(log.take(), [&first[..], &usual[..]].concat());
}

#[test]
fn a_panic_in_a_reload_is_its_failure() {
    let log = Log::default();
    let (panics, time) = (AtomicBool::new(true), ManualClock::new());
    let executor = reporting(&log).interlock(on(&time)).build();
    let reloader = Reloader::builder(executor)
        .check(|| true)
        .unload(move |_| if panics.swap(false, SeqCst) { panic!("on purpose") } else { Ok(()) })
        .build()
        .expect("valid");
    let error = failed(reloader.wrap(|_| Ok(())));
    assert_eq!(
        (error.first().stage(), error.first().cause().is::<Panicked>()),
        (Stage::Unload, true)
    );
    assert_eq!(log.take(), ["report: it panicked: on purpose"]);
    time.advance(SECOND);
    reloader.wrap(|_| log.noted("body")).expect("it succeeds");
    assert_eq!(log.take(), ["body"]);
}

#[test]
fn a_panicking_check_is_an_error_and_leaves_the_world_whole() {
    let panics = AtomicBool::new(true);
    let check = move || if panics.swap(false, SeqCst) { panic!("on purpose") } else { false };
    let executor = Executor::builder().interlock(Interlock::new()).build();
    let reloader = Reloader::builder(executor).check(check).build().expect("valid");
    assert_eq!(failed(reloader.wrap(|_| Ok(()))).first().stage(), Stage::Check);
    reloader.executor().wrap(|_| Ok(())).expect("it succeeds");
    reloader.wrap(|_| Ok(())).expect("it succeeds");
}

/// A panic in the builder counts as a change.
#[test]
fn a_panic_of_a_version_is_a_failed_check_at_any_time() {
    let (log, calls) = (Log::default(), AtomicUsize::new(0));
    let executor = reporting(&log).interlock(Interlock::new()).build();
    let reloader = Reloader::builder(executor)
        .watch(move || match calls.fetch_add(1, SeqCst) {
            0 => panic!("in the builder"),
            1 => panic!("in a reload"),
            3 => panic!("in a look"),
            _ => 7,
        })
        .unload(unloading(log.noting("unload")))
        .build()
        .expect("valid");
    let fails = |why: &str| {
        let error = failed(reloader.wrap(|_| log.noted("body")));
        assert_eq!(
            (error.first().stage(), error.first().cause().is::<Panicked>()),
            (Stage::Check, true)
        );
        assert_eq!(log.take(), [format!("report: it panicked: {why}")]);
        reloader.executor().wrap(|_| Ok(())).expect("it is not half reloaded");
    };
    let runs = |done: &[&str]| {
        reloader.wrap(|_| log.noted("body")).expect("it succeeds");
        assert_eq!(log.take(), done);
    };
    fails("in a reload");
    runs(&["unload", "body"]);
    fails("in a look");
    runs(&["body"]);
}

#[test]
fn the_bodys_error_comes_before_that_of_the_reload_after_it() {
    let (log, broken) = (Log::default(), Arc::new(AtomicBool::new(true)));
    let executor = reporting(&log).interlock(Interlock::new()).build();
    let unload = log.failing("unload");
    let reloader = Reloader::builder(executor)
        .always()
        .unload(move |_| if broken.load(SeqCst) { unload() } else { Ok(()) })
        .build()
        .expect("valid");
    let error = failed(reloader.wrap(|_| Err::<(), _>("on purpose".into())));
    let stages: Vec<_> = error.failures().iter().map(|failure| failure.stage()).collect();
    assert_eq!(stages, [Stage::Body, Stage::Unload]);
    assert_eq!(log.take(), ["unload", "report: on purpose"]);
}

/// The reload after the body comes before the hooks that complete the execution, and so does its failure.
#[test]
fn the_failure_of_a_reload_comes_before_that_of_a_later_hook() {
    let log = Log::default();
    let executor = Executor::builder().interlock(Interlock::new()).build();
    let reloader = Reloader::builder(executor)
        .always()
        .unload(unloading(log.failing("unload")))
        .to_complete(log.failing("complete"))
        .build()
        .expect("valid");
    let error = failed(reloader.wrap(|_| Ok(())));
    let stages: Vec<_> = error.failures().iter().map(|failure| failure.stage()).collect();
    assert_eq!(stages, [Stage::Unload, Stage::Complete]);
    assert_eq!(log.take(), ["unload", "complete"]);
}

#[test]
fn the_first_failure_of_a_preparation_is_reported_once_and_returned() {
    let log = Log::default();
    let executor = reporting(&log).interlock(Interlock::new()).build();
    let reloader = Reloader::builder(executor)
        .to_prepare(preparing(log.failing("the first fails")))
        .to_prepare(preparing(log.noting("later")))
        .build()
        .expect("valid");
    let error = failed(reloader.prepare());
    assert_eq!((error.first().stage(), error.failures().len()), (Stage::Prepare, 1));
    assert_eq!(log.take(), ["the first fails", "report: the first fails"]);
    reloader.wrap(|_| log.noted("body")).expect("no reload has failed");
}

/// A refused caller reads why the last reload failed, and not why the first one did.
#[test]
fn a_refusal_names_the_failure_of_the_last_reload() {
    let (time, tries) = (ManualClock::new(), Arc::new(AtomicUsize::new(0)));
    let executor = Executor::builder().interlock(on(&time)).build();
    let counted = tries.clone();
    let reloader = Reloader::builder(executor.clone())
        .check(|| true)
        .unload(move |_| Err(format!("try {}", counted.fetch_add(1, SeqCst)).into()))
        .build()
        .expect("valid");
    for nth in 0..3 {
        failed(reloader.wrap(|_| Ok(())));
        for refused in [failed(executor.wrap(|_| Ok(()))), failed(reloader.wrap(|_| Ok(())))] {
            // An error does not repeat the text of its source.
            let texts = [Some(&refused as &dyn Error), refused.source(), None];
            let texts: Vec<_> = texts.into_iter().flatten().map(ToString::to_string).collect();
            let entering = "entering the interlock failed: the last reload has failed";
            assert_eq!(texts, [entering.to_owned(), format!("unloading failed: try {nth}")]);
        }
        time.advance(10 * SECOND);
    }
    assert_eq!(tries.load(SeqCst), 3);
}

/// A change that the check has reported once stays pending: its reload has timed out, and the next check panics.
#[test]
fn a_pending_change_outlives_a_check_that_panics() {
    let (log, calls) = (Log::default(), AtomicUsize::new(0));
    let executor = Executor::builder().interlock(Interlock::new()).build();
    let reloader = Reloader::builder(executor.clone())
        .check(move || match calls.fetch_add(1, SeqCst) {
            0 => true,
            1 => panic!("on purpose"),
            _ => false,
        })
        .unload(unloading(log.noting("unload")))
        .acquire_timeout(std::time::Duration::ZERO)
        .build()
        .expect("valid");
    let other = block_on(executor.run_async()).expect("it runs");
    assert_eq!(failed(reloader.wrap(|_| Ok(()))).first().stage(), Stage::Unload);
    drop(other);
    assert_eq!(failed(reloader.wrap(|_| Ok(()))).first().stage(), Stage::Check);
    assert!(log.take().is_empty());
    reloader.wrap(|_| log.noted("body")).expect("it reloads");
    assert_eq!(log.take(), ["unload", "body"]);
}
