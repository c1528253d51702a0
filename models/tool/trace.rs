//! The log of an execution: the steps of each thread, so that a counterexample can be read.

use std::fmt::Write;
use std::panic::Location;

struct Event {
    thread: usize,
    what: &'static str,
    at: &'static Location<'static>,
    done: bool,
}

thread_local! {
    // One log for each test: the harness runs each test on a thread of its own, and both tools run all
    // threads of a model on that one.
    static LOG: std::cell::RefCell<Vec<Event>> = const { std::cell::RefCell::new(Vec::new()) };
}

/// The log keeps this many steps. Executions of shuttle may be longer.
const KEPT: usize = 100_000;

/// Logs that this thread is about to do `what`. The returned token logs that the step was done.
#[track_caller]
pub(crate) fn about_to(what: &'static str) -> Step {
    let event = Event { thread: super::me::me(), what, at: Location::caller(), done: false };
    LOG.with_borrow_mut(|log| {
        if log.len() >= KEPT {
            return Step(usize::MAX);
        }
        log.push(event);
        Step(log.len() - 1)
    })
}

pub(crate) struct Step(usize);
impl Step {
    pub(crate) fn done(self) {
        LOG.with_borrow_mut(|log| {
            if let Some(event) = log.get_mut(self.0) {
                event.done = true;
            }
        });
    }
}

pub(crate) fn clear() {
    LOG.with_borrow_mut(Vec::clear);
}

/// Returns the log as a table with a column for each thread, and `…` at a step that did not end.
pub(crate) fn render(name: &str, execution: u64) -> String {
    const WIDTH: usize = 32;
    LOG.with_borrow(|log| {
        let threads = log.iter().map(|e| e.thread + 1).max().unwrap_or(0);
        let mut out = format!("{name}: execution {execution} failed after {} steps\n", log.len());
        for t in 0..threads {
            let _ = write!(out, "{:WIDTH$}", format!("thread {t}"));
        }
        out.push('\n');
        for e in log {
            let file = e.at.file().rsplit('/').next().unwrap_or_default();
            let mark = if e.done { "" } else { " …" };
            let _ = writeln!(
                out,
                "{:indent$}{}{mark} {file}:{}",
                "",
                e.what,
                e.at.line(),
                indent = e.thread * WIDTH
            );
        }
        out
    })
}
