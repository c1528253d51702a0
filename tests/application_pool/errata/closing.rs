//! The end of a pool (E32).

use crate::common::{Gate, Rig, SECOND, SOON, app, before_long, soon};
use cabrank::application_pool::{
    DetachReason, GetError, RestartMode, ShutDown, SpawnError, SpawnRequest, Spawner,
};
use cabrank::in_memory::{Call, InMemorySpawner, Spawn};
use cabrank::{ApplicationPool, ManualClock};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

#[test] // E32
fn closing_fails_the_waiters_at_once_and_lets_sessions_finish() {
    let rig = Rig::new(|b| b.max(2));
    let (busy, session) = (rig.get(&app("x")), rig.get(&app("y")));
    let thread = rig.queue_get(&app("y"));
    let mut task = rig.task(&app("x"));
    assert!(task.poll().is_none());

    rig.pool.close();
    assert!(matches!(thread.error(), GetError::Closed));
    assert_eq!(task.wakes(), 1);
    assert!(matches!(task.poll(), Some(Err(GetError::Closed))));
    assert_eq!((rig.counts(), rig.pool.counts().draining), ((0, 0), 2));
    assert!(rig.pool.snapshot().closed);

    assert_eq!(busy.request("hello"), "hello from /srv/x");
    assert!(!rig.pool.wait_closed(Duration::ZERO), "sessions are open");
    let pid = busy.pid();
    drop(busy);
    assert_eq!(rig.spawner.shut_down().last(), Some(&(pid, ShutDown::Drained)));
    drop(session);
    let pool = rig.pool.clone();
    assert!(soon(move || pool.wait_closed(SECOND)));
}

#[test] // E32
fn closing_shuts_idle_processes_down_and_reports_it() {
    let rig = Rig::new(|b| b);
    let pids = rig.idle(&app("x"), 2);
    rig.pool.close();
    assert_eq!(rig.gone(), pids);
    assert_eq!(rig.next_detached().1, DetachReason::Closed);
    assert_eq!(rig.next_detached().1, DetachReason::Closed);
    // Each is dropped, too, on a thread of its own.
    before_long(|| rig.spawner.processes().is_empty());
}

/// A closed pool stays empty (INV-CLOSED).
#[test] // E32
fn a_closed_pool_refuses_gets_and_may_be_closed_again() {
    let rig = Rig::new(|b| b);
    rig.idle(&app("x"), 1);
    rig.pool.close();
    let before = rig.pool.snapshot();
    rig.pool.close();
    assert!(matches!(rig.start_get(&app("x")).error(), GetError::Closed));
    assert!(matches!(rig.pool.try_get(&app("x")), Err(GetError::Closed)));
    assert!(matches!(rig.pool.try_checkout(&app("x")), Err(GetError::Closed)));
    assert!(matches!(rig.task(&app("x")).poll(), Some(Err(GetError::Closed))));
    rig.pool.set_max(10).expect("ten is a valid maximum");
    rig.clock.advance(1000 * SECOND);
    rig.pool.clean();
    let after = rig.pool.snapshot();
    assert_eq!((after.totals, after.count), (before.totals, 0));
    assert_eq!(rig.spawner.begun(), 1);
}

/// Its process is shut down by the spawner's thread, which holds no session, process or spawn then.
#[test] // E32
fn a_closed_pool_waits_for_the_end_of_a_newcomer_that_found_no_room() {
    let rig = Rig::new(|b| b.max(2));
    rig.idle(&app("x"), 1);
    rig.spawner.next(Spawn::ready().held());
    assert!(rig.pool.try_get(&app("y")).is_err(), "it orders a process");
    rig.await_spawns(2);
    rig.pool.set_max(1).expect("one is a valid maximum");
    let (gate, first) = (Gate::default(), AtomicBool::new(true));
    let theirs = gate.clone();
    rig.spawner.on_call(move |call| {
        if call == Call::ShutDown && first.swap(false, Ordering::SeqCst) {
            theirs.pass();
        }
    });
    rig.spawner.release();
    gate.await_arrivals(1);
    let closing = rig.start_close();
    before_long(|| rig.gone() == [2, 1]);
    assert!(!closing.is_finished(), "a process is being shut down");
    assert!(!rig.pool.wait_closed(Duration::ZERO));
    gate.open();
    soon(move || closing.join()).expect("closing does not panic");
    let pool = rig.pool.clone();
    assert!(soon(move || pool.wait_closed(SOON)));
}

#[test] // E32
fn closing_waits_until_the_spawns_have_ended() {
    let rig = Rig::new(|b| b);
    let gate = rig.gate_at(Call::Spawn);
    let getting = rig.start_get(&app("x"));
    gate.await_arrivals(1);
    let closing = rig.start_close();
    assert!(matches!(getting.error(), GetError::Closed));
    assert!(!closing.is_finished(), "the spawn has not ended");
    assert!(!rig.pool.wait_closed(Duration::ZERO));
    gate.open();
    let pool = rig.pool.clone();
    soon(move || closing.join()).expect("closing does not panic");
    assert!(soon(move || pool.wait_closed(SECOND)));
    assert_eq!(rig.spawner.shut_down(), [(1, ShutDown::Drained)], "the pool is closed");
}

/// One addition and one replacement: they would cancel out if one were subtracted from the other.
#[test] // E32
fn closing_waits_for_additions_and_for_replacements() {
    let rig = Rig::watching(|b| b);
    let rolling = app("x").with_restart_mode(RestartMode::Rolling);
    rig.idle(&rolling, 1);
    let gate = rig.gate_at(Call::Spawn);
    rig.touch(&rolling);
    rig.idle(&rolling, 1);
    let getting = rig.start_get(&app("y"));
    gate.await_arrivals(2);
    let closing = rig.start_close();
    assert!(matches!(getting.error(), GetError::Closed));
    // The idle process may still be shutting down at first.
    for _ in 0..1000 {
        assert!(!rig.pool.wait_closed(Duration::ZERO), "two spawns have not ended");
        std::thread::yield_now();
    }
    gate.open();
    soon(move || closing.join()).expect("closing does not panic");
}

/// The newcomer has left its spawn, whose group was detached meanwhile.
#[test] // E32
fn closing_waits_until_a_newcomer_without_room_is_shut_down() {
    let rig = Rig::new(|b| b);
    let (spawn, shut_down) = (Gate::default(), Gate::default());
    let held = (spawn.clone(), shut_down.clone());
    rig.spawner.on_call(move |call| match call {
        Call::Spawn => held.0.pass(),
        Call::ShutDown => held.1.pass(),
        _ => {}
    });
    assert!(rig.pool.try_get(&app("x")).is_err(), "it orders a process");
    spawn.await_arrivals(1);
    assert!(rig.pool.detach_group("/srv/x"));
    spawn.open();
    shut_down.await_arrivals(1);
    assert_eq!(rig.pool.snapshot().shutting_down, 1);
    let closing = rig.start_close();
    for _ in 0..1000 {
        assert!(!closing.is_finished(), "the newcomer is being shut down");
        std::thread::yield_now();
    }
    shut_down.open();
    soon(move || closing.join()).expect("closing does not panic");
    assert!(rig.pool.wait_closed(SECOND));
}

/// A process that was attached may be shut down for longer than a close takes.
#[test] // E32
fn closing_does_not_wait_until_other_processes_are_shut_down() {
    let rig = Rig::new(|b| b);
    rig.idle(&app("x"), 1);
    let gate = rig.gate_at(Call::ShutDown);
    let (pool, identifier) = (rig.pool.clone(), rig.group(&app("x")).processes[0].identifier);
    let detaching = std::thread::spawn(move || pool.detach(identifier));
    gate.await_arrivals(1);
    let pool = rig.pool.clone();
    soon(move || pool.close());
    gate.open();
    assert!(soon(move || detaching.join()).expect("detaching does not panic"));
}

#[test] // E32
fn the_end_of_a_pool_waits_until_its_processes_are_shut_down() {
    let rig = Rig::new(|b| b);
    rig.idle(&app("x"), 1);
    let gate = rig.gate_at(Call::ShutDown);
    let (pool, identifier) = (rig.pool.clone(), rig.group(&app("x")).processes[0].identifier);
    let detaching = std::thread::spawn(move || pool.detach(identifier));
    gate.await_arrivals(1);
    rig.pool.close();
    assert!(!rig.pool.wait_closed(Duration::ZERO), "one is being shut down");
    gate.open();
    assert!(soon(move || detaching.join()).expect("detaching does not panic"));
    assert!(rig.pool.wait_closed(SECOND));
}

/// The pseudocode gives no destructor; Passenger's joins its threads.
#[test] // E32
fn the_last_handle_closes_the_pool_and_the_others_do_not() {
    let rig = Rig::new(|b| b);
    let pids = rig.idle(&app("x"), 1);
    let busy = rig.get(&app("y"));
    let Rig { pool, spawner, .. } = rig;
    let (weak, other) = (pool.downgrade(), pool.clone());
    drop(pool);
    assert!(!other.snapshot().closed);
    drop(weak.upgrade().expect("there is a handle"));
    assert_eq!(spawner.shut_down(), []);
    drop(other);
    assert_eq!(spawner.shut_down(), [(pids[0], ShutDown::Drained)]);
    assert!(weak.upgrade().is_none());
    assert_eq!(busy.request("hello"), "hello from /srv/y");
    drop(busy);
    assert_eq!(spawner.shut_down().len(), 2);
}

#[test] // E32
fn the_last_handle_does_not_wait_for_a_spawn() {
    let rig = Rig::new(|b| b);
    rig.spawner.next(Spawn::hang());
    assert!(rig.pool.try_get(&app("x")).is_err());
    rig.await_spawns(1);
    let (pool, begun) = (rig.pool, rig.spawner.begun());
    soon(move || drop(pool));
    assert_eq!(begun, 1);
}

/// Waiting for the end of its own spawn would be waiting for itself.
#[test] // E32
fn a_spawner_may_close_its_pool() {
    let rig = Rig::new(|b| b);
    let (weak, closed) = (rig.pool.downgrade(), Arc::new(AtomicUsize::new(0)));
    let returned = closed.clone();
    rig.spawner.on_call(move |call| {
        if call == Call::Spawn
            && let Some(pool) = weak.upgrade()
        {
            pool.close();
            returned.fetch_add(1, Ordering::SeqCst);
        }
    });
    assert!(matches!(rig.start_get(&app("x")).error(), GetError::Closed));
    let pool = rig.pool.clone();
    assert!(soon(move || pool.wait_closed(SECOND)));
    assert_eq!(closed.load(Ordering::SeqCst), 1);
    assert_eq!(rig.spawner.shut_down(), [(1, ShutDown::Drained)]);
}

#[test] // E32
fn waiting_for_the_end_ends_at_its_deadline() {
    // Without a cleaner, which would end the session's drain in that time.
    let rig = Rig::without_cleaner(|b| b);
    let session = rig.get(&app("x"));
    rig.pool.close();
    let pool = rig.pool.clone();
    let waiting = std::thread::spawn(move || pool.wait_closed(5 * SECOND));
    // Move the clock until the other thread has begun to wait, and is past its deadline.
    let deadline = std::time::Instant::now() + SOON;
    while !waiting.is_finished() {
        assert!(std::time::Instant::now() < deadline, "the wait ends");
        rig.clock.advance(SECOND);
        std::thread::yield_now();
    }
    assert!(!waiting.join().expect("no panic"));
    drop(session);
}

/// A place that a closing process frees is not given to waiters.
#[test] // E32
fn closing_does_not_spawn() {
    let rig = Rig::new(|b| b.max(1));
    let busy = rig.get(&app("x"));
    let waiting: Vec<_> = (0..8).map(|n| rig.queue_get(&app(&format!("y{n}")))).collect();
    rig.pool.close();
    for getting in waiting {
        assert!(matches!(getting.error(), GetError::Closed));
    }
    assert_eq!(rig.spawner.begun(), 1);
    drop(busy);
}

/// Closing waits for the spawns; an open session does not prolong it.
#[test] // E32
fn closing_does_not_wait_for_sessions() {
    for _ in 0..10 {
        let rig = Rig::new(|b| b);
        let session = rig.get(&app("x"));
        let gate = rig.gate_at(Call::Spawn);
        let getting = rig.start_get(&app("y"));
        gate.await_arrivals(1);
        let closing = rig.start_close();
        assert!(matches!(getting.error(), GetError::Closed));
        gate.open();
        soon(move || closing.join()).expect("closing does not panic");
        assert!(!rig.pool.wait_closed(Duration::ZERO));
        drop(session);
    }
}

/// Neither the cleaner's thread nor another reference keeps a closed pool alive.
#[test] // E32
fn a_closed_pool_is_dropped_after_its_last_session() {
    struct Owned(InMemorySpawner, #[expect(dead_code, reason = "it is counted")] Arc<()>);
    impl Spawner for Owned {
        type Process = <InMemorySpawner as Spawner>::Process;
        fn spawn(&self, request: &SpawnRequest) -> Result<Self::Process, SpawnError> {
            self.0.spawn(request)
        }
    }
    for close_it in [true, false] {
        let owner = Arc::new(());
        // Time stands still, so no deadline can clean up.
        let clock = ManualClock::new();
        let spawner = Owned(InMemorySpawner::new(), owner.clone());
        let builder = ApplicationPool::builder(spawner).clock(clock.clock());
        let pool = builder.build().expect("a valid pool");
        let session = pool.get(&app("x")).expect("a session");
        if close_it {
            pool.close();
        }
        drop(pool);
        assert_eq!(session.request("hello"), "hello from /srv/x");
        drop(session);
        before_long(|| Arc::strong_count(&owner) == 1);
    }
}
