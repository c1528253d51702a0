//! Explores a model, counts its executions, and compares its outcomes with the expected ones.
//!
//! Neither loom nor shuttle reports that its search was cut short, or missed an interleaving. Here such a search
//! fails, because the model does not reach all expected outcomes. Under loom, whose searches are the same in each
//! run, it also fails because the number of executions is not the one that stands beside the model's name. After a
//! change that moves some, `CABRANK_EXECUTIONS=any cargo xtask loom` prints the new ones.

use super::trace;
use std::collections::BTreeMap;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// The outcomes of a model's executions.
#[derive(Clone, Default)]
pub(crate) struct Outcomes(Arc<Mutex<BTreeMap<String, u64>>>);

impl Outcomes {
    /// Counts one outcome.
    pub(crate) fn note(&self, outcome: impl Into<String>) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *seen.entry(outcome.into()).or_default() += 1;
    }
}

/// The name of a model and of its test, and the number of executions that loom explores.
#[derive(Clone, Copy)]
pub(crate) struct Model(pub(crate) &'static str, pub(crate) u64);

/// Explores `model` and asserts that it reaches exactly the outcomes `expected`.
pub(crate) fn explore(
    model: Model,
    expected: &[&str],
    run: impl Fn(&Outcomes) + Send + Sync + 'static,
) {
    explore_by(model, HOW, search, expected, Arc::new(run));
}

/// Explores a model that is small enough for shuttle to run every schedule.
///
/// shuttle reduces no schedules, so its outcomes are a second opinion on loom's reductions.
pub(crate) fn explore_small(
    model: Model,
    expected: &[&str],
    run: impl Fn(&Outcomes) + Send + Sync + 'static,
) {
    let run = Arc::new(run);
    explore_by(model, HOW, search, expected, run.clone());
    #[cfg(not(feature = "loom"))]
    if std::env::var_os("CABRANK_REPLAY").is_none() {
        explore_by(model, "every schedule", search_all, expected, run);
    }
}

/// Explores a model with long executions: runs a tenth of the usual number of schedules. Shuttle only.
#[cfg(not(feature = "loom"))]
pub(crate) fn explore_large(
    name: &'static str,
    expected: &[&str],
    run: impl Fn(&Outcomes) + Send + Sync + 'static,
) {
    explore_by(
        Model(name, 0),
        HOW,
        |name, run| search_some(name, run, schedules() / 10),
        expected,
        Arc::new(run),
    );
}

type Run = Box<dyn Fn() + Send + Sync>;

fn explore_by<M: Fn(&Outcomes) + Send + Sync + 'static>(
    model: Model,
    how: &str,
    search: impl FnOnce(&str, Run),
    expected: &[&str],
    body: Arc<M>,
) {
    let Model(name, pinned) = model;
    assert_is_named_after_its_test(name);
    if is_left_out(pinned) {
        say(&format!("model {name}: left out, {pinned} executions: cargo xtask loom {name}"));
        return;
    }
    let outcomes = Outcomes::default();
    let executions = Arc::new(AtomicU64::new(0));
    let begun = Instant::now();
    let run: Run = {
        let (outcomes, executions) = (outcomes.clone(), executions.clone());
        Box::new(move || {
            trace::clear();
            super::modelled::held::clear();
            super::threads::clear();
            executions.fetch_add(1, Ordering::Relaxed);
            body(&outcomes);
        })
    };
    let result = catch_unwind(AssertUnwindSafe(|| search(name, run)));
    let count = executions.load(Ordering::Relaxed);
    if let Err(panic) = result {
        say(&trace::render(name, count));
        #[cfg(not(feature = "loom"))]
        if let Some(schedule) = newest_schedule(name) {
            let schedule = schedule.display();
            let test = test_of(name).map_or(name.to_owned(), |test| format!("--exact {test}"));
            let reentry = if goes_through_all() { "CABRANK_REENTRY=off " } else { "" };
            say(&format!(
                "replay: {reentry}CABRANK_REPLAY={schedule} cargo test --features shuttle --lib -- {test}"
            ));
        }
        resume_unwind(panic);
    }
    let seen = outcomes.0.lock().unwrap_or_else(PoisonError::into_inner);
    say(&format!("model {name}: {count} executions, {how}, {:.2?}, {seen:?}", begun.elapsed()));
    if std::env::var_os("CABRANK_REPLAY").is_some() {
        return; // A replay is one execution, so it reaches only one of the outcomes.
    }
    // If a model has one outcome, a search that was cut short reaches it, too. So the executions are counted.
    assert!(count > 1, "{name}: the search has stopped after its first execution");
    #[cfg(feature = "loom")]
    assert_pinned(model, count);
    let reached: Vec<&str> = seen.keys().map(String::as_str).collect();
    let mut wanted = expected.to_vec();
    wanted.sort_unstable();
    assert_eq!(reached, wanted, "{name}: outcomes reached, and expected");
}

/// Asserts that model and test have the same name: the test that replays a schedule is found by it.
fn assert_is_named_after_its_test(name: &str) {
    let thread = std::thread::current();
    // The harness names the thread after the test, unless it runs all tests on the main thread.
    let test = thread.name().filter(|test| *test != "main");
    let last = test.and_then(|test| test.rsplit("::").next());
    assert!(last.is_none_or(|last| last == name), "{name} is explored by the test {test:?}");
}

/// Returns the full name of the test that explores this model, as the harness lists it.
///
/// A part of the name could match other tests, too. A wrong name would match no test, and the replay would pass.
#[cfg(not(feature = "loom"))]
fn test_of(name: &str) -> Option<String> {
    let harness = std::env::current_exe().ok()?;
    let listed = std::process::Command::new(harness).arg("--list").output().ok()?;
    let listed = String::from_utf8(listed.stdout).ok()?;
    let ending = format!("::{name}");
    let mut tests = listed.lines().filter_map(|line| line.strip_suffix(": test"));
    tests.find(|test| test.starts_with("models::") && test.ends_with(&ending)).map(str::to_owned)
}

#[cfg(not(feature = "loom"))]
#[test]
fn the_test_that_replays_a_model_is_found_by_its_name() {
    let harness = std::env::current_exe().expect("this program");
    let listed = std::process::Command::new(harness).arg("--list").output().expect("a list");
    let listed = String::from_utf8(listed.stdout).expect("a list in UTF-8");
    let tests = listed.lines().filter_map(|line| line.strip_suffix(": test"));
    for test in tests.filter(|test| test.starts_with("models::")) {
        let name = test.rsplit("::").next().expect("a name");
        assert_eq!(test_of(name).as_deref(), Some(test), "two models have one name");
    }
    assert_eq!(test_of("crowd").as_deref(), Some("models::application_pool::crowd::crowd"));
    assert_eq!(test_of("no_such_model"), None);
}

/// Asserts that the number of executions is the pinned one.
///
/// A new bound, reduction or step changes the number, even where all outcomes are reached. So does a change of
/// the code that the model runs: then understand the new number, and pin it.
#[cfg(feature = "loom")]
fn assert_pinned(Model(name, pinned): Model, count: u64) {
    // A planted fault may change the number. The model must fail by its own assertions instead.
    if std::env::var_os("CABRANK_EXECUTIONS").is_some_and(|value| value == "any") {
        return;
    }
    assert_eq!(pinned, count, "{name}: executions pinned beside its name, and seen");
}

/// The largest model, in executions, that `cargo test --features loom` explores. Larger ones run with
/// `CABRANK_DEEP=1`, which `cargo xtask loom` sets together with an optimised build.
const USUAL: u64 = 25_000;

/// Returns whether a model is too large for this run.
fn is_left_out(pinned: u64) -> bool {
    cfg!(feature = "loom") && pinned > USUAL && std::env::var_os("CABRANK_DEEP").is_none()
}

/// Prints past the test harness, which captures the output of a test that passes.
fn say(text: &str) {
    // A closed standard error is no reason to fail.
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

#[cfg(feature = "loom")]
const HOW: &str = "every interleaving";
#[cfg(feature = "loom")]
fn search(_: &str, run: Run) {
    let mut builder = loom::model::Builder::new();
    builder.max_branches = 100_000;
    // No bound on preemptions, permutations or time: each would end a search without a report.
    builder.preemption_bound = None;
    builder.max_permutations = None;
    builder.max_duration = None;
    builder.check(run);
}

#[cfg(not(feature = "loom"))]
const HOW: &str = "random and uniform random walk";
#[cfg(not(feature = "loom"))]
fn search(name: &str, run: Run) {
    search_some(name, run, schedules());
}

#[cfg(not(feature = "loom"))]
fn search_some(name: &str, run: Run, schedules: usize) {
    let run = Arc::new(run);
    // The exhaustive search may leave out steps of a model (`goes_through_all`). The replay of a schedule that it
    // has found must leave them out, too.
    EVERY_SCHEDULE.set(std::env::var_os("CABRANK_REENTRY").is_some_and(|value| value == "off"));
    if let Some(file) = std::env::var_os("CABRANK_REPLAY") {
        let scheduler = shuttle::scheduler::ReplayScheduler::new_from_file(file);
        let mut scheduler = scheduler.expect("CABRANK_REPLAY is the file of a schedule");
        // The schedule ends at the failure. Repaired code runs on.
        scheduler.set_allow_incomplete();
        shuttle::Runner::new(scheduler, config(name)).run(move || run());
        return;
    }
    let each = schedules / 2;
    for uniform in [false, true] {
        let run = run.clone();
        if uniform {
            let scheduler = shuttle::scheduler::UrwRandomScheduler::new_from_seed(seed(), each);
            shuttle::Runner::new(scheduler, config(name)).run(move || run());
        } else {
            let scheduler = shuttle::scheduler::RandomScheduler::new_from_seed(seed(), each);
            shuttle::Runner::new(scheduler, config(name)).run(move || run());
        }
    }
}

#[cfg(not(feature = "loom"))]
fn config(name: &str) -> shuttle::Config {
    let mut config = shuttle::Config::default();
    // shuttle's default stack of 32 KiB is too small for a model that also runs the specification.
    config.stack_size = 1 << 20;
    let dir = schedules_dir(name);
    if std::fs::create_dir_all(&dir).is_ok() {
        config.failure_persistence = shuttle::FailurePersistence::File(Some(dir));
    }
    config
}

/// Returns the folder for failing schedules of a model. Other models may fail at the same time.
#[cfg(not(feature = "loom"))]
fn schedules_dir(name: &str) -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("target").join("shuttle").join(name)
}

/// Returns the schedule that has just failed.
#[cfg(not(feature = "loom"))]
fn newest_schedule(name: &str) -> Option<std::path::PathBuf> {
    let files = std::fs::read_dir(schedules_dir(name)).ok()?.flatten();
    let newest = files.max_by_key(|file| file.metadata().and_then(|data| data.modified()).ok());
    newest.map(|file| file.path())
}

#[cfg(not(feature = "loom"))]
fn search_all(name: &str, run: Run) {
    let scheduler = shuttle::scheduler::DfsScheduler::new(None, false);
    // A thread-local suffices: the model's threads run on the thread that explores it.
    EVERY_SCHEDULE.set(true);
    shuttle::Runner::new(scheduler, config(name)).run(run);
}

#[cfg(not(feature = "loom"))]
thread_local! {
    static EVERY_SCHEDULE: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Returns whether shuttle runs every schedule of this model.
///
/// Without reductions each step multiplies the schedules, so a model may leave out steps that other models explore.
#[cfg(not(feature = "loom"))]
pub(crate) fn goes_through_all() -> bool {
    EVERY_SCHEDULE.get()
}
#[cfg(feature = "loom")]
pub(crate) fn goes_through_all() -> bool {
    false
}

/// Returns the seed: a fixed one, so that each run reaches the same outcomes, or `CABRANK_SEED`.
#[cfg(not(feature = "loom"))]
fn seed() -> u64 {
    match std::env::var("CABRANK_SEED") {
        Ok(text) => text.parse().expect("CABRANK_SEED is a number"),
        Err(_) => 1,
    }
}

/// Returns the number of schedules for each model: `CABRANK_SCHEDULES`, or 20,000.
#[cfg(not(feature = "loom"))]
fn schedules() -> usize {
    match std::env::var("CABRANK_SCHEDULES") {
        Ok(text) => text.parse().expect("CABRANK_SCHEDULES is a number of schedules"),
        Err(_) => 20_000,
    }
}
