//! The one operation of a preparation: loading.

use super::interlock::{AcquireError, Loading, Running, Unloading};
use std::fmt;

/// Given to each [preparation](super::ReloaderBuilder::to_prepare) of the world: it can load, wherever it is called.
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

    /// Calls `f` to load, while no other owner runs. After an unload that is at once. Otherwise it waits for the
    /// others, which blocks the thread.
    ///
    /// A task does not block: if another owner runs, this returns [`AcquireError::WouldBlock`]. A preparation that
    /// then fails is called once more when no owner runs.
    ///
    /// # Errors
    /// Those of [`Running::load`]. [`AcquireError::Nested`] without a share of its own to load by: in an executor
    /// without an interlock, or inside another execution on the same thread. `f` has not run.
    pub fn load<R>(&mut self, f: impl FnOnce(&mut Loading<'_>) -> R) -> Result<R, AcquireError> {
        let Some(by) = &mut self.by else { return Err(AcquireError::Nested) };
        let (mut f, mut result) = (Some(f), None);
        by.loads(&mut |loading| result = f.take().map(|f| f(loading)))?;
        Ok(result.expect("a load calls `f` once"))
    }
}

impl fmt::Debug for Preparing<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Preparing").field("may_load", &self.by.is_some()).finish()
    }
}

/// A share, or a section, that can load.
pub(crate) trait Loads {
    fn loads(&mut self, f: &mut dyn FnMut(&mut Loading<'_>)) -> Result<(), AcquireError>;
}

impl Loads for Running<'_> {
    fn loads(&mut self, f: &mut dyn FnMut(&mut Loading<'_>)) -> Result<(), AcquireError> {
        self.load(f)
    }
}

/// A task's share, which loads only without waiting.
pub(crate) struct AtOnce<'a, 'scope> {
    pub(crate) running: &'a mut Running<'scope>,
    /// Whether a load would have had to wait.
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
