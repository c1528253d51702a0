//! What a step that prepares may do: load.

use super::interlock::{AcquireError, Loading, Running, Unloading};
use std::fmt;

/// Given to what [prepares](super::ReloaderBuilder::to_prepare) the world: it may load, wherever it is
/// called.
///
/// ```
/// use cabrank::execution::interlock::{Interlock, Loaded};
/// use cabrank::execution::{Executor, Reloader};
/// use std::sync::Arc;
///
/// let settings = Arc::new(Loaded::new());
/// let (former, prepared) = (settings.clone(), settings.clone());
/// let executor = Executor::builder().interlock(Interlock::new()).build();
/// let reloader = Reloader::builder(executor)
///     .unload(move |unloading| Ok(former.clear(unloading)))
///     .to_prepare(move |preparing| {
///         let text = "read from a file";
///         Ok(preparing.load(|loading| prepared.set(text, loading))?)
///     })
///     .build()?;
///
/// reloader.prepare()?; // when the program starts; afterwards each reload does it
/// reloader.wrap(|execution| {
///     let running = execution.running().expect("there is an interlock");
///     Ok(assert_eq!(*settings.get(running).expect("it is prepared"), "read from a file"))
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Preparing<'a> {
    by: Option<&'a mut dyn Loads>,
}

impl<'a> Preparing<'a> {
    pub(crate) fn new(by: Option<&'a mut dyn Loads>) -> Self {
        Preparing { by }
    }

    /// Loads: at once after unloading, where nobody else runs; beside others, when none of them runs,
    /// which blocks the thread. A task that prepares beside others blocks none: if somebody runs, this is
    /// [`AcquireError::WouldBlock`], and a step that fails after that is called once more when nobody does.
    ///
    /// # Errors
    /// Those of [`Running::load`]: [`AcquireError::Nested`] where there is no share of its own to load by,
    /// in an executor without an interlock, or inside another execution on the same thread. `f` has not
    /// run.
    pub fn load<R>(&mut self, f: impl FnOnce(&mut Loading<'_>) -> R) -> Result<R, AcquireError> {
        let Some(by) = &mut self.by else { return Err(AcquireError::Nested) };
        let (mut f, mut result) = (Some(f), None);
        by.loads(&mut |loading| result = f.take().map(|f| f(loading)))?;
        Ok(result.expect("whoever loads calls it once"))
    }
}

impl fmt::Debug for Preparing<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Preparing").field("may_load", &self.by.is_some()).finish()
    }
}

/// What can be loaded by.
pub(crate) trait Loads {
    fn loads(&mut self, f: &mut dyn FnMut(&mut Loading<'_>)) -> Result<(), AcquireError>;
}

impl Loads for Running<'_> {
    fn loads(&mut self, f: &mut dyn FnMut(&mut Loading<'_>)) -> Result<(), AcquireError> {
        self.load(f)
    }
}

/// A task's share, by which it loads only if it need not wait.
pub(crate) struct AtOnce<'a, 'scope> {
    pub(crate) running: &'a mut Running<'scope>,
    /// It would have had to.
    pub(crate) refused: bool,
}

impl Loads for AtOnce<'_, '_> {
    fn loads(&mut self, f: &mut dyn FnMut(&mut Loading<'_>)) -> Result<(), AcquireError> {
        let loaded = self.running.load_at_once(f);
        self.refused |= matches!(loaded, Err(AcquireError::WouldBlock));
        loaded
    }
}

impl Loads for Loading<'_> {
    fn loads(&mut self, f: &mut dyn FnMut(&mut Loading<'_>)) -> Result<(), AcquireError> {
        f(self);
        Ok(())
    }
}

impl Loads for Unloading<'_> {
    fn loads(&mut self, f: &mut dyn FnMut(&mut Loading<'_>)) -> Result<(), AcquireError> {
        self.load(f);
        Ok(())
    }
}
