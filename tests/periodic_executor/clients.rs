//! Executors of one client and of one process: the rest of PyMongo's suite, close-on-drop guards,
//! and one shutdown for all.

use crate::both::{SECOND, gate};
use crate::by_hand::{Keeps, pending_once};
use crate::common::task::{Task, block_on};
use crate::common::{Gate, before_long, soon};
use cabrank::periodic_executor::{JoinError, Joined, OpenError, Phase, Registry};
use cabrank::{AsyncPeriodicExecutor, ManualClock, PeriodicExecutor};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

/// A client with four executors, as in PyMongo: three monitors and the killer of cursors.
struct Client {
    executors: Vec<PeriodicExecutor>,
}

impl Client {
    fn new(registry: &Registry) -> Arc<Client> {
        Arc::new_cyclic(|me: &Weak<Client>| {
            let executor = |n| {
                let builder = PeriodicExecutor::builder(None).registry(registry);
                builder.name(&format!("monitor {n}")).build_weak(me.clone(), |_| ())
            };
            Client { executors: (0..4).map(executor).collect() }
        })
    }
    fn open(&self) -> Result<(), OpenError> {
        self.executors.iter().try_for_each(PeriodicExecutor::open)
    }
}

#[test]
fn dropping_the_client_stops_and_unregisters_its_executors() {
    let registry = Registry::new();
    let client = Client::new(&registry);
    client.open().expect("threads");
    assert_eq!(registry.len(), 4);
    drop(client);
    before_long(|| registry.is_empty());
}

#[test]
fn close_on_drop_stops_them_though_there_are_other_handles() {
    struct Owner(OnceLock<cabrank::periodic_executor::CloseOnDrop>);
    let owner = Arc::new(Owner(OnceLock::new()));
    let builder = PeriodicExecutor::builder(None).unregistered();
    let executor = builder.build_weak(Arc::downgrade(&owner), |_| ());
    assert!(owner.0.set(executor.close_on_drop()).is_ok());
    executor.open().expect("a thread");
    drop(owner);
    let theirs = executor.clone();
    let joined = soon(move || theirs.join()).expect("no panic");
    assert!(matches!(joined, Joined::Closed | Joined::TargetGone), "{joined:?}");
    executor.open().expect("a thread");
    let theirs = executor.clone();
    assert_eq!(soon(move || theirs.join()), Ok(Joined::TargetGone), "it stays gone");
}

#[test]
fn without_close_on_drop_the_end_of_a_target_is_noticed_at_the_next_call() {
    let clock = ManualClock::new();
    let target = Arc::new(());
    let calls = Arc::new(AtomicUsize::new(0));
    let executor = {
        let calls = calls.clone();
        PeriodicExecutor::builder(SECOND).clock(clock.clock()).unregistered().build_weak(
            Arc::downgrade(&target),
            move |()| {
                calls.fetch_add(1, SeqCst);
            },
        )
    };
    executor.open().expect("a thread");
    before_long(|| executor.phase() == Phase::Asleep);
    drop(target);
    assert_eq!(executor.join_timeout(Duration::ZERO), Err(JoinError::TimedOut));
    clock.advance(SECOND);
    assert_eq!(soon(move || executor.join()), Ok(Joined::TargetGone));
    assert_eq!(calls.load(SeqCst), 1);
}

/// The call holds the last reference. Its end drops the target, and the executor does not sleep once more.
#[test]
fn a_target_that_loses_its_owner_during_a_call_ends_the_run_with_the_call() {
    let (gate, owner) = (Gate::default(), Arc::new(()));
    let theirs = gate.clone();
    let builder = PeriodicExecutor::builder(None).unregistered();
    let executor = builder.build_weak(Arc::downgrade(&owner), move |()| theirs.pass());
    executor.open().expect("a thread");
    gate.await_arrivals(1);
    drop(owner);
    gate.open();
    assert_eq!(soon(move || executor.join()), Ok(Joined::TargetGone));
}

#[test]
fn a_tasks_target_that_loses_its_owner_during_a_call_ends_the_run_with_the_call() {
    let (runtime, owner) = (Keeps::default(), Arc::new(()));
    let builder = AsyncPeriodicExecutor::builder(None, runtime.clone()).unregistered();
    let executor = builder.build_weak(Arc::downgrade(&owner), |target| async move {
        pending_once().await;
        drop(target);
    });
    executor.open().expect("a task");
    let mut task = Task::new(runtime.take());
    assert!(task.poll().is_none());
    drop(owner);
    assert_eq!(task.poll(), Some(()), "it is in the call");
    assert_eq!(soon(move || block_on(executor.join())), Ok(Joined::TargetGone));
}

#[test]
fn closing_the_client_stops_its_executors() {
    let registry = Registry::new();
    let client = Client::new(&registry);
    client.open().expect("threads");
    client.executors.iter().for_each(PeriodicExecutor::close);
    for executor in &client.executors {
        let executor = executor.clone();
        assert_eq!(soon(move || executor.join()), Ok(Joined::Closed));
    }
    assert!(registry.is_empty());
}

#[test]
fn a_client_that_is_made_after_the_shutdown_is_refused_quietly() {
    let registry = Registry::new();
    registry.shutdown(SECOND).expect("the registry is empty");
    let client = Client::new(&registry);
    assert!(matches!(client.open(), Err(OpenError::ShutDown)));
    assert_eq!(client.executors[0].join(), Ok(Joined::NeverOpened));
    assert_eq!(client.executors[0].phase(), Phase::Stopped);
    assert!(registry.is_empty());
}

#[test]
fn one_shutdown_ends_all_and_names_the_late_ones() {
    let clock = ManualClock::new();
    let registry = Registry::with_clock(clock.clock());
    let ((entered, inside), (go, gone)) = (gate(), gate());
    let gone = Arc::new(Mutex::new(gone));
    let build = |name: &str, target: Box<dyn FnMut() + Send>| {
        let builder = PeriodicExecutor::builder(None).clock(clock.clock());
        builder.name(name).registry(&registry).build(target)
    };
    let stuck = |name: &str| {
        let (entered, gone) = (entered.clone(), gone.clone());
        build(
            name,
            Box::new(move || {
                entered.send(()).expect("the test waits");
                let _ = gone.lock().expect("no panic").recv();
            }),
        )
    };
    let executors = [stuck("one"), stuck("two"), build("three", Box::new(|| ()))];
    for executor in &executors {
        executor.open().expect("a thread");
    }
    (0..2).for_each(|_| inside.recv().expect("both are called"));
    let theirs = registry.clone();
    let shutting = std::thread::spawn(move || theirs.shutdown(5 * SECOND));
    // All share one deadline: five seconds are enough, whenever they begin.
    before_long(|| executors[2].phase() == Phase::Stopped);
    before_long(|| {
        clock.advance(5 * SECOND);
        shutting.is_finished()
    });
    let error = shutting.join().expect("no panic").expect_err("two are late");
    assert_eq!(error.to_string(), "not stopped in time: one, two");
    assert_eq!(error.late().iter().map(|name| &**name).collect::<Vec<_>>(), ["one", "two"]);
    assert_eq!(registry.len(), 2);
    // The late ones are closed too.
    drop(go);
    for executor in executors {
        assert_eq!(soon(move || executor.join()), Ok(Joined::Closed));
    }
    assert!(registry.is_empty());
}
