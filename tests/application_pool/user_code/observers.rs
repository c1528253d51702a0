//! The observer of events, and the look-up of restart files.

use crate::common::files::Files;
use crate::common::{self, Pool, app, soon};
use crate::user_code::{ON_PURPOSE, call_back};
use cabrank::ApplicationPool;
use cabrank::application_pool::{DetachReason, Event, GetError, WeakPool};
use cabrank::in_memory::{Call, InMemorySpawner, Spawn};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

/// Returns a pool whose observer is called with its handle.
fn observed(
    call: impl Fn(&Pool, &Event) + Send + Sync + 'static,
    max: usize,
) -> (Pool, InMemorySpawner) {
    common::end_the_run_when_the_library_panics();
    let spawner = InMemorySpawner::new();
    let own: Arc<OnceLock<WeakPool<InMemorySpawner>>> = Arc::default();
    let theirs = own.clone();
    let builder = ApplicationPool::builder(spawner.clone()).max(max).observer(move |event| {
        if let Some(pool) = theirs.get().and_then(WeakPool::upgrade) {
            call(&pool, event);
        }
    });
    let pool = builder.build().expect("a valid pool");
    own.set(pool.downgrade()).expect("set once");
    (pool, spawner)
}

#[test]
fn an_observer_may_call_the_pool_back() {
    let (calls, nested) = (Arc::new(AtomicUsize::new(0)), AtomicBool::new(false));
    let counted = calls.clone();
    let call = move |pool: &Pool, _: &Event| {
        if !nested.swap(true, Ordering::SeqCst) {
            call_back(pool);
            counted.fetch_add(1, Ordering::SeqCst);
            nested.store(false, Ordering::SeqCst);
        }
    };
    let (pool, spawner) = observed(call, 2);
    spawner.next(Spawn::fail("no database"));
    let theirs = pool.clone();
    soon(move || {
        // Events during another call are not counted, so repeat until there were enough.
        while calls.load(Ordering::SeqCst) < 3 {
            for name in ["x", "y", "z"] {
                drop(theirs.get(&app(name)));
            }
        }
        theirs.detach_group("/srv/x");
        theirs.close();
    });
}

/// The observer is called by the thread that has evicted a process, while the spawn in its place may be under way.
#[test]
fn a_get_in_the_observer_is_served_or_refused() {
    for name in ["x", "y", "z"] {
        let (sender, answers) = channel();
        let call = move |pool: &Pool, event: &Event| {
            if matches!(event, Event::Detached { reason: DetachReason::Evicted, .. }) {
                let _ = sender.send(pool.get(&app(name)).map(drop));
            }
        };
        let (pool, _) = observed(call, 1);
        let answer = soon(move || {
            drop(pool.get(&app("x")).expect("a session"));
            drop(pool.get(&app("y")).expect("a session"));
            answers.recv().expect("x was evicted")
        });
        assert!(matches!(answer, Ok(()) | Err(GetError::InCallback)), "{answer:?}");
    }
}

/// The totals and the events tell one story, whatever becomes of a process (INV-TOTALS).
#[test]
fn a_process_that_finds_no_room_is_reported_from_its_beginning_to_its_end() {
    let rig = common::Rig::new(|b| b.max(2));
    rig.idle(&app("x"), 1);
    rig.spawner.next(Spawn::ready().held());
    assert!(rig.pool.try_get(&app("y")).is_err(), "it orders a process");
    rig.await_spawns(2);
    rig.pool.set_max(1).expect("one is a valid maximum");
    rig.spawner.release();
    let spawned = || {
        rig.event(|event| match event {
            Event::Spawned { pid, .. } => *pid,
            Event::Detached { pid, .. } => panic!("{pid:?} ends before it begins"),
            _ => None,
        })
    };
    assert_eq!([spawned(), spawned()], [1, 2]);
    assert_eq!(rig.next_detached(), (2, DetachReason::Unwanted));
    let totals = rig.pool.snapshot().totals;
    assert_eq!((totals.spawned, totals.detached, totals.unwanted), (2, 1, 1));
}

#[test]
fn a_process_is_reported_to_end_after_its_beginning_was() {
    let log: Arc<Mutex<Vec<&str>>> = Arc::default();
    let (gate, theirs) = (common::Gate::default(), log.clone());
    let held = gate.clone();
    let (pool, _) = observed(
        move |_, event| match event {
            Event::Spawned { .. } => {
                held.pass();
                theirs.lock().expect("no panic").push("spawned");
            }
            Event::Detached { .. } => theirs.lock().expect("no panic").push("detached"),
            _ => {}
        },
        1,
    );
    assert!(pool.try_get(&app("x")).is_err(), "it orders a process");
    gate.await_arrivals(1);
    assert!(pool.detach_group("/srv/x"));
    assert_eq!(pool.counts().count, 0);
    assert!(log.lock().expect("no panic").is_empty());
    gate.open();
    common::before_long(|| log.lock().expect("no panic").len() == 2);
    assert_eq!(*log.lock().expect("no panic"), ["spawned", "detached"]);
}

/// The close cannot wait for work that its own thread has yet to do: here the shut-down of the process that it has
/// evicted. The spawn in its place has begun, and hangs.
#[test]
fn an_observer_may_close_the_pool() {
    let (pool, spawner) = observed(
        |pool, event| {
            if matches!(event, Event::Detached { .. }) {
                pool.close();
            }
        },
        1,
    );
    drop(pool.get(&app("x")).expect("a session"));
    spawner.next(Spawn::ready().held());
    let theirs = pool.clone();
    let evicts = soon(move || theirs.get(&app("y")).err());
    assert!(matches!(evicts, Some(GetError::Closed)), "{evicts:?}");
    spawner.release();
    let theirs = pool.clone();
    assert!(soon(move || theirs.wait_closed(common::SOON)));
}

/// The observer runs within the work that the pool waits for.
#[test]
fn a_wait_for_the_end_within_the_observer_does_not_wait_for_itself() {
    let (said, answers) = channel();
    let said = Mutex::new(said);
    let (pool, _spawner) = observed(
        move |pool, event| {
            if matches!(event, Event::Detached { .. }) {
                let ended = pool.wait_closed(Duration::from_secs(3600));
                said.lock().expect("no panic").send(ended).expect("it is waited for");
            }
        },
        2,
    );
    // While a session is open, the pool has not ended, whatever the cleaner has done.
    let open = pool.get(&app("y")).expect("a session");
    drop(pool.get(&app("x")).expect("a session"));
    let theirs = pool.clone();
    soon(move || theirs.close());
    assert_eq!(answers.recv_timeout(common::SOON), Ok(false));
    drop(open);
    assert!(soon(move || pool.wait_closed(common::SOON)));
}

/// The get reports its wait on its own thread, after its turn. The observer may close the pool there
/// too.
#[test]
fn an_observer_of_a_wait_may_close_the_pool() {
    let call = |pool: &Pool, event: &Event| {
        if matches!(event, Event::Waited { .. }) {
            pool.close();
        }
    };
    let (pool, spawner) = observed(call, 2);
    let (begin, begun) = channel();
    let (end, ended) = channel::<()>();
    // Only the first spawn waits here. It ignores its cancellation until the test releases it.
    let gate = Mutex::new(Some((begin, ended)));
    spawner.on_call(move |call| {
        let first = if call == Call::Spawn { gate.lock().expect("no panic").take() } else { None };
        if let Some((begin, ended)) = first {
            begin.send(()).expect("it is waited for");
            let _ = ended.recv();
        }
    });
    assert!(matches!(pool.try_get(&app("slow")), Err(GetError::WouldBlock)));
    begun.recv_timeout(common::SOON).expect("a spawn in flight");
    let theirs = pool.clone();
    let session = soon(move || theirs.get(&app("x"))).expect("served before the pool was closed");
    let counts = pool.counts();
    assert_eq!((pool.snapshot().closed, counts.spawning), (true, 1), "it has not been waited for");
    end.send(()).expect("it is waited for");
    drop(session);
    assert!(soon(move || pool.wait_closed(common::SOON)));
}

#[test]
fn a_panicking_observer_is_contained() {
    let (pool, spawner) = observed(|_, event| panic!("{ON_PURPOSE} at {event:?}"), 1);
    spawner.next(Spawn::fail("no database"));
    let theirs = pool.clone();
    soon(move || {
        assert!(matches!(theirs.get(&app("broken")), Err(GetError::Spawn(_))));
        drop(theirs.get(&app("x")).expect("a session"));
        drop(theirs.get(&app("y")).expect("a session"));
    });
    assert_eq!((pool.counts().count, pool.counts().active), (1, 0));
    let theirs = pool.clone();
    soon(move || theirs.close());
}

#[test]
fn a_look_up_may_call_the_pool_back_or_panic() {
    common::end_the_run_when_the_library_panics();
    let own: Arc<OnceLock<WeakPool<InMemorySpawner>>> = Arc::default();
    let (theirs, nested) = (own.clone(), AtomicBool::new(false));
    let (panics, calls) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let (panicked, counted) = (panics.clone(), calls.clone());
    let builder = ApplicationPool::builder(InMemorySpawner::new()).restart_files(move |_| {
        if let Some(pool) = theirs.get().and_then(WeakPool::upgrade)
            && !nested.swap(true, Ordering::SeqCst)
        {
            call_back(&pool);
            counted.fetch_add(1, Ordering::SeqCst);
            nested.store(false, Ordering::SeqCst);
        }
        assert!(!panicked.load(Ordering::SeqCst), "{ON_PURPOSE}");
        Err(io::ErrorKind::NotFound.into())
    });
    let pool = builder.build().expect("a valid pool");
    own.set(pool.downgrade()).expect("set once");
    for panicking in [false, true, false] {
        panics.store(panicking, Ordering::SeqCst);
        let theirs = pool.clone();
        let pid = soon(move || theirs.get(&app("x")).map(|session| session.pid()));
        assert!(pid.is_ok());
    }
    assert_eq!(calls.load(Ordering::SeqCst), 6);
    let groups = pool.snapshot().groups;
    let x = groups.iter().find(|group| group.name == "/srv/x").expect("it was asked for");
    assert_eq!(
        (x.generation, x.processes.len()),
        (0, 1),
        "a failing look-up is no reason to restart"
    );
}

/// A restart file that changes while it is looked at.
#[test]
fn a_look_up_may_see_the_file_change_again_and_again() {
    let files = Files::default();
    let (look, again) = (files.look_up(), files.clone());
    let spawner = InMemorySpawner::new();
    let builder = ApplicationPool::builder(spawner.clone()).restart_files(move |path| {
        again.touch(path);
        look(path)
    });
    let pool = builder.build().expect("a valid pool");
    let theirs = pool.clone();
    let served = soon(move || (0..5).filter(|_| theirs.get(&app("x")).is_ok()).count());
    assert_eq!(served, 5);
}
