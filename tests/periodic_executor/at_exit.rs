//! The guard that shuts down at the end of `main`: it shuts down once, in each way out.

use crate::both::SECOND;
use crate::common::{Gate, before_long, soon};
use cabrank::periodic_executor::{Joined, OpenError, Registry, ShutdownAtExit};
use cabrank::{ManualClock, PeriodicExecutor};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;

/// A registry with an executor whose call passes the gate, and a guard that reports to the receiver.
struct Rig {
    clock: ManualClock,
    registry: Registry,
    gate: Gate,
    executor: PeriodicExecutor,
    reports: Receiver<String>,
}

impl Rig {
    fn new() -> (Rig, ShutdownAtExit) {
        let (clock, gate) = (ManualClock::new(), Gate::default());
        let registry = Registry::with_clock(clock.clock());
        let theirs = gate.clone();
        let builder = PeriodicExecutor::builder(None).clock(clock.clock()).name("busy");
        let executor = builder.registry(&registry).build(move || theirs.pass());
        executor.open().expect("a thread");
        gate.await_arrivals(1);
        let (report, reports) = channel();
        let guard = ShutdownAtExit::of(&registry, 5 * SECOND)
            .report(move |late| report.send(late.to_string()).expect("the test waits"));
        (Rig { clock, registry, gate, executor, reports }, guard)
    }
    /// Runs `end` on a thread, and returns once it has closed the executor.
    fn begin<T: Send + 'static>(&self, end: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        let thread = std::thread::spawn(end);
        before_long(|| !self.executor.is_open());
        assert!(matches!(self.executor.open(), Err(OpenError::ShutDown)));
        thread
    }
    /// Lets all the time of one shutdown pass, and returns the thread's result.
    fn run_out<T>(&self, thread: JoinHandle<T>) -> T {
        self.clock.advance(5 * SECOND);
        before_long(|| thread.is_finished());
        thread.join().expect("no panic")
    }
    /// Lets the call end, and asserts that the guard reports these and no others.
    #[track_caller]
    fn has_reported(self, expected: &[&str]) {
        self.gate.open();
        let executor = self.executor;
        assert_eq!(soon(move || executor.join()), Ok(Joined::Closed));
        assert_eq!(self.reports.iter().collect::<Vec<_>>(), expected);
        assert!(self.registry.is_empty());
    }
}

const LATE: &str = "not stopped in time: busy";

#[test]
fn a_drop_waits_for_one_limit_and_reports_the_late_ones_once() {
    let (rig, guard) = Rig::new();
    let thread = rig.begin(move || drop(guard));
    rig.run_out(thread);
    rig.has_reported(&[LATE]);
}

#[test]
fn a_drop_waits_for_executors_that_end_in_time_and_reports_no_name() {
    let (rig, guard) = Rig::new();
    let thread = rig.begin(move || drop(guard));
    rig.clock.advance(4 * SECOND);
    rig.gate.open();
    before_long(|| thread.is_finished());
    thread.join().expect("no panic");
    rig.has_reported(&[]);
}

/// A second shutdown in the drop would wait for the late one once more.
#[test]
fn an_explicit_shutdown_waits_for_one_limit_and_reports_to_its_caller_only() {
    let (rig, guard) = Rig::new();
    let thread = rig.begin(move || guard.shutdown());
    let late = rig.run_out(thread).expect_err("it is late");
    assert_eq!(late.to_string(), LATE);
    rig.has_reported(&[]);
}

#[test]
fn an_explicit_shutdown_waits_for_executors_that_end_in_time() {
    let (rig, guard) = Rig::new();
    let thread = rig.begin(move || guard.shutdown());
    rig.clock.advance(4 * SECOND);
    rig.gate.open();
    before_long(|| thread.is_finished());
    assert_eq!(thread.join().expect("no panic"), Ok(()));
    rig.has_reported(&[]);
}

/// `main` may panic while the guard is in one of its variables.
#[test]
fn a_guard_that_is_dropped_by_a_panic_shuts_down() {
    let (rig, guard) = Rig::new();
    let thread = rig.begin(move || {
        let panics = AssertUnwindSafe(|| {
            let _guard = guard;
            std::panic::resume_unwind(Box::new("main"));
        });
        catch_unwind(panics).is_err()
    });
    assert!(rig.run_out(thread));
    rig.has_reported(&[LATE]);
}

/// A guard of one registry leaves the executors of another one alone.
#[test]
fn a_guard_shuts_down_its_registry_only() {
    let (other, registry) = (Registry::new(), Registry::new());
    let executor = PeriodicExecutor::builder(None).registry(&other).build(|| ());
    executor.open().expect("a thread");
    drop(ShutdownAtExit::of(&registry, SECOND).report(|late| panic!("{late}")));
    assert!(executor.is_open() && other.len() == 1);
    let own = PeriodicExecutor::builder(None).registry(&registry).build(|| ());
    assert!(matches!(own.open(), Err(OpenError::ShutDown)));
    executor.close();
    assert_eq!(soon(move || executor.join()), Ok(Joined::Closed));
}

/// A close of a registry refuses later opens, as a shutdown does. It waits for no call.
#[test]
fn a_closed_registry_refuses_each_open_and_waits_for_no_call() {
    let (rig, _guard) = Rig::new();
    let idle = PeriodicExecutor::builder(None).registry(&rig.registry).build(|| ());
    idle.open().expect("a thread");
    let registry = rig.registry.clone();
    soon(move || registry.close());
    let new = PeriodicExecutor::builder(None).registry(&rig.registry).build(|| ());
    for executor in [&rig.executor, &idle, &new] {
        assert!(!executor.is_open());
        assert!(matches!(executor.open(), Err(OpenError::ShutDown)));
    }
    let theirs = idle.clone();
    assert_eq!(soon(move || theirs.join()), Ok(Joined::Closed));
    assert_eq!(rig.registry.len(), 1, "the call is under way");
    rig.gate.open();
    before_long(|| rig.registry.is_empty());
}
