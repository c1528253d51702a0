//! Values that a spawner makes and the pool drops: errors, and hooks of spawns that are given up.

use crate::ON_PURPOSE;
use crate::common::{self, SECOND, app, before_long, soon};
use cabrank::in_memory::{InMemorySpawner, Spawn};
use cabrank::{ApplicationPool, ConnectError, Process, ShutDown, SpawnError};
use cabrank::{SpawnRequest, Spawner, WeakPool};
use std::error::Error;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// An error that calls the pool back when it is shown and when it is dropped, and may panic there.
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

/// Fails with a bomb, unless it is told to spawn.
#[derive(Debug)]
struct Bomber {
    pool: Arc<OnceLock<WeakPool<Bomber>>>,
    armed: Arc<AtomicBool>,
    well: Arc<AtomicBool>,
}

struct Plain;

impl Process for Plain {
    type Connection = ();
    fn connect(&self) -> Result<(), ConnectError> {
        Ok(())
    }
    fn shut_down(&self, _: ShutDown) {}
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
    let hands = cabrank::ManualClock::new();
    let builder = ApplicationPool::builder(bomber).clock(hands.clock()).cleaner(false);
    let pool = builder.build().expect("a valid pool");
    own.set(pool.downgrade()).expect("set once");
    // The reference that a get is given is the caller's, and dropped before the bomb is armed.
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
    // The error of X goes with its group, that of Y with its success, that of Z with the pool.
    let theirs = pool.clone();
    assert!(soon(move || theirs.detach_group("/srv/x")));
    well.store(true, Ordering::SeqCst);
    hands.advance(100 * SECOND);
    let theirs = pool.clone();
    assert!(soon(move || theirs.get(&app("y")).is_ok()));
    assert_eq!(pool.counts().count, 1);
    soon(move || drop(pool));
}

/// A hook of the token runs when the spawn is told to give up, on the thread that tells it.
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
