//! The place of a call: each public call that notes its place in the source notes that of its caller.

// The tools of the models run the library's own tests only.
#![cfg(not(any(feature = "loom", feature = "shuttle")))]

use cabrank::execution::interlock::{AcquireError, Loaded};
use cabrank::execution::{ExecutionError, Executor, Reloader};
use cabrank::resource_pool::{Event, KeyedResourcePool, ResourceFactory, ResourcePool};
use cabrank::{Interlock, ManualClock};
use std::cell::Cell;
use std::convert::Infallible;
use std::future::pending;
use std::panic::{Location, catch_unwind, set_hook, take_hook};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// So short that each wait of a thread ends at once.
const AT_ONCE: Duration = Duration::from_nanos(1);
const HOUR: Duration = Duration::from_secs(3600);

fn poll<T>(future: Pin<&mut impl Future<Output = T>>) -> Poll<T> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[track_caller]
fn begins(future: Pin<&mut impl Future>) {
    assert!(poll(future).is_pending(), "it waits");
}

/// Asserts that the place is in this file, and in that line.
#[track_caller]
fn check(at: &Location<'_>, line: u32, name: &str) {
    assert_eq!((at.file(), at.line()), (file!(), line), "{name}");
}

#[track_caller]
fn late<T>(result: Result<T, AcquireError>, line: u32, name: &str) {
    let Err(AcquireError::TimedOut(blocked)) = result else { panic!("{name} waits") };
    check(blocked.at, line, name);
}

/// An execution's failure to enter, to load or to unload says the place in its text.
#[track_caller]
fn late_execution<T>(result: Result<T, ExecutionError>, line: u32, name: &str) {
    let text = result.map(drop).expect_err(name).first().cause().to_string();
    let expected = format!("timed out at {}:{line}:", file!());
    assert!(text.starts_with(&expected), "{name}: {text}");
}

/// Asserts that the youngest owner waits at this place.
#[track_caller]
fn waits(interlock: &Interlock, line: u32, name: &str) {
    let dump = interlock.dump();
    let wait = dump.owners.last().and_then(|owner| owner.wait.as_ref()).expect("it waits");
    check(wait.at, line, name);
}

#[track_caller]
fn entered(interlock: &Interlock, line: u32, name: &str) {
    check(interlock.dump().owners.last().expect("it is listed").entered_at, line, name);
}

/// Has an interlock whose threads give up at once. Its tasks wait, because they are not polled again.
fn impatient() -> Interlock {
    Interlock::builder().acquire_timeout(AT_ONCE).build()
}

#[test]
fn calls_that_enter_an_interlock() {
    let interlock = impatient();
    let unloads = async || interlock.unload_async(async |_| pending::<()>().await).await;
    let mut holds = pin!(unloads());
    begins(holds.as_mut());
    let (line, late_run) = (line!(), interlock.run(|_| ()));
    late(late_run, line, "run");
    let (line, late_unload) = (line!(), interlock.unload(|_| ()));
    late(late_unload, line, "unload");
    let patient = Interlock::new();
    let mut holds = pin!(patient.unload_async(async |_| pending::<()>().await));
    begins(holds.as_mut());
    {
        let (line, mut enters) = (line!(), Box::pin(patient.run_async(async |_| ())));
        begins(enters.as_mut());
        waits(&patient, line, "run_async");
        entered(&patient, line, "run_async");
    }
    let (line, mut unloads) = (line!(), Box::pin(patient.unload_async(async |_| ())));
    begins(unloads.as_mut());
    waits(&patient, line, "unload_async");
    entered(&patient, line, "unload_async");
}

#[test]
fn executions_note_where_they_have_entered() {
    let interlock = Interlock::new();
    let (line, dump) = (line!(), interlock.run(|_| interlock.dump()).expect("no other runs"));
    check(dump.owners[0].entered_at, line, "run");
    let executor = Executor::builder().interlock(interlock.clone()).build();
    let (line, dump) = (line!(), executor.wrap(|_| Ok(interlock.dump())).expect("no other runs"));
    check(dump.owners[0].entered_at, line, "wrap");
    let (line, guard) = (line!(), executor.run().expect("no other runs"));
    entered(&interlock, line, "Executor::run");
    drop(guard);
}

#[test]
fn calls_that_load() {
    let (interlock, loaded) = (impatient(), Loaded::<u32>::new());
    let mut holds = pin!(interlock.run_async(async |_| pending::<()>().await));
    begins(holds.as_mut());
    let (line, loads) = (line!(), interlock.run(|r| r.load(|_| ())).expect("it enters"));
    late(loads, line, "load");
    let load = || Ok::<_, AcquireError>(1);
    let line = line!() + 2;
    let gets = interlock.run(|r| {
        loaded.get_or_load(r, load).map(drop) // here
    });
    late(gets.expect("it enters"), line, "get_or_load");
    let patient = Interlock::new();
    let mut holds = pin!(patient.run_async(async |_| pending::<()>().await));
    begins(holds.as_mut());
    let run = async |r: &mut cabrank::execution::interlock::Running<'_>| {
        r.load_async(async |_| ()).await.expect("it is dropped before")
    };
    let line = line!() - 2;
    let mut loads = pin!(patient.run_async(run));
    begins(loads.as_mut());
    waits(&patient, line, "load_async");
}

/// Another execution loads inside the permit block, so the block's own execution waits at the end.
#[test]
fn calls_that_permit_loads() {
    let interlock = impatient();
    let mut loads = Box::pin(interlock.run_async(async |r| {
        r.load_async(async |_| pending::<()>().await).await.expect("it is permitted")
    }));
    let block = || begins(loads.as_mut());
    let (line, late_end) = (line!(), interlock.run(|r| r.permit_loads(block)).expect("it enters"));
    late(late_end, line, "permit_loads");

    let patient = Interlock::new();
    let mut loads = Box::pin(patient.run_async(async |r| {
        r.load_async(async |_| pending::<()>().await).await.expect("it is permitted")
    }));
    let block = async { begins(loads.as_mut()) };
    let (line, permits) = (line!(), patient.run_async(async |r| r.permit_loads_async(block).await));
    let mut permits = pin!(permits);
    begins(permits.as_mut());
    let dump = patient.dump();
    let wait = dump
        .owners
        .iter()
        .find_map(|owner| owner.wait.as_ref().filter(|wait| wait.at.line() == line));
    check(wait.expect("it waits there").at, line, "permit_loads_async");
}

#[test]
fn calls_of_an_executor() {
    let interlock = impatient();
    let mut holds = pin!(interlock.unload_async(async |_| pending::<()>().await));
    begins(holds.as_mut());
    let executor = Executor::builder().interlock(interlock.clone()).build();
    let reloader = Reloader::builder(executor.clone()).check(|| false).build().expect("valid");
    let (line, wraps) = (line!(), executor.wrap(|_| Ok(())));
    late_execution(wraps, line, "Executor::wrap");
    let (line, runs) = (line!(), executor.run());
    late_execution(runs, line, "Executor::run");
    let (line, wraps) = (line!(), reloader.wrap(|_| Ok(())));
    late_execution(wraps, line, "Reloader::wrap");
    let (line, runs) = (line!(), reloader.run());
    late_execution(runs, line, "Reloader::run");
    let (line, prepares) = (line!(), reloader.prepare());
    late_execution(prepares, line, "Reloader::prepare");
}

#[test]
fn futures_of_an_executor() {
    let interlock = Interlock::new();
    let mut holds = pin!(interlock.unload_async(async |_| pending::<()>().await));
    begins(holds.as_mut());
    let executor = Executor::builder().interlock(interlock.clone()).build();
    let reloader = Reloader::builder(executor.clone()).check(|| false).build().expect("valid");
    {
        let (line, mut wraps) = (line!(), Box::pin(executor.wrap_async(async |_| Ok(()))));
        begins(wraps.as_mut());
        waits(&interlock, line, "Executor::wrap_async");
    }
    {
        let (line, mut runs) = (line!(), Box::pin(executor.run_async()));
        begins(runs.as_mut());
        waits(&interlock, line, "Executor::run_async");
    }
    {
        let (line, mut wraps) = (line!(), Box::pin(reloader.wrap_async(async |_| Ok(()))));
        begins(wraps.as_mut());
        waits(&interlock, line, "Reloader::wrap_async");
    }
    let (line, mut runs) = (line!(), Box::pin(reloader.run_async()));
    begins(runs.as_mut());
    waits(&interlock, line, "Reloader::run_async");
}

/// The unload at the end of an execution waits for another execution.
#[test]
fn calls_that_complete_an_execution() {
    let interlock = impatient();
    let executor = Executor::builder().interlock(interlock.clone()).build();
    let reloader = Reloader::builder(executor).always().build().expect("valid");
    let guard = reloader.run().expect("no other runs");
    let mut holds = Box::pin(interlock.run_async(async |_| pending::<()>().await));
    // On a thread of its own: here it would be a view of the execution that completes.
    std::thread::scope(|scope| {
        scope.spawn(|| begins(holds.as_mut())).join().expect("no panic");
    });
    let (line, completes) = (line!(), guard.complete());
    late_execution(completes, line, "ExecutionGuard::complete");
    drop(holds);

    let mut begun = pin!(reloader.run_async());
    let Poll::Ready(Ok(execution)) = poll(begun.as_mut()) else { panic!("no other runs") };
    let mut holds = Box::pin(interlock.run_async(async |_| pending::<()>().await));
    begins(holds.as_mut());
    let (line, completes) = (line!(), execution.complete());
    late_execution(completes, line, "Execution::complete");
    drop(holds);

    let patient = Interlock::new();
    let executor = Executor::builder().interlock(patient.clone()).build();
    let reloader = Reloader::builder(executor).always().build().expect("valid");
    let mut begun = pin!(reloader.run_async());
    let Poll::Ready(Ok(execution)) = poll(begun.as_mut()) else { panic!("no other runs") };
    let mut holds = Box::pin(patient.run_async(async |_| pending::<()>().await));
    begins(holds.as_mut());
    let (line, mut completes) = (line!(), Box::pin(execution.complete_async()));
    begins(completes.as_mut());
    let dump = patient.dump();
    let wait = dump.owners.iter().find_map(|owner| owner.wait.as_ref()).expect("it waits");
    check(wait.at, line, "Execution::complete_async");
}

struct Numbers;

impl ResourceFactory for Numbers {
    type Resource = u32;
    type Metadata = &'static str;
    type Error = Infallible;
    fn create(&self, _: &&'static str) -> Result<u32, Infallible> {
        Ok(1)
    }
}

type Places = Arc<Mutex<Vec<(&'static str, u32)>>>;

/// Lists where the loans began that look abandoned.
fn listener(places: &Places) -> impl Fn(&&'static str, &Event<Infallible>) + Send + Sync + use<> {
    let places = places.clone();
    move |_, event| {
        if let Event::Abandoned { borrowed_at, .. } = event {
            let place = (borrowed_at.file(), borrowed_at.line());
            places.lock().expect("no panic").push(place);
        }
    }
}

fn ready<T>(future: impl Future<Output = T>) -> T {
    match poll(pin!(future)) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("it is ready at once"),
    }
}

#[test]
fn loans_of_a_pool() {
    let (time, places) = (ManualClock::new(), Places::default());
    let builder = ResourcePool::builder(Numbers, "m").clock(time.clock()).maintenance(false);
    let builder = builder.abandoned_after(HOUR).listener(listener(&places));
    let pool = builder.build().expect("valid");
    let first = line!() + 1;
    let borrow = pool.borrow();
    let borrow_timeout = pool.borrow_timeout(HOUR);
    let try_borrow = pool.try_borrow();
    let borrow_async = ready(pool.borrow_async());
    let try_borrow_async = ready(pool.try_borrow_async());
    time.advance(HOUR);
    pool.maintain();
    let expected: Vec<_> = (first..first + 5).map(|line| (file!(), line)).collect();
    assert_eq!(*places.lock().expect("no panic"), expected);
    drop((borrow, borrow_timeout, try_borrow, borrow_async, try_borrow_async));
}

#[test]
fn loans_of_a_keyed_pool() {
    let (time, places) = (ManualClock::new(), Places::default());
    let builder = KeyedResourcePool::builder(Numbers).clock(time.clock()).maintenance(false);
    let builder = builder.abandoned_after(HOUR).listener(listener(&places));
    let pool = builder.build().expect("valid");
    let first = line!() + 1;
    let borrow = pool.borrow(&"a");
    let borrow_timeout = pool.borrow_timeout(&"a", HOUR);
    let try_borrow = pool.try_borrow(&"a");
    let borrow_async = ready(pool.borrow_async(&"a"));
    let try_borrow_async = ready(pool.try_borrow_async(&"a"));
    time.advance(HOUR);
    pool.maintain();
    let expected: Vec<_> = (first..first + 5).map(|line| (file!(), line)).collect();
    assert_eq!(*places.lock().expect("no panic"), expected);
    drop((borrow, borrow_timeout, try_borrow, borrow_async, try_borrow_async));
}

/// The panic outside of a runtime is the caller's.
#[test]
fn a_runtime_that_is_missing() {
    thread_local! {
        static PANICKED: Cell<Option<(u32, bool)>> = const { Cell::new(None) };
    }
    let usual = take_hook();
    set_hook(Box::new(move |panic| {
        let at = panic.location().map(|at| (at.line(), at.file() == file!()));
        PANICKED.set(at);
        usual(panic);
    }));
    let (line, missing) = (line!(), catch_unwind(cabrank::periodic_executor::Tokio::current));
    assert!(missing.is_err());
    let at = PANICKED.get();
    // `catch_unwind` calls it: so the place is in the standard library, and a closure is needed.
    assert_ne!(at, Some((line, true)));
    let (line, missing) = (line!(), catch_unwind(|| cabrank::periodic_executor::Tokio::current()));
    assert!(missing.is_err());
    assert_eq!(PANICKED.get(), Some((line, true)));
}

/// A public call that notes its place is in one of the tests above.
#[test]
fn the_table_is_complete() {
    let sources = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
    let mut calls = Vec::new();
    collect(std::path::Path::new(sources), &mut calls);
    calls.sort_unstable();
    let expected = [
        ("borrow", 2),
        ("borrow_async", 2),
        ("borrow_timeout", 2),
        ("complete", 2),
        ("complete_async", 1),
        ("current", 1),
        ("get_or_load", 1),
        ("load", 1),
        ("load_async", 1),
        ("permit_loads", 1),
        ("permit_loads_async", 1),
        ("prepare", 1),
        ("run", 3),
        ("run_async", 3),
        ("try_borrow", 2),
        ("try_borrow_async", 2),
        ("unload", 1),
        ("unload_async", 1),
        ("wrap", 2),
        ("wrap_async", 2),
    ];
    let expected: Vec<String> =
        expected.into_iter().flat_map(|(name, times)| vec![name.to_owned(); times]).collect();
    assert_eq!(calls, expected);
}

/// Lists the public functions below the attribute, by name.
fn collect(folder: &std::path::Path, calls: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).expect("the folder is readable") {
        let path = entry.expect("the entry is readable").path();
        if path.is_dir() {
            collect(&path, calls);
            continue;
        }
        let source = std::fs::read_to_string(&path).expect("the source is readable");
        for after in source.split("#[track_caller]").skip(1) {
            let line = after.lines().map(str::trim).find(|line| line.contains("fn "));
            if let Some((_, name)) = line.and_then(|line| line.split_once("pub fn ")) {
                let end = name.find(['(', '<']).expect("it has parameters");
                calls.push(name[..end].to_owned());
            }
        }
    }
}
