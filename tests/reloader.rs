//! The reloader: what the original's tests check of it (R46 to R51), and what is promised beyond.

mod common;

use cabrank::execution::interlock::{AcquireError, Loaded, Unloading};
use cabrank::execution::{
    BoxError, Execution, Executor, HalfReloaded, Interlock, Panicked, Preparing, ReloadRefused,
    Reloader, ReloaderBuilder, ReloaderError, Severity, Stage,
};
use common::log::{Log, failed, reporting};
use common::task::{Task, block_on};
use common::{before_long, soon};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;

/// A reloader whose every stage is noted, over an executor whose hooks and reports are.
fn noting(log: &Log) -> ReloaderBuilder {
    let executor = reporting(log)
        .interlock(Interlock::new())
        .to_run(log.noting("executor run"))
        .to_complete(log.noting("executor complete"))
        .build();
    let unload = log.noting("unload");
    Reloader::builder(executor)
        .to_run(log.noting("run"))
        .to_complete(log.noting("complete"))
        .before_unload(log.noting("before"))
        .unload(move |_| unload())
        .after_unload(unloading(log.noting("after")))
        .to_prepare(preparing(log.noting("prepare")))
}

/// A step that unloads nothing.
fn unloading(step: impl Step) -> impl Fn(&mut Unloading<'_>) -> Result<(), BoxError> + Send + Sync {
    move |_| step()
}
/// A step that prepares nothing.
fn preparing(step: impl Step) -> impl Fn(&mut Preparing<'_>) -> Result<(), BoxError> + Send + Sync {
    move |_| step()
}
trait Step: Fn() -> Result<(), BoxError> + Send + Sync + 'static {}
impl<F: Fn() -> Result<(), BoxError> + Send + Sync + 'static> Step for F {}

/// Says once that something has changed, whenever it is set.
fn once(changed: &Arc<AtomicBool>) -> impl Fn() -> bool + Send + Sync + use<> {
    let changed = changed.clone();
    move || changed.swap(false, SeqCst)
}

const RELOAD: [&str; 6] = ["executor run", "before", "unload", "after", "run", "prepare"];
const ENDS: [&str; 2] = ["complete", "executor complete"];
const ALWAYS: [&str; 9] = [
    "executor run",
    "run",
    "prepare",
    "body",
    "before",
    "unload",
    "after",
    "complete",
    "executor complete",
];

#[test]
fn r46_prepare_runs_when_it_is_told_and_before_a_body_but_not_after() {
    let log = Log::default();
    let reloader = noting(&log).check(|| true).build().expect("valid");
    reloader.prepare().expect("it succeeds");
    assert_eq!(log.take(), ["prepare"]);
    reloader.wrap(|_| log.noted("body")).expect("it succeeds");
    assert_eq!(log.take(), [&RELOAD[..], &["body"], &ENDS[..]].concat());
}

#[test]
fn r47_a_prepended_prepare_runs_first() {
    let log = Log::default();
    let builder = noting(&log)
        .to_prepare(preparing(log.noting("last")))
        .to_prepare_first(preparing(log.noting("first")));
    builder.build().expect("valid").prepare().expect("it succeeds");
    assert_eq!(log.take(), ["first", "prepare", "last"]);
}

#[test]
fn r48_hooks_run_only_if_something_has_changed() {
    let (log, changed) = (Log::default(), Arc::new(AtomicBool::new(false)));
    let reloader = noting(&log).check(once(&changed)).build().expect("valid");
    reloader.wrap(|_| log.noted("body")).expect("it succeeds");
    assert_eq!(log.take(), ["executor run", "body", "executor complete"]);
    changed.store(true, SeqCst);
    reloader.wrap(|_| log.noted("body")).expect("it succeeds");
    assert_eq!(log.take(), [&RELOAD[..], &["body"], &ENDS[..]].concat());
    reloader.wrap(|_| log.noted("body")).expect("it succeeds");
    assert_eq!(log.take(), ["executor run", "body", "executor complete"]);
}

#[test]
fn r49_r82_the_full_order_with_and_without_a_change() {
    let reloaded_now = [&RELOAD[..], &ENDS[..], &["prepare"]].concat();
    for changed in [true, false] {
        let log = Log::default();
        let reloader = noting(&log).check(move || changed).build().expect("valid");
        reloader.wrap(|_| Ok(())).expect("it succeeds");
        let wrapped = match changed {
            true => [&RELOAD[..], &ENDS[..]].concat(),
            false => vec!["executor run", "executor complete"],
        };
        assert_eq!(log.take(), wrapped);
        reloader.reload_now().expect("it succeeds");
        assert_eq!(log.take(), reloaded_now);
    }
}

#[test]
fn r50_before_unload_after_body() {
    let log = Log::default();
    let unload = log.noting("unload");
    let executor = Executor::builder().interlock(Interlock::new()).build();
    let reloader = Reloader::builder(executor)
        .check(|| true)
        .before_unload(log.noting("before 1"))
        .before_unload(log.noting("before 2"))
        .unload(move |_| unload())
        .after_unload(unloading(log.noting("after 1")))
        .after_unload(unloading(log.noting("after 2")))
        .build()
        .expect("valid");
    reloader.wrap(|_| log.noted("body")).expect("it succeeds");
    assert_eq!(log.take(), ["before 1", "before 2", "unload", "after 2", "after 1", "body"]);
}

#[test]
fn r51_r75_an_error_is_reported_once() {
    let log = Log::default();
    let reloader = noting(&log).check(|| true).build().expect("valid");
    let error = failed(reloader.wrap(|_| Err::<(), _>("on purpose".into())));
    assert_eq!(error.stage(), Stage::Body);
    let reported = ["Error of cabrank: on purpose"];
    assert_eq!(log.take(), [&RELOAD[..], &ENDS[..], &reported[..]].concat());
}

#[test]
fn r71_the_check_decides_for_each_execution() {
    let (log, asked) = (Log::default(), AtomicUsize::new(0));
    let check = move || asked.fetch_add(1, SeqCst) % 2 == 0;
    let reloader = noting(&log).check(check).build().expect("valid");
    for _ in 0..5 {
        reloader.wrap(|_| Ok(())).expect("it succeeds");
    }
    assert_eq!(log.take().iter().filter(|what| *what == "unload").count(), 3);
}

#[test]
fn r83_what_is_loaded_after_a_reload_is_new() {
    let (template, source) = (Arc::new(Loaded::new()), Arc::new(Mutex::new("old")));
    let cleared = template.clone();
    let executor = Executor::builder().interlock(Interlock::new()).build();
    let builder = Reloader::builder(executor).unload(move |alone| {
        cleared.clear(alone);
        Ok(())
    });
    let reloader = builder.build().expect("valid");
    let read = || {
        let loaded = reloader.wrap(|execution| {
            let running = execution.running().ok_or("no interlock")?;
            let load = || Ok::<_, std::io::Error>(*source.lock().expect("no panic"));
            Ok(*template.get_or_load(running, load)?)
        });
        loaded.expect("it succeeds")
    };
    assert_eq!(read(), "old");
    *source.lock().expect("no panic") = "new";
    assert_eq!(read(), "old");
    reloader.reload_now().expect("it succeeds");
    assert_eq!(read(), "new");
}

#[test]
fn always_reloads_after_each_body() {
    let log = Log::default();
    let reloader = noting(&log).always().build().expect("valid");
    for _ in 0..2 {
        reloader.wrap(|_| log.noted("body")).expect("it succeeds");
        assert_eq!(log.take(), ALWAYS);
    }
    // Whatever the body does.
    failed(reloader.wrap(|_| {
        log.note("body");
        Err::<(), _>("on purpose".into())
    }));
    assert_eq!(log.take(), [&ALWAYS[..], &["Error of cabrank: on purpose"]].concat());
    reloader.reload_now().expect("it succeeds");
    let without_body = ALWAYS.iter().filter(|&&stage| stage != "body").copied();
    assert_eq!(log.take(), without_body.chain(["prepare"]).collect::<Vec<_>>());
}

/// While the interlock is held to unload, nobody else enters; before and after, others do.
#[test]
fn what_is_exclusive_is_as_documented_in_both_modes() {
    for always in [false, true] {
        let (log, interlock) = (Log::default(), Interlock::new());
        let alone = |what: &'static str| {
            let (log, interlock) = (log.clone(), interlock.clone());
            move || {
                let other = interlock.clone();
                let enters = thread::spawn(move || other.try_enter().is_ok()).join();
                let shared = if enters.expect("no panic") { "shared" } else { "alone" };
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
                "prepare shared",
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

/// The original reloads again for each request that begins while the first is still in its body.
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
fn many_who_see_one_change_reload_once() {
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
fn what_changes_during_a_reload_is_reloaded_by_the_next() {
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

/// A reloader whose stage of this name fails as long as it is told to.
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
fn a_failed_reload_is_reported_and_retried_and_nothing_runs_before_it_succeeds() {
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
        // Whatever the check says: it said so once.
        for _ in 0..2 {
            let error = failed(reloader.wrap(|_| log.noted("body")));
            assert_eq!((error.stage(), error.cause().to_string()), (stage, name.to_owned()));
            let completed = if at >= 3 { &["complete"][..] } else { &[] };
            let reported = format!("Error of cabrank: {name}");
            assert_eq!(log.take(), [&done[..], completed, &[&reported]].concat());
            // Nor does anything else run on what is half loaded.
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
fn a_panicking_check_is_an_error_and_half_reloads_nothing() {
    let panics = AtomicBool::new(true);
    let check = move || if panics.swap(false, SeqCst) { panic!("on purpose") } else { false };
    let executor = Executor::builder().interlock(Interlock::new()).build();
    let reloader = Reloader::builder(executor).check(check).build().expect("valid");
    assert_eq!(failed(reloader.wrap(|_| Ok(()))).stage(), Stage::Check);
    reloader.executor().wrap(|_| Ok(())).expect("it succeeds");
    reloader.wrap(|_| Ok(())).expect("it succeeds");
}

#[test]
fn a_reload_inside_an_execution_is_refused_and_left_to_the_next() {
    let (log, changed) = (Log::default(), Arc::new(AtomicBool::new(false)));
    let reloader = noting(&log).check(once(&changed)).build().expect("valid");
    let executor = reloader.executor();
    let refused = |result| {
        let error = failed::<()>(result);
        error.into_cause().downcast_ref() == Some(&ReloadRefused::InsideExecution)
    };
    executor
        .wrap(|_| {
            // Nothing has changed: nothing is to be refused.
            reloader.wrap(|_| log.noted("nested"))?;
            changed.store(true, SeqCst);
            assert!(refused(reloader.wrap(|_| log.noted("never"))));
            assert!(refused(reloader.run().map(drop)));
            assert!(refused(reloader.reload_now()));
            Ok(())
        })
        .expect("it succeeds");
    assert_eq!(log.take(), ["executor run", "nested", "executor complete"]);
    reloader.wrap(|_| log.noted("body")).expect("it succeeds");
    assert_eq!(log.take(), [&RELOAD[..], &["body"], &ENDS[..]].concat());
}

#[test]
fn a_reload_in_a_child_is_refused() {
    let (log, changed) = (Log::default(), Arc::new(AtomicBool::new(false)));
    let reloader = noting(&log).check(once(&changed)).build().expect("valid");
    let theirs = reloader.clone();
    soon(move || {
        let outer = theirs.clone();
        outer.wrap(|execution| {
            changed.store(true, SeqCst);
            let child = execution.child();
            let reloads = move || child.wrap(|_| Ok(theirs.wrap(|_| Ok(()))?));
            let error = failed(thread::spawn(reloads).join().expect("no panic"));
            let inner = error.into_cause();
            assert!(inner.to_string().contains("no reload inside an execution"), "{inner}");
            Ok(())
        })
    })
    .expect("it succeeds");
}

/// A nested one of the reloader's own is no second look, whatever has changed since.
#[test]
fn inside_its_own_execution_a_reloader_only_calls_the_body() {
    for always in [false, true] {
        let log = Log::default();
        let builder = noting(&log).check(|| true);
        let builder = if always { builder.always() } else { builder };
        let reloader = builder.build().expect("valid");
        reloader.wrap(|_| Ok(reloader.wrap(|_| log.noted("body"))?)).expect("it succeeds");
        let unloads = log.take().iter().filter(|what| *what == "unload").count();
        assert_eq!(unloads, 1);
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
    let error = failed(reloader.reload_now());
    assert_eq!(error.cause().downcast_ref(), Some(&ReloadRefused::Disabled));
    reloader.executor().wrap(|_| Ok(reloader.wrap(|_| Ok(()))?)).expect("nothing to refuse");
}

#[test]
fn a_reloader_needs_an_interlock_and_an_executor_of_its_own() {
    let bare = Reloader::builder(Executor::builder().build()).build();
    assert_eq!(bare.err(), Some(ReloaderError::NoInterlock));
    let executor = Executor::builder().interlock(Interlock::new()).build();
    let first = Reloader::builder(executor.clone()).build();
    assert!(first.is_ok());
    let second = Reloader::builder(executor).build();
    assert_eq!(second.err(), Some(ReloaderError::SecondReloader));
}

#[test]
fn a_reload_waits_for_who_runs_wherever_that_ends() {
    let (log, changed) = (Log::default(), Arc::new(AtomicBool::new(false)));
    let reloader = noting(&log).check(once(&changed)).build().expect("valid");
    let old = reloader.run().expect("it runs");
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
fn a_dropped_execution_waits_for_nobody_and_leaves_its_reload_to_the_next() {
    let log = Log::default();
    let reloader = noting(&log).always().build().expect("valid");
    let other = reloader.executor().run().expect("it runs");
    let execution = reloader.run().expect("it runs");
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
fn r73_r74_a_guard_completes_as_a_wrap_does() {
    let log = Log::default();
    let reloader = noting(&log).always().build().expect("valid");
    let mut execution = reloader.run().expect("it runs");
    execution.within(|_| log.note("body"));
    execution.complete().expect("it completes");
    assert_eq!(log.take(), ALWAYS);
}

#[test]
fn a_future_finds_the_world_reloaded() {
    let log = Log::default();
    let reloader = noting(&log).check(|| true).build().expect("valid");
    block_on(reloader.wrap_async(async |_| log.noted("body"))).expect("it succeeds");
    assert_eq!(log.take(), [&RELOAD[..], &["body"], &ENDS[..]].concat());

    let theirs = reloader.clone();
    let forever = async |_: &mut Execution| {
        std::future::pending::<()>().await;
        Ok(())
    };
    let mut task = Task::new(async move { theirs.wrap_async(forever).await });
    assert!(task.poll().is_none());
    drop(task);
    assert_eq!(log.take(), [&RELOAD[..], &ENDS[..]].concat());
}

/// Two executors over one interlock: the inner one has the outer one's share, so a reload that
/// waits does not come between them.
#[test]
fn executors_that_share_an_interlock_nest_although_a_reload_waits() {
    let (log, changed) = (Log::default(), Arc::new(AtomicBool::new(false)));
    let interlock = Interlock::new();
    let one = Executor::builder().interlock(interlock.clone()).build();
    let two = Executor::builder().interlock(interlock.clone()).hook(log.hook("two")).build();
    let unload = log.noting("unload");
    let reloader = Reloader::builder(one)
        .check(once(&changed))
        .unload(move |_| unload())
        .build()
        .expect("valid");
    let theirs = reloader.clone();
    soon(move || {
        let executor = reloader.executor();
        executor
            .wrap(|_| {
                changed.store(true, SeqCst);
                let waits = thread::spawn(move || theirs.wrap(|_| Ok(())));
                before_long(|| interlock.dump().to_string().contains("unload"));
                two.wrap(|_| Ok(()))?;
                drop(two.run()?);
                Ok(waits)
            })
            .expect("it succeeds")
            .join()
            .expect("no panic")
            .expect("it succeeds");
    });
    let order = ["run two", "complete two", "run two", "complete two", "unload"];
    assert_eq!(log.take(), order);
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

/// Who runs a child waits for it with a reload queued: rule C of the interlock.
#[test]
fn a_child_is_let_in_although_a_reload_waits_for_its_parent() {
    let (log, changed) = (Log::default(), Arc::new(AtomicBool::new(false)));
    let interlock = Interlock::new();
    let executor = Executor::builder().interlock(interlock.clone()).build();
    let unload = log.noting("unload");
    let reloader = Reloader::builder(executor)
        .check(once(&changed))
        .unload(move |_| unload())
        .build()
        .expect("valid");
    let (theirs, noted) = (reloader.clone(), log.clone());
    soon(move || {
        let (send, reloading) = channel();
        let parent = reloader.executor().wrap(|execution| {
            let child = execution.child();
            changed.store(true, SeqCst);
            let _ = send.send(thread::spawn(move || theirs.wrap(|_| Ok(()))));
            before_long(|| interlock.dump().to_string().contains("unload"));
            let nested = reloader.executor().wrap(|nested| Ok(nested.child()))?;
            for child in [child, nested] {
                let noted = noted.clone();
                let thread = thread::spawn(move || child.wrap(|_| noted.noted("child")));
                thread.join().expect("no panic")?;
            }
            Ok(())
        });
        parent.expect("it succeeds");
        let waiting = reloading.recv().expect("it was sent");
        waiting.join().expect("no panic").expect("it succeeds");
    });
    assert_eq!(log.take(), ["child", "child", "unload"]);
}

#[test]
fn a_future_that_waits_to_reload_blocks_no_thread() {
    let (log, changed) = (Log::default(), Arc::new(AtomicBool::new(true)));
    let reloader = noting(&log).check(once(&changed)).build().expect("valid");
    let old = reloader.executor().run().expect("it runs");
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
    let old = reloader.executor().run().expect("it runs");
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
fn a_bodys_error_is_told_although_its_future_is_dropped_while_it_waits_to_reload() {
    let log = Log::default();
    let reloader = noting(&log).always().build().expect("valid");
    let old = reloader.executor().run().expect("it runs");
    let theirs = reloader.clone();
    let fails = async |_: &mut Execution| Err::<(), _>("on purpose".into());
    let mut task = Task::new(async move { theirs.wrap_async(fails).await });
    assert!(task.poll().is_none());
    log.take();
    drop(task);
    let told = ["complete", "executor complete", "handled Error of cabrank: on purpose"];
    assert_eq!(log.take(), told);
    drop(old);
}

/// What a reload calls is in the execution that reloads, whoever polls it.
#[test]
fn what_unloads_may_use_the_interlock_and_the_executor() {
    let (interlock, own) = (Interlock::new(), Arc::new(std::sync::OnceLock::<Reloader>::new()));
    let (inner, theirs, log) = (interlock.clone(), own.clone(), Log::default());
    let noted = log.clone();
    let builder = Reloader::builder(Executor::builder().interlock(interlock).build());
    let reloader = builder
        .check(|| true)
        .unload(move |_| {
            inner.run(|_| noted.note("a share"));
            let reloader = theirs.get().ok_or("not set")?;
            reloader.executor().wrap(|_| noted.noted("an execution"))?;
            reloader.wrap(|_| noted.noted("another"))?;
            Ok(())
        })
        .build()
        .expect("valid");
    own.set(reloader.clone()).expect("set once");
    let expected = ["a share", "an execution", "another"];
    let theirs = reloader.clone();
    soon(move || theirs.wrap(|_| Ok(()))).expect("it succeeds");
    assert_eq!(log.take(), expected);
    soon(move || block_on(reloader.wrap_async(async |_| Ok(())))).expect("it succeeds");
    assert_eq!(log.take(), expected);
}

/// What prepares loads, and whoever runs finds it: in whichever mode, and when the program starts.
#[test]
fn what_prepares_may_load() {
    for always in [false, true] {
        let (settings, extra) = (Arc::new(Loaded::new()), Arc::new(Loaded::new()));
        let prepares = Arc::new(AtomicUsize::new(0));
        let executor = Executor::builder().interlock(Interlock::new()).build();
        let (former, prepared, after) = (settings.clone(), settings.clone(), extra.clone());
        let count = prepares.clone();
        let builder = Reloader::builder(executor)
            .unload(move |unloading| {
                former.clear(unloading);
                Ok(())
            })
            .after_unload(move |unloading| {
                unloading.load(|loading| after.set("after", loading));
                Ok(())
            })
            .to_prepare(move |preparing| {
                let number = count.fetch_add(1, SeqCst);
                Ok(preparing.load(|loading| prepared.set(number, loading))?)
            });
        let builder = if always { builder.always() } else { builder.check(|| true) };
        let reloader = builder.build().expect("valid");
        let seen = |execution: &mut Execution| {
            let running = execution.running().expect("a share");
            Ok((settings.get(running).map(|n| *n), extra.get(running).map(|text| *text)))
        };
        reloader.prepare().expect("it loads");
        assert_eq!(reloader.executor().wrap(seen).expect("it runs"), (Some(0), None));
        // Always: the world is prepared beside others, and unloaded only after the body.
        let extra = (!always).then_some("after");
        assert_eq!(reloader.wrap(seen).expect("it runs"), (Some(1), extra));
        assert_eq!(reloader.wrap(seen).expect("it runs"), (Some(2), Some("after")));
        let task = reloader.wrap_async(async |execution: &mut Execution| seen(execution));
        assert_eq!(block_on(task).expect("it runs"), (Some(3), Some("after")));
    }
}

/// Inside an execution on the same thread the share is that one's, which keeps it.
#[test]
fn what_prepares_inside_an_execution_may_not_load() {
    let executor = Executor::builder().interlock(Interlock::new()).build();
    let reloader = Reloader::builder(executor)
        .to_prepare(|preparing| Ok(preparing.load(|_| ())?))
        .build()
        .expect("valid");
    let inner = reloader.executor().wrap(|_| Ok(reloader.prepare())).expect("it runs");
    let error = inner.expect_err("it may not load");
    assert_eq!(error.stage(), Stage::Prepare);
    assert!(matches!(error.cause().downcast_ref(), Some(AcquireError::Nested)));
    reloader.prepare().expect("it may");
}
