//! A look at the restart files that does not return, as on a network file system that hangs.

use crate::common::{Gate, Rig, SECOND, app, before_long, soon};
use cabrank::PoolOptions;
use cabrank::application_pool::GetError;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// A pool whose looks at `/srv/hung` wait for a gate, and the number of looks at it.
fn hung() -> (Rig, Gate, Arc<AtomicUsize>) {
    let (gate, looks) = (Gate::default(), Arc::new(AtomicUsize::new(0)));
    let (theirs, counted) = (gate.clone(), looks.clone());
    let rig = Rig::new(|b| {
        b.restart_files(move |file| {
            if file.starts_with("/srv/hung") && file.ends_with("restart.txt") {
                counted.fetch_add(1, Ordering::SeqCst);
                theirs.pass();
            }
            Err(std::io::ErrorKind::NotFound.into())
        })
    });
    (rig, gate, looks)
}

/// The poll returns at once. Other tasks of the runtime's thread, and other groups, go on.
#[test]
fn a_look_that_hangs_blocks_no_task() {
    let (rig, gate, looks) = hung();
    let mut hangs = rig.task(&app("hung"));
    let mut hangs = soon(move || hangs.poll().is_none().then_some(hangs)).expect("it waits");
    gate.await_arrivals(1);
    drop(rig.task(&app("x")).finish().expect("a session"));
    drop(rig.get(&app("x")));
    assert!(hangs.poll().is_none());
    gate.open();
    before_long(|| hangs.wakes() == 1);
    drop(hangs.finish().expect("a session"));
    assert_eq!(looks.load(Ordering::SeqCst), 1);
}

#[test]
fn a_look_that_hangs_ends_no_time_limit() {
    let (rig, gate, _) = hung();
    let pool = rig.pool.clone();
    let get = std::thread::spawn(move || pool.get_timeout(&app("hung"), SECOND).err());
    let pool = rig.pool.clone();
    let checkout = std::thread::spawn(move || pool.checkout_timeout(&app("hung"), SECOND).err());
    gate.await_arrivals(1);
    before_long(|| {
        rig.clock.advance(SECOND);
        get.is_finished() && checkout.is_finished()
    });
    for late in [get, checkout] {
        assert!(matches!(late.join().expect("no panic"), Some(GetError::TimedOut)));
    }
    gate.open();
    drop(rig.get(&app("hung")));
}

/// All gets that come while a look hangs share the next one. So one thread hangs, and not one for each get.
#[test]
fn gets_share_a_look() {
    let (rig, gate, looks) = hung();
    let mut tasks: Vec<_> = (0..20).map(|_| rig.task(&app("hung"))).collect();
    assert!(tasks.iter_mut().all(|task| task.poll().is_none()));
    gate.await_arrivals(1);
    // A get that gives up leaves the others' look.
    drop(tasks.drain(5..15));
    gate.open();
    let sessions = tasks.into_iter().map(|task| drop(task.finish().expect("a session")));
    assert_eq!(sessions.count(), 10);
    assert_eq!(looks.load(Ordering::SeqCst), 2, "that of the first get, and that of the others");
}

/// The look in flight may have begun before the touch.
#[test]
fn a_get_after_a_touch_waits_for_a_look_that_begins_later() {
    let rig = Rig::watching(|b| b);
    drop(rig.get(&app("x")));
    let mut first = rig.task(&app("x"));
    // Its look is in flight, or has ended already.
    let served = first.poll();
    rig.touch(&app("x"));
    let pid = rig.task(&app("x")).finish().expect("a session").pid();
    assert_eq!(pid, 2, "it restarts the group");
    if served.is_none() {
        drop(first.finish());
    }
}

#[test]
fn a_close_ends_the_gets_that_wait_for_a_look() {
    let (rig, gate, looks) = hung();
    let mut first = rig.task(&app("hung"));
    assert!(first.poll().is_none());
    gate.await_arrivals(1);
    let mut next = rig.task(&app("hung"));
    assert!(next.poll().is_none());
    let pool = rig.pool.clone();
    let thread = std::thread::spawn(move || pool.get_timeout(&app("hung"), 100 * SECOND).err());
    let pool = rig.pool.clone();
    soon(move || pool.close());
    for mut task in [first, next] {
        assert_eq!(task.wakes(), 1);
        assert!(matches!(task.poll(), Some(Err(GetError::Closed))));
    }
    assert!(matches!(soon(move || thread.join().expect("no panic")), Some(GetError::Closed)));
    assert!(matches!(rig.task(&app("hung")).poll(), Some(Err(GetError::Closed))));
    assert!(rig.pool.wait_closed(Duration::ZERO), "a look is no process");
    gate.open();
    before_long(|| looks.load(Ordering::SeqCst) == 1);
}

/// A look-up that calls the pool back does not wait for the look that it is part of.
#[test]
fn a_look_up_may_get_with_a_time_limit() {
    let (weak, answers) = (Arc::new(std::sync::OnceLock::new()), Arc::new(AtomicUsize::new(0)));
    let (pool, (answered, nested)) = (weak.clone(), (answers.clone(), AtomicUsize::new(0)));
    let rig = Rig::new(|b| {
        b.restart_files(move |_| {
            let pool: Option<&cabrank::application_pool::WeakPool<_>> = pool.get();
            if nested.fetch_add(1, Ordering::SeqCst) == 0
                && let Some(pool) = pool.and_then(cabrank::application_pool::WeakPool::upgrade)
            {
                drop(pool.get_timeout(&app("x"), 100 * SECOND));
                answered.fetch_add(1, Ordering::SeqCst);
            }
            nested.fetch_sub(1, Ordering::SeqCst);
            Err(std::io::ErrorKind::NotFound.into())
        })
    });
    assert!(weak.set(rig.pool.downgrade()).is_ok());
    drop(rig.task(&app("x")).finish().expect("a session"));
    assert!(answers.load(Ordering::SeqCst) > 0);
}

/// A get that polls: it waits neither for a look nor for a process.
fn poll(rig: &Rig, options: &PoolOptions) -> Result<u32, GetError> {
    let (pool, options) = (rig.pool.clone(), options.clone());
    soon(move || pool.get_timeout(&options, Duration::ZERO).map(|session| session.pid()))
}

#[test]
fn a_get_without_time_waits_for_no_look() {
    let (rig, gate, looks) = hung();
    for _ in 0..3 {
        assert!(matches!(poll(&rig, &app("hung")), Err(GetError::TimedOut)));
        gate.await_arrivals(1);
    }
    assert_eq!(rig.pool.snapshot().spawning, 0, "a process would have no baseline");
    assert_eq!(looks.load(Ordering::SeqCst), 1);
    gate.open();
    before_long(|| poll(&rig, &app("hung")).is_ok());
}

/// A pool that looks at nothing until its looks hang.
fn hangs_later() -> (Rig, Gate, Arc<AtomicBool>) {
    let (gate, hangs) = (Gate::default(), Arc::new(AtomicBool::new(false)));
    let (theirs, whether) = (gate.clone(), hangs.clone());
    let rig = Rig::new(|b| {
        b.restart_files(move |_| {
            if whether.load(Ordering::SeqCst) {
                theirs.pass();
            }
            Err(std::io::ErrorKind::NotFound.into())
        })
    });
    (rig, gate, hangs)
}

#[test]
fn an_idle_process_serves_a_get_without_time_while_the_look_hangs() {
    let (rig, gate, hangs) = hangs_later();
    rig.idle(&app("x"), 1);
    hangs.store(true, Ordering::SeqCst);
    for _ in 0..3 {
        assert_eq!(poll(&rig, &app("x")).expect("the idle process"), 1);
        gate.await_arrivals(1);
    }
    gate.open();
}

#[test]
fn a_caller_that_only_polls_sees_a_touch() {
    let rig = Rig::watching(|b| b);
    before_long(|| poll(&rig, &app("x")).is_ok_and(|pid| pid == 1));
    rig.touch(&app("x"));
    before_long(|| poll(&rig, &app("x")).is_ok_and(|pid| pid == 2));
    assert_eq!(rig.pool.snapshot().totals.spawned, 2, "one restart");
}

#[test]
fn a_look_that_ends_late_brings_no_detached_group_back() {
    let (rig, gate, hangs) = hangs_later();
    let (detached, other) = (app("x"), app("x").with_app_group_name("other"));
    rig.idle(&detached, 1);
    hangs.store(true, Ordering::SeqCst);
    assert_eq!(poll(&rig, &detached).expect("the idle process"), 1);
    assert!(rig.pool.detach_group(detached.app_group_name()));
    gate.await_arrivals(1);
    gate.open();
    // Its look begins after the other one has ended.
    drop(rig.task(&other).finish().expect("a session"));
    assert_eq!(rig.pool.snapshot().groups.len(), 1, "the other group");
}
