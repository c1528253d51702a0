//! Restates the tests of Rails' reloader.

use crate::common::log::{Log, failed};
use crate::reloader::noting::{ALWAYS, ENDS, RELOAD, noting, once, unloading};
use cabrank::execution::interlock::Loaded;
use cabrank::execution::{BoxError, Executor, Interlock, Reloader, Stage};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

#[test]
fn prepare_runs_on_request_and_before_a_body_but_not_after() {
    let log = Log::default();
    let reloader = noting(&log).check(|| true).build().expect("valid");
    reloader.prepare().expect("it succeeds");
    assert_eq!(log.take(), ["prepare"]);
    reloader.wrap(|_| log.noted("body")).expect("it succeeds");
    assert_eq!(log.take(), [&RELOAD[..], &["body"], &ENDS[..]].concat());
}

#[test]
fn hooks_run_only_if_something_has_changed() {
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
fn the_full_order_with_and_without_a_change() {
    for changed in [true, false] {
        let log = Log::default();
        let reloader = noting(&log).check(move || changed).build().expect("valid");
        reloader.wrap(|_| Ok(())).expect("it succeeds");
        let wrapped = match changed {
            true => [&RELOAD[..], &ENDS[..]].concat(),
            false => vec!["executor run", "executor complete"],
        };
        assert_eq!(log.take(), wrapped);
    }
}

#[test]
fn before_unload_after_body() {
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
fn an_error_is_reported_once() {
    let log = Log::default();
    let reloader = noting(&log).check(|| true).build().expect("valid");
    let error = failed(reloader.wrap(|_| Err::<(), _>("on purpose".into())));
    assert_eq!(error.first().stage(), Stage::Body);
    let reported = ["report: on purpose"];
    assert_eq!(log.take(), [&RELOAD[..], &ENDS[..], &reported[..]].concat());
}

#[test]
fn the_check_decides_for_each_execution() {
    let (log, asked) = (Log::default(), AtomicUsize::new(0));
    let check = move || asked.fetch_add(1, SeqCst) % 2 == 0;
    let reloader = noting(&log).check(check).build().expect("valid");
    for _ in 0..5 {
        reloader.wrap(|_| Ok(())).expect("it succeeds");
    }
    assert_eq!(log.take().iter().filter(|what| *what == "unload").count(), 3);
}

#[test]
fn a_value_loaded_after_a_reload_is_new() {
    let (template, source) = (Arc::new(Loaded::new()), Arc::new(Mutex::new("old")));
    let cleared = template.clone();
    let executor = Executor::builder().interlock(Interlock::new()).build();
    let changed = Arc::new(AtomicBool::new(false));
    let builder = Reloader::builder(executor).check(once(&changed)).unload(move |alone| {
        cleared.clear(alone);
        Ok(())
    });
    let reloader = builder.build().expect("valid");
    let read = || {
        let loaded = reloader.wrap(|execution| {
            let running = execution.running().ok_or("no interlock")?;
            let load = || Ok::<_, BoxError>(*source.lock().expect("no panic"));
            Ok(*template.get_or_load(running, load)?)
        });
        loaded.expect("it succeeds")
    };
    assert_eq!(read(), "old");
    *source.lock().expect("no panic") = "new";
    assert_eq!(read(), "old");
    changed.store(true, SeqCst);
    assert_eq!(read(), "new");
}

#[test]
fn a_guard_completes_as_a_wrap_does() {
    let log = Log::default();
    let reloader = noting(&log).always().build().expect("valid");
    let execution = reloader.run().expect("it runs");
    log.note("body");
    execution.complete().expect("it completes");
    assert_eq!(log.take(), ALWAYS);
}
