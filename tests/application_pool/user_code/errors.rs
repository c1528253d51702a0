//! Values that a spawner creates and the pool drops: errors, and hooks of cancelled spawns.

use crate::common::{self, SECOND, app, before_long, soon};
use crate::messages::Plain;
use crate::user_code::ON_PURPOSE;
use cabrank::ApplicationPool;
use cabrank::application_pool::{
    ConnectError, Process, ShutDown, SpawnError, SpawnRequest, Spawner, WeakPool,
};
use cabrank::in_memory::{InMemorySpawner, Spawn};
use std::error::Error;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// An error whose `Display` and `Drop` call the pool back. Both may panic.
#[derive(Debug)]
struct Bomb {
    pool: Arc<OnceLock<WeakPool<Bomber>>>,
    armed: Arc<AtomicBool>,
}

impl Bomb {
    fn go_off(&self) {
        if let Some(pool) = self.pool.get().and_then(WeakPool::upgrade) {
            let _ = (pool.counts(), pool.detach_group("/srv/other"));
        }
        assert!(!self.armed.load(Ordering::SeqCst), "{ON_PURPOSE}");
    }
}

impl fmt::Display for Bomb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.go_off();
        f.write_str("a bomb")
    }
}

impl Error for Bomb {}

impl Drop for Bomb {
    fn drop(&mut self) {
        self.go_off();
    }
}

/// Fails with a bomb until the test lets it spawn.
#[derive(Debug)]
struct Bomber {
    pool: Arc<OnceLock<WeakPool<Bomber>>>,
    armed: Arc<AtomicBool>,
    well: Arc<AtomicBool>,
}

impl Spawner for Bomber {
    type Process = Plain;
    fn spawn(&self, _: &SpawnRequest) -> Result<Plain, SpawnError> {
        if self.well.load(Ordering::SeqCst) {
            return Ok(Plain);
        }
        let bomb = Bomb { pool: self.pool.clone(), armed: self.armed.clone() };
        Err(SpawnError::new(Box::new(bomb) as Box<dyn Error + Send + Sync>))
    }
}

#[test]
fn an_error_may_call_the_pool_back_or_panic_when_it_is_dropped() {
    common::end_the_run_when_the_library_panics();
    let (armed, well) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let own: Arc<OnceLock<WeakPool<Bomber>>> = Arc::default();
    let bomber = Bomber { pool: own.clone(), armed: armed.clone(), well: well.clone() };
    let clock = cabrank::ManualClock::new();
    let builder = ApplicationPool::builder(bomber).clock(clock.clock()).cleaner(false);
    let pool = builder.build().expect("a valid pool");
    own.set(pool.downgrade()).expect("set once");
    // The get drops its own reference here, before the bomb is armed.
    let fails = |name: &'static str| {
        let pool = pool.clone();
        let outcome = soon(move || pool.get(&app(name)).err().map(drop));
        assert!(outcome.is_some());
    };
    for name in ["x", "y", "z"] {
        fails(name);
    }
    before_long(|| pool.counts().spawning == 0);
    assert_eq!(pool.snapshot().groups[0].last_error.as_deref(), Some("a bomb"));
    armed.store(true, Ordering::SeqCst);
    let theirs = pool.clone();
    soon(move || assert_eq!(theirs.snapshot().groups.len(), 3, "shown, and panicking"));
    // The error of X goes with its group, the error of Y with its success, the error of Z with the
    // pool.
    let theirs = pool.clone();
    assert!(soon(move || theirs.detach_group("/srv/x")));
    well.store(true, Ordering::SeqCst);
    clock.advance(100 * SECOND);
    let theirs = pool.clone();
    assert!(soon(move || theirs.get(&app("y")).is_ok()));
    assert_eq!(pool.counts().count, 1);
    soon(move || drop(pool));
}

/// A value that panics when it is dropped.
#[derive(Debug)]
struct PanicsWhenDropped;

impl Drop for PanicsWhenDropped {
    fn drop(&mut self) {
        panic!("{ON_PURPOSE} when it is dropped");
    }
}

impl fmt::Display for PanicsWhenDropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("panics when it is dropped")
    }
}

impl Error for PanicsWhenDropped {}

/// An earlier version failed here: the panic ended the spawner thread, which lost the group's next
/// order and its reservation. The group never spawned again.
#[test]
fn a_hook_that_panics_when_it_is_dropped_loses_no_spawn() {
    struct Hooked(InMemorySpawner);
    impl Spawner for Hooked {
        type Process = <InMemorySpawner as Spawner>::Process;
        fn spawn(&self, request: &SpawnRequest) -> Result<Self::Process, SpawnError> {
            for value in [PanicsWhenDropped, PanicsWhenDropped] {
                request.cancel().on_cancel(move || drop(value));
            }
            self.0.spawn(request)
        }
    }
    let spawner = InMemorySpawner::new();
    let pool = ApplicationPool::builder(Hooked(spawner.clone())).build().expect("a valid pool");
    let theirs = pool.clone();
    let x = app("x").with_min_processes(3);
    assert!(soon(move || theirs.get(&x).is_ok()));
    before_long(|| pool.counts().count == 3 && pool.counts().spawning == 0);
    // A cancelled spawn, too.
    spawner.next(Spawn::hang());
    assert!(pool.try_get(&app("y")).is_err());
    before_long(|| spawner.begun() == 4);
    let theirs = pool.clone();
    soon(move || theirs.close());
    assert!(soon(move || pool.wait_closed(common::SOON)));
}

/// An error of `connect` that the get does not return, and an error of a look-up.
#[test]
fn an_error_of_connect_or_of_a_look_up_may_panic_when_it_is_dropped() {
    struct Crashed(Arc<AtomicUsize>);
    impl Process for Crashed {
        type Connection = ();
        fn connect(&self) -> Result<(), ConnectError> {
            match self.0.fetch_add(1, Ordering::SeqCst) {
                // Further ones would be early deaths, after which the group backs off.
                0 => Err(ConnectError::process(PanicsWhenDropped)),
                _ => Ok(()),
            }
        }
        fn shut_down(&self, _: ShutDown) {}
    }
    struct Crashing(Arc<AtomicUsize>);
    impl Spawner for Crashing {
        type Process = Crashed;
        fn spawn(&self, _: &SpawnRequest) -> Result<Crashed, SpawnError> {
            Ok(Crashed(self.0.clone()))
        }
    }
    for asynchronously in [false, true] {
        let calls = Arc::new(AtomicUsize::new(0));
        let builder = ApplicationPool::builder(Crashing(calls.clone()));
        let builder = builder.restart_files(|_| Err(std::io::Error::other(PanicsWhenDropped)));
        let pool = builder.build().expect("a valid pool");
        let theirs = pool.clone();
        assert!(soon(move || match asynchronously {
            true => common::task::block_on(theirs.get_async(&app("x"))).is_ok(),
            false => theirs.get(&app("x")).is_ok(),
        }));
        assert_eq!(calls.load(Ordering::SeqCst), 2);
        before_long(|| pool.counts().count == 1);
    }
}

/// The pool has woken the task with an error, and the caller drops the task before polling it.
#[test]
fn an_error_granted_to_a_dropped_task_may_panic_when_it_is_dropped() {
    struct Failing(common::Gate);
    impl Spawner for Failing {
        type Process = Plain;
        fn spawn(&self, _: &SpawnRequest) -> Result<Plain, SpawnError> {
            self.0.pass();
            Err(SpawnError::new(PanicsWhenDropped))
        }
    }
    let gate = common::Gate::default();
    let builder = ApplicationPool::builder(Failing(gate.clone())).cleaner(false);
    let pool = builder.build().expect("a valid pool");
    let theirs = pool.clone();
    let mut task =
        common::task::Task::new(async move { theirs.get_async(&app("x")).await.map(drop) });
    assert!(task.poll().is_none());
    gate.open();
    before_long(|| task.wakes() == 1);
    // The pool drops its reference first, so the task has the last one.
    pool.detach_group("/srv/x");
    drop(task);
    assert_eq!(pool.counts().waiting, 0);
}

/// The spawner, the observer and the look-up belong to the pool, and end with it.
#[test]
fn spawner_observer_and_look_up_may_panic_when_they_are_dropped() {
    struct Fragile(Option<PanicsWhenDropped>);
    impl Spawner for Fragile {
        type Process = Plain;
        fn spawn(&self, _: &SpawnRequest) -> Result<Plain, SpawnError> {
            let _ = &self.0;
            Ok(Plain)
        }
    }
    let (observers, look_ups) = (PanicsWhenDropped, PanicsWhenDropped);
    let builder = ApplicationPool::builder(Fragile(Some(PanicsWhenDropped)))
        .cleaner(false)
        .observer(move |_| {
            let _ = &observers;
        })
        .restart_files(move |_| {
            let _ = &look_ups;
            Err(std::io::ErrorKind::NotFound.into())
        });
    let pool = builder.build().expect("a valid pool");
    drop(pool);
}

/// A hook of the token runs when the spawn is cancelled, on the cancelling thread.
#[test]
fn a_hook_of_a_cancelled_spawn_may_call_the_pool_back_or_panic() {
    struct Hooked(InMemorySpawner, Arc<OnceLock<WeakPool<Hooked>>>, Arc<AtomicUsize>);
    impl Spawner for Hooked {
        type Process = <InMemorySpawner as Spawner>::Process;
        fn spawn(&self, request: &SpawnRequest) -> Result<Self::Process, SpawnError> {
            let (own, calls) = (self.1.clone(), self.2.clone());
            request.cancel().on_cancel(move || {
                let pool = own.get().and_then(WeakPool::upgrade).expect("a handle is held");
                assert_eq!(pool.counts().waiting, 0);
                pool.detach_group("/srv/other");
                pool.close();
                calls.fetch_add(1, Ordering::SeqCst);
                panic!("{ON_PURPOSE}");
            });
            self.0.spawn(request)
        }
    }
    common::end_the_run_when_the_library_panics();
    let (spawner, own, calls) = (InMemorySpawner::new(), Arc::default(), Arc::default());
    let hooked = Hooked(spawner.clone(), Arc::clone(&own), Arc::clone(&calls));
    let pool = ApplicationPool::builder(hooked).build().expect("a valid pool");
    assert!(own.set(pool.downgrade()).is_ok());
    for name in ["x", "y"] {
        spawner.next(Spawn::hang());
        assert!(pool.try_get(&app(name)).is_err());
    }
    before_long(|| spawner.begun() == 2);
    let theirs = pool.clone();
    soon(move || theirs.close());
    assert!(soon(move || pool.wait_closed(common::SOON)));
    assert_eq!(calls.load(Ordering::SeqCst), 2);
}
