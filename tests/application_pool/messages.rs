//! The words of errors and reasons, the causes behind them, and the methods that a spawner need not
//! implement.

use cabrank::application_pool::{
    BuildError, CancelToken, ConnectError, DetachReason, GetError, Process, ShutDown, SpawnError,
    SpawnRequest, Spawner,
};
use cabrank::periodic_executor::OpenError;
use cabrank::{ApplicationPool, PoolOptions};
use std::error::Error;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// An error with a cause.
#[derive(Debug)]
struct Broken(io::Error);

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("it is broken")
    }
}

impl Error for Broken {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.0)
    }
}

fn broken() -> Broken {
    Broken(io::Error::from(io::ErrorKind::NotFound))
}

/// Returns an error and its causes, as a report prints them.
fn chain(error: &dyn Error) -> Vec<String> {
    let causes = std::iter::successors(error.source(), |&cause| cause.source());
    std::iter::once(error.to_string()).chain(causes.map(ToString::to_string)).collect()
}

#[test]
fn an_error_names_the_event_and_its_causes() {
    let not_found = broken().0.to_string();
    let spawn = SpawnError::new(broken());
    assert_eq!(chain(&spawn), ["it is broken", &not_found]);
    assert!(spawn.cause().downcast_ref::<Broken>().is_some());
    let get = GetError::Spawn(spawn);
    assert_eq!(chain(&get), ["no process could be spawned", "it is broken", &not_found]);

    let connect = ConnectError::process(broken());
    assert_eq!(chain(&connect), ["it is broken", &not_found]);
    assert!(connect.cause().downcast_ref::<Broken>().is_some());
    let get = GetError::Connect(connect);
    assert_eq!(chain(&get), ["no connection could be opened", "it is broken", &not_found]);

    for (error, words) in [
        (GetError::Closed, "the pool is closed"),
        (
            GetError::QueueFull { max_queue: 7 },
            "the queue is full: 7 gets wait for this group already",
        ),
        (
            GetError::QueuedTooLong,
            "no process was free within the time that a get of this group may wait",
        ),
        (GetError::TimedOut, "no process was free before the deadline"),
        (GetError::WouldBlock, "no process is free now"),
    ] {
        assert_eq!(chain(&error), [words]);
    }
}

#[test]
fn a_build_error_names_the_option_and_keeps_its_source() {
    let error =
        ApplicationPool::builder(Patient::default()).max(0).build().expect_err("max 0 is refused");
    assert_eq!(chain(&error), ["max must not be zero"]);
    let error = BuildError::Cleaner(OpenError::NotStarted(
        Box::<dyn std::error::Error + Send + Sync>::from("no memory").into(),
    ));
    assert_eq!(
        chain(&error),
        ["the pool has no cleaner", "the executor could not be started", "no memory"]
    );
}

#[test]
fn each_reason_of_a_detach_has_words_of_its_own() {
    use DetachReason::{Closed, Evicted, Failed, Idle, MaxRequests, Requested, Restarted};
    let all = [Requested, Failed, Idle, Evicted, MaxRequests, Restarted, Closed];
    let words: std::collections::HashSet<String> = all.iter().map(ToString::to_string).collect();
    assert_eq!(words.len(), all.len());
    assert!(words.iter().all(|words| !words.is_empty()));
}

/// A process that implements only the required methods.
pub(crate) struct Plain;

impl Process for Plain {
    type Connection = ();
    fn connect(&self) -> Result<(), ConnectError> {
        Ok(())
    }
    fn shut_down(&self, _: ShutDown) {}
}

/// Spawns at once for `/srv/ready`. For every other application it waits until the spawn is
/// cancelled.
#[derive(Default)]
struct Patient {
    begun: Arc<AtomicBool>,
    cancelled: Arc<AtomicBool>,
}

impl Spawner for Patient {
    type Process = Plain;
    fn spawn(&self, request: &SpawnRequest) -> Result<Plain, SpawnError> {
        if request.options().app_root() == "/srv/ready" {
            return Ok(Plain);
        }
        self.begun.store(true, Ordering::SeqCst);
        let token: &CancelToken = request.cancel();
        token.wait();
        self.cancelled.store(token.is_cancelled(), Ordering::SeqCst);
        Err(SpawnError::new("given up"))
    }
}

#[test]
fn a_process_takes_one_session_and_has_no_number_by_default() {
    let pool = ApplicationPool::builder(Patient::default()).max(1).build().expect("a valid pool");
    let options = PoolOptions::new("/srv/ready");
    let _session = pool.get(&options).expect("a session");
    assert_eq!(pool.counts().active, 1);
    assert_eq!(pool.snapshot().groups[0].processes[0].pid, None);
    assert!(matches!(pool.try_get(&options), Err(GetError::WouldBlock)), "it is busy");
}

#[test]
fn a_spawner_may_wait_for_its_cancellation() {
    let spawner = Patient::default();
    let (begun, cancelled) = (spawner.begun.clone(), spawner.cancelled.clone());
    let pool = ApplicationPool::builder(spawner).build().expect("a valid pool");
    assert!(matches!(pool.try_get(&PoolOptions::new("/srv/slow")), Err(GetError::WouldBlock)));
    while !begun.load(Ordering::SeqCst) {
        std::thread::yield_now();
    }
    pool.close(); // cancels the spawn, and waits for it
    assert!(cancelled.load(Ordering::SeqCst), "the spawn saw its cancellation");
}
