//! The spawner and its processes.

use crate::common::{Gate, Rig, SECOND, app, before_long, eager, soon};
use crate::user_code::{ON_PURPOSE, assert_usable, call_back};
use cabrank::application_pool::{
    ConnectError, GetError, Process, ShutDown, SpawnError, SpawnRequest, Spawner,
};
use cabrank::in_memory::{Call, Spawn};
use cabrank::{ApplicationPool, Session};
use std::collections::HashSet;
use std::error::Error;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

const CALLS: [Call; 6] = [
    Call::Spawn,
    Call::Reload,
    Call::Connect,
    Call::ShutDown,
    Call::DropProcess,
    Call::DropConnection,
];

/// Makes the pool call every method of a spawner and of a process.
fn make_every_call(rig: &Rig) {
    let x = app("x");
    drop(rig.start_get(&x).end());
    rig.touch(&x);
    drop(rig.start_get(&x).end());
    if let Ok(session) = rig.start_get(&x).end() {
        rig.pool.detach(Session::identifier(&session));
        drop(session);
    }
    rig.pool.detach_group("/srv/x");
    rig.eventually(|c| c.spawning == 0 && c.waiting == 0);
}

/// The place of the process is free from the moment that its last session has ended.
#[test]
fn a_slow_shut_down_delays_no_waiter_and_no_spawn() {
    let rig = Rig::new(|b| b.max(1).max_draining(0));
    let x = app("x");
    let session = rig.get(&x);
    let waiting = rig.queue_get(&x);
    rig.pool.detach(Session::identifier(&session));
    let gate = rig.gate_at(Call::ShutDown);
    let ending = std::thread::spawn(move || drop(session));
    let next = waiting.session();
    assert!(!ending.is_finished(), "the first process is still being shut down");
    gate.open();
    ending.join().expect("no panic");
    drop(next);
}

/// The next borrower of the process finds the former connection gone.
#[test]
fn a_connection_is_dropped_before_its_session_is_closed() {
    let rig = Rig::watching(|b| b);
    let active = Arc::new(Mutex::new(Vec::new()));
    let (weak, sees) = (rig.pool.downgrade(), active.clone());
    rig.spawner.on_call(move |call| {
        if call == Call::DropConnection
            && let Some(pool) = weak.upgrade()
        {
            sees.lock().expect("no panic here").push(pool.counts().active);
        }
    });
    let session = rig.get(&app("x"));
    drop(session);
    assert_eq!(rig.counts(), (0, 1));
    Session::fail(rig.get(&app("x")));
    assert_eq!(rig.counts(), (0, 0));
    assert_eq!(*active.lock().expect("no panic here"), [1, 1]);
}

#[test]
fn every_call_to_a_spawner_and_its_processes_may_call_the_pool_back() {
    let rig = Rig::watching(|b| b);
    let (weak, seen) = (rig.pool.downgrade(), Arc::new(Mutex::new(HashSet::new())));
    let theirs = seen.clone();
    // A call back causes further calls, which must not call back in turn.
    let nested = AtomicUsize::new(0);
    rig.spawner.on_call(move |call| {
        if nested.fetch_add(1, Ordering::SeqCst) == 0
            && let Some(pool) = weak.upgrade()
        {
            call_back(&pool);
            theirs.lock().expect("no panic here").insert(call);
        }
        nested.fetch_sub(1, Ordering::SeqCst);
    });
    before_long(|| {
        make_every_call(&rig);
        let seen = seen.lock().expect("no panic here");
        CALLS.iter().all(|call| seen.contains(call))
    });
    rig.spawner.on_call(|_| {});
    rig.pool.detach_group("/srv/other");
    assert_usable(&rig);
}

/// The thread of the call may be the one that has to start the spawn for which the get waits.
#[test]
fn a_get_in_a_call_of_the_pool_is_served_or_refused() {
    for during in [Call::Spawn, Call::ShutDown, Call::DropProcess] {
        for name in ["x", "y", "z"] {
            let rig = Rig::watching(|b| b.max(1));
            rig.idle(&app("x"), 1);
            let (answers, weak) = (Arc::new(Mutex::new(Vec::new())), rig.pool.downgrade());
            let (theirs, calls) = (answers.clone(), AtomicUsize::new(0));
            rig.spawner.on_call(move |call| {
                if call == during
                    && calls.fetch_add(1, Ordering::SeqCst) == 0
                    && let Some(pool) = weak.upgrade()
                {
                    let answer = pool.get(&app(name)).map(|session| session.pid());
                    theirs.lock().expect("no panic here").push(answer);
                }
            });
            drop(rig.get(&app("y")));
            before_long(|| !answers.lock().expect("no panic here").is_empty());
            for answer in answers.lock().expect("no panic here").iter() {
                assert!(matches!(answer, Ok(_) | Err(GetError::InCallback)), "{answer:?}");
            }
            assert_usable(&rig);
        }
    }
}

#[test]
fn a_slow_drop_of_a_process_holds_up_no_other_caller() {
    let rig = Rig::watching(|b| b.max(2).max_idle_time(10 * SECOND));
    rig.idle(&app("x"), 2);
    let gate = rig.gate_at(Call::DropProcess);
    // An eviction, the spawn that it makes room for, and the end of a drain.
    let session = rig.get(&app("y"));
    gate.await_arrivals(1);
    rig.pool.detach(Session::identifier(&session));
    soon(move || drop(session));
    gate.await_arrivals(2);
    // The cleaner.
    drop(rig.get(&app("z")));
    rig.clock.advance(10 * SECOND);
    gate.await_arrivals(4);
    let pool = rig.pool.clone();
    soon(move || pool.close());
    let pool = rig.pool.clone();
    assert!(soon(move || pool.wait_closed(SECOND)));
    gate.open();
}

#[test]
fn a_process_may_detach_itself_and_its_group_whenever_it_is_called() {
    let calls = [Call::Connect, Call::ShutDown, Call::DropProcess, Call::DropConnection];
    for during in calls {
        let rig = Rig::watching(|b| b);
        let weak = rig.pool.downgrade();
        rig.spawner.on_call(move |call| {
            if call == during
                && let Some(pool) = weak.upgrade()
            {
                for process in pool.snapshot().groups.iter().flat_map(|g| &g.processes) {
                    pool.detach(process.identifier);
                }
                pool.detach_group("/srv/x");
            }
        });
        make_every_call(&rig);
        assert_usable(&rig);
    }
}

#[test]
fn a_panic_in_any_call_to_a_spawner_or_process_is_contained() {
    for during in CALLS {
        let rig = Rig::watching(|b| b);
        let times = Arc::new(AtomicUsize::new(0));
        let counted = times.clone();
        rig.spawner.on_call(move |call| {
            if call == during {
                counted.fetch_add(1, Ordering::SeqCst);
                panic!("{ON_PURPOSE} in {call:?}");
            }
        });
        make_every_call(&rig);
        // Another thread may hold the last reference to a process, and drop it later.
        before_long(|| times.load(Ordering::SeqCst) > 0);
        rig.eventually(|counts| (counts.active, counts.draining) == (0, 0));
        assert_usable(&rig);
    }
}

/// One after the other, so that the second is not a panic while unwinding.
#[test]
fn a_process_that_panics_in_shut_down_and_when_it_is_dropped_is_contained() {
    let rig = Rig::watching(|b| b);
    rig.spawner.on_call(|call| {
        if matches!(call, Call::ShutDown | Call::DropProcess) {
            panic!("{ON_PURPOSE} in {call:?}");
        }
    });
    rig.idle(&app("x"), 2);
    assert!(rig.pool.detach_group("/srv/x"));
    // The session may hold the last reference.
    let session = rig.get(&app("x"));
    rig.pool.detach(Session::identifier(&session));
    drop(session);
    assert_usable(&rig);
}

/// The same, for a process whose spawn was cancelled meanwhile.
#[test]
fn an_unwanted_process_may_panic_twice_as_well() {
    let rig = Rig::watching(|b| b);
    let gate = Gate::default();
    let theirs = gate.clone();
    rig.spawner.on_call(move |call| match call {
        Call::Spawn => theirs.pass(),
        Call::ShutDown | Call::DropProcess => panic!("{ON_PURPOSE} in {call:?}"),
        _ => {}
    });
    assert!(rig.pool.try_get(&app("x")).is_err());
    gate.await_arrivals(1);
    rig.pool.detach_group("/srv/x");
    gate.open();
    rig.until(|| rig.gone() == [1] && rig.spawner.processes().is_empty());
    assert_usable(&rig);
}

/// The process is alive, and only the pool can shut it down.
#[test]
fn a_process_that_panics_when_it_is_asked_of_itself_is_shut_down() {
    #[derive(Clone, Copy, PartialEq)]
    enum During {
        Concurrency,
        Pid,
    }
    struct Shy(During, Arc<AtomicUsize>);
    impl Process for Shy {
        type Connection = ();
        fn connect(&self) -> Result<(), ConnectError> {
            Ok(())
        }
        fn concurrency(&self) -> Option<NonZeroUsize> {
            assert!(self.0 != During::Concurrency, "{ON_PURPOSE}");
            Some(NonZeroUsize::MIN)
        }
        fn pid(&self) -> Option<u32> {
            assert!(self.0 != During::Pid, "{ON_PURPOSE}");
            None
        }
        fn shut_down(&self, _: ShutDown) {
            self.1.fetch_add(1, Ordering::SeqCst);
        }
    }
    struct Shies(During, Arc<AtomicUsize>);
    impl Spawner for Shies {
        type Process = Shy;
        fn spawn(&self, _: &SpawnRequest) -> Result<Shy, SpawnError> {
            Ok(Shy(self.0, self.1.clone()))
        }
    }
    for during in [During::Concurrency, During::Pid] {
        let shut_down = Arc::new(AtomicUsize::new(0));
        let pool = ApplicationPool::builder(Shies(during, shut_down.clone())).build();
        let pool = pool.expect("a valid pool");
        let theirs = pool.clone();
        let error = soon(move || theirs.get(&app("x")).map(drop).expect_err("no process"));
        let why = error.source().map(ToString::to_string).unwrap_or_default();
        assert!(why.contains(ON_PURPOSE), "{why}");
        assert_eq!(shut_down.load(Ordering::SeqCst), 1);
        soon(move || pool.close());
    }
}

#[test]
fn a_process_may_close_the_pool_while_it_is_shut_down() {
    let rig = Rig::watching(|b| b);
    let weak = rig.pool.downgrade();
    rig.spawner.on_call(move |call| {
        if call == Call::ShutDown
            && let Some(pool) = weak.upgrade()
        {
            pool.close();
        }
    });
    // Idle while another spawns: the spawn is cancelled after the process has been shut down.
    rig.spawner.next(Spawn::ready().concurrency(None));
    rig.spawner.next(Spawn::hang());
    drop((rig.get(&eager("x")), rig.get(&eager("x"))));
    rig.eventually(|c| c.spawning == 1);
    let pool = rig.pool.clone();
    assert!(soon(move || pool.detach_group("/srv/x")));
    let pool = rig.pool.clone();
    assert!(soon(move || {
        pool.close();
        pool.counts().spawning == 0
    }));
}
