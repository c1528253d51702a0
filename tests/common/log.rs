//! A log of what happens in executions, and hooks that write to it.

use cabrank::execution::{BoxError, ExecutionError, Executor, ExecutorBuilder, Hook};
use std::sync::{Arc, Mutex};

/// The entries, in order.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    pub(crate) fn note(&self, what: impl Into<String>) {
        self.0.lock().expect("no panic under this lock").push(what.into());
    }
    pub(crate) fn noted(&self, what: impl Into<String>) -> Result<(), BoxError> {
        self.note(what);
        Ok(())
    }
    pub(crate) fn noting(
        &self,
        what: &'static str,
    ) -> impl Fn() -> Result<(), BoxError> + Send + Sync + use<> {
        let log = self.clone();
        move || {
            log.note(what);
            Ok(())
        }
    }
    pub(crate) fn failing(
        &self,
        what: &'static str,
    ) -> impl Fn() -> Result<(), BoxError> + Send + Sync + use<> {
        let log = self.clone();
        move || {
            log.note(what);
            Err(what.into())
        }
    }
    /// A hook that logs both its halves.
    pub(crate) fn hook(&self, name: &'static str) -> Named {
        Named { name, log: self.clone() }
    }
    /// Returns whether this was logged at least so often.
    pub(crate) fn has(&self, what: &str, times: usize) -> bool {
        let log = self.0.lock().expect("no panic under this lock");
        log.iter().filter(|noted| *noted == what).count() >= times
    }
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().expect("no panic under this lock"))
    }
}

pub(crate) struct Named {
    name: &'static str,
    log: Log,
}

impl Hook for Named {
    type State = &'static str;
    fn run(&self) -> Result<&'static str, BoxError> {
        self.log.note(format!("run {}", self.name));
        Ok(self.name)
    }
    fn complete(&self, state: &'static str) -> Result<(), BoxError> {
        self.log.note(format!("complete {state}"));
        Ok(())
    }
}

/// An executor whose reports are logged, too.
pub(crate) fn reporting(log: &Log) -> ExecutorBuilder {
    let log = log.clone();
    Executor::builder().reporter(move |error| {
        let dropped = if error.was_dropped() { " of a dropped one" } else { "" };
        log.note(format!("report{dropped}: {}", error.first().cause()));
    })
}

#[derive(Debug, PartialEq)]
pub(crate) struct OnPurpose;
impl std::fmt::Display for OnPurpose {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("on purpose")
    }
}
impl std::error::Error for OnPurpose {}

pub(crate) fn failed<T>(result: Result<T, ExecutionError>) -> ExecutionError {
    result.err().expect("it fails")
}
