//! Runs a model, counts its executions, and holds its outcomes against the expected ones.
//!
//! A search that was cut, or went blind to an interleaving, fails, for neither tool says so by itself:
//! it misses an outcome; and under loom, whose searches are the same in every run, its number of
//! executions is not the one in `models/executions.rs`.

use super::trace;
use std::collections::BTreeMap;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Where a model's executions note how they ended.
#[derive(Clone, Default)]
pub(crate) struct Outcomes(Arc<Mutex<BTreeMap<String, u64>>>);

impl Outcomes {
    /// Notes one outcome.
    pub(crate) fn note(&self, outcome: impl Into<String>) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *seen.entry(outcome.into()).or_default() += 1;
    }
}

/// Explores `model` and asserts that exactly the outcomes `expected` were reached.
pub(crate) fn explore(
    name: &str,
    expected: &[&str],
    model: impl Fn(&Outcomes) + Send + Sync + 'static,
) {
    explore_by(name, HOW, search, expected, Arc::new(model));
}

/// The same for a model so small that shuttle, too, can go through every schedule: it reduces nothing,
/// so what it finds is held against loom's reductions.
pub(crate) fn explore_small(
    name: &str,
    expected: &[&str],
    model: impl Fn(&Outcomes) + Send + Sync + 'static,
) {
    assert!(crate::models::small::SMALL.contains(&name), "{name} is to be in models/small.rs");
    let model = Arc::new(model);
    explore_by(name, HOW, search, expected, model.clone());
    #[cfg(not(feature = "loom"))]
    if std::env::var_os("CABRANK_REPLAY").is_none() {
        explore_by(name, "every schedule", search_all, expected, model);
    }
}

/// The same for a model of which one execution is long: a tenth of the schedules. Shuttle only.
#[cfg(not(feature = "loom"))]
pub(crate) fn explore_large(
    name: &str,
    expected: &[&str],
    model: impl Fn(&Outcomes) + Send + Sync + 'static,
) {
    explore_by(
        name,
        HOW,
        |name, run| search_some(name, run, schedules() / 10),
        expected,
        Arc::new(model),
    );
}

type Run = Box<dyn Fn() + Send + Sync>;

fn explore_by<M: Fn(&Outcomes) + Send + Sync + 'static>(
    name: &str,
    how: &str,
    search: impl FnOnce(&str, Run),
    expected: &[&str],
    model: Arc<M>,
) {
    assert_is_named_after_its_test(name);
    let outcomes = Outcomes::default();
    let executions = Arc::new(AtomicU64::new(0));
    let begun = Instant::now();
    let run: Run = {
        let (outcomes, executions) = (outcomes.clone(), executions.clone());
        Box::new(move || {
            trace::clear();
            super::held::clear();
            super::thread::clear();
            executions.fetch_add(1, Ordering::Relaxed);
            model(&outcomes);
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
            let doors = if goes_through_all() { "CABRANK_DOORS=shut " } else { "" };
            say(&format!(
                "replay: {doors}CABRANK_REPLAY={schedule} cargo test --features shuttle --lib -- {test}"
            ));
        }
        resume_unwind(panic);
    }
    let seen = outcomes.0.lock().unwrap_or_else(PoisonError::into_inner);
    say(&format!("model {name}: {count} executions, {how}, {:.2?}, {seen:?}", begun.elapsed()));
    if std::env::var_os("CABRANK_REPLAY").is_some() {
        return; // One execution reaches one outcome.
    }
    // A model with one outcome would not notice by that.
    assert!(count > 1, "{name}: the search has stopped after its first execution");
    #[cfg(feature = "loom")]
    assert_pinned(name, count);
    let reached: Vec<&str> = seen.keys().map(String::as_str).collect();
    let mut wanted = expected.to_vec();
    wanted.sort_unstable();
    assert_eq!(reached, wanted, "{name}: outcomes reached, and outcomes there are");
}

/// A schedule is replayed by the test that explores the model, which is found by the model's name.
fn assert_is_named_after_its_test(name: &str) {
    let thread = std::thread::current();
    // The harness gives the thread the test's name, unless it runs all on its own.
    let test = thread.name().filter(|test| *test != "main");
    let last = test.and_then(|test| test.rsplit("::").next());
    assert!(last.is_none_or(|last| last == name), "{name} is explored by the test {test:?}");
}

/// The test that explores the model of this name, as the harness lists it: by a part of its name, others would
/// be run on the schedule, too; by a name that no test has, none, and nothing would fail.
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
    for (name, _) in crate::models::executions::PINNED {
        let test = test_of(name).unwrap_or_else(|| panic!("no test explores {name}"));
        assert!(test.ends_with(name), "{test}");
    }
    assert_eq!(test_of("crowd").as_deref(), Some("models::crowd::crowd"));
    assert_eq!(test_of("no_such_model"), None);
}

/// A bound, a reduction or a step that is new or gone shows in the number of executions, even where all
/// outcomes are reached. A change of the code that the model runs changes it, too: then the new number
/// is to be understood, and noted.
#[cfg(feature = "loom")]
fn assert_pinned(name: &str, count: u64) {
    // Where a fault is planted, the model is to fail for what it asserts.
    if std::env::var_os("CABRANK_EXECUTIONS").is_some_and(|value| value == "any") {
        return;
    }
    let pinned = crate::models::executions::PINNED.iter().find(|(pinned, _)| *pinned == name);
    assert_eq!(pinned, Some(&(name, count)), "executions noted in models/executions.rs, and seen");
}

/// Prints past the test harness, which keeps what a test that passes prints to itself.
fn say(text: &str) {
    // Nobody reads it: then nobody is told.
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

#[cfg(feature = "loom")]
const HOW: &str = "every interleaving";
#[cfg(feature = "loom")]
fn search(_: &str, run: Run) {
    let mut builder = loom::model::Builder::new();
    builder.max_branches = 100_000;
    // No bound on preemptions, permutations or time: each of them ends a search in silence.
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
    // What was found by going through every schedule is replayed with no more steps than are made there.
    EVERY_SCHEDULE.set(std::env::var_os("CABRANK_DOORS").is_some_and(|value| value == "shut"));
    if let Some(file) = std::env::var_os("CABRANK_REPLAY") {
        let scheduler = shuttle::scheduler::ReplayScheduler::new_from_file(file);
        let mut scheduler = scheduler.expect("CABRANK_REPLAY is the file of a schedule");
        // What has been mended goes on where the failure was.
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
    // Its 32 KiB are too few for a model that runs the specification, too.
    config.stack_size = 1 << 20;
    let dir = schedules_dir(name);
    if std::fs::create_dir_all(&dir).is_ok() {
        config.failure_persistence = shuttle::FailurePersistence::File(Some(dir));
    }
    config
}

/// Where failing schedules of a model are kept: others run beside it, and may fail, too.
#[cfg(not(feature = "loom"))]
fn schedules_dir(name: &str) -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("target").join("shuttle").join(name)
}

/// The schedule that has just failed.
#[cfg(not(feature = "loom"))]
fn newest_schedule(name: &str) -> Option<std::path::PathBuf> {
    let files = std::fs::read_dir(schedules_dir(name)).ok()?.flatten();
    let newest = files.max_by_key(|file| file.metadata().and_then(|data| data.modified()).ok());
    newest.map(|file| file.path())
}

#[cfg(not(feature = "loom"))]
fn search_all(name: &str, run: Run) {
    let scheduler = shuttle::scheduler::DfsScheduler::new(None, false);
    // The threads of a model share the one that explores it.
    EVERY_SCHEDULE.set(true);
    shuttle::Runner::new(scheduler, config(name)).run(run);
}

#[cfg(not(feature = "loom"))]
thread_local! {
    static EVERY_SCHEDULE: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Whether shuttle goes through every schedule: without reductions, each step more makes that many times
/// as many, and a model may leave out those that others explore.
#[cfg(not(feature = "loom"))]
pub(crate) fn goes_through_all() -> bool {
    EVERY_SCHEDULE.get()
}
#[cfg(feature = "loom")]
pub(crate) fn goes_through_all() -> bool {
    false
}

/// Fixed, so that the outcomes reached are the same in every run: `CABRANK_SEED` gives others.
#[cfg(not(feature = "loom"))]
fn seed() -> u64 {
    match std::env::var("CABRANK_SEED") {
        Ok(text) => text.parse().expect("CABRANK_SEED is a number"),
        Err(_) => 1,
    }
}

/// How many schedules each model is given: `CABRANK_SCHEDULES`, or 20,000.
#[cfg(not(feature = "loom"))]
fn schedules() -> usize {
    match std::env::var("CABRANK_SCHEDULES") {
        Ok(text) => text.parse().expect("CABRANK_SCHEDULES is a number of schedules"),
        Err(_) => 20_000,
    }
}
