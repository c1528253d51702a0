//! Hooks around an execution. Each has a run half, a complete half, and a state that goes from one to the other.
//!
//! Hooks are completed in strict reverse order of their runs. Panics are contained, and each hook is completed even
//! if another fails. A hook is completed exactly if its run returned. A hook with a complete half only is always
//! completed.

use super::error::{BoxError, Failure, Panicked, Stage};
use crate::kernel::user_code::{UserValue, contain};
use std::sync::Arc;

/// A hook: code that runs before each execution, and is undone after it.
///
/// A pair of closures is a hook, too: the second gets the value that the first returned. See
/// [`ExecutorBuilder`](super::ExecutorBuilder).
pub trait Hook: Send + Sync + 'static {
    /// The value that goes from `run` to `complete`. The execution may end on another thread.
    type State: Send + 'static;

    /// Called before the body. After an error or a panic, later hooks and the body are not run, and this hook is not
    /// completed.
    ///
    /// # Errors
    /// Any error that keeps the body from being run.
    fn run(&self) -> Result<Self::State, BoxError>;

    /// Called after the body, once for each run that returned.
    ///
    /// # Errors
    /// Any error; it is attached to earlier failures.
    fn complete(&self, state: Self::State) -> Result<(), BoxError>;
}

impl<R, C, S> Hook for (R, C)
where
    R: Fn() -> Result<S, BoxError> + Send + Sync + 'static,
    C: Fn(S) -> Result<(), BoxError> + Send + Sync + 'static,
    S: Send + 'static,
{
    type State = S;
    fn run(&self) -> Result<S, BoxError> {
        (self.0)()
    }
    fn complete(&self, state: S) -> Result<(), BoxError> {
        (self.1)(state)
    }
}

/// A hook's complete half, with its state inside.
type Completer = Box<dyn FnOnce() -> Result<(), BoxError> + Send>;

struct Entry {
    /// It has a complete half only, so it also runs after a failure.
    completes_only: bool,
    /// Runs the hook, and returns its complete half.
    run: Box<dyn Fn() -> Result<Completer, BoxError> + Send + Sync>,
}

/// A chain of hooks, outermost first.
#[derive(Default)]
pub(crate) struct Hooks(Vec<Entry>);

impl Hooks {
    /// Adds a hook inside all others.
    pub(crate) fn push(&mut self, hook: impl Hook, completes_only: bool) {
        let hook = Arc::new(UserValue::new(hook));
        let run = Box::new(move || {
            let (state, hook) = (hook.run()?, hook.clone());
            Ok(Box::new(move || hook.complete(state)) as Completer)
        });
        self.0.push(Entry { completes_only, run });
    }
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// Runs the hooks until one fails, and adds a completer for each that has run.
    pub(crate) fn run(&self, completers: &mut Completers) -> Result<(), Failure> {
        let mut result = Ok(());
        for entry in self.0.iter() {
            if result.is_ok() || entry.completes_only {
                match stage(Stage::Run, &entry.run) {
                    Ok(completer) => completers.0.push(completer),
                    Err(failure) => result = Err(failure),
                }
            }
        }
        result
    }
}

/// The completions that are left, in the order of the runs.
#[derive(Default)]
pub(crate) struct Completers(Vec<Completer>);

impl Completers {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    /// Completes every hook in reverse order. Each completer is removed first, so a second call does no work.
    pub(crate) fn complete(&mut self, failures: &mut Vec<Failure>) {
        while let Some(completer) = self.0.pop() {
            failures.extend(stage(Stage::Complete, completer).err());
        }
    }
}

/// Calls user code of one stage: its error, or its panic, is a failure of that stage.
pub(crate) fn stage<T>(
    stage: Stage,
    user_code: impl FnOnce() -> Result<T, BoxError>,
) -> Result<T, Failure> {
    match contain(user_code) {
        Ok(result) => result.map_err(|cause| Failure::new(stage, cause)),
        Err(message) => Err(Failure::new(stage, Panicked(message))),
    }
}
