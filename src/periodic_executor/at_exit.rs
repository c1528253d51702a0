//! The shutdown at the end of `main`.

use super::registry::{Registry, ShutdownError};
use std::fmt;
use std::time::Duration;

/// Shuts down a registry when it is dropped, so that no executor outlives `main`.
///
/// Keep it in a variable at the top of `main`: it is then dropped last, also where `main` returns early or panics.
/// Executors that are late are reported on standard error, or by [`report`](Self::report).
/// [`std::process::exit`] drops no variable: call [`shutdown`](Self::shutdown) before it.
///
/// ```
/// use cabrank::PeriodicExecutor;
/// use cabrank::periodic_executor::ShutdownAtExit;
/// use std::time::Duration;
///
/// fn main() -> Result<(), Box<dyn std::error::Error>> {
///     let _shutdown = ShutdownAtExit::new(Duration::from_secs(2));
///     let heartbeat = PeriodicExecutor::builder(Duration::from_secs(60)).build(|| println!("alive"));
///     heartbeat.open()?;
///     Ok(()) // the heartbeat's thread is gone when `main` returns
/// }
/// ```
#[must_use = "it shuts down where it is dropped: keep it in a variable of `main`"]
pub struct ShutdownAtExit {
    /// `None`: that of the process, which may have been forked since.
    registry: Option<Registry>,
    timeout: Duration,
    report: Option<Report>,
}

type Report = Box<dyn FnOnce(ShutdownError) + Send>;

impl ShutdownAtExit {
    /// Returns a guard that shuts down the registry of the process, and waits for at most `timeout`.
    pub fn new(timeout: Duration) -> Self {
        ShutdownAtExit { registry: None, timeout, report: Some(Box::new(print)) }
    }
    /// Returns a guard that shuts down `registry`, and waits for at most `timeout`.
    pub fn of(registry: &Registry, timeout: Duration) -> Self {
        let mut guard = ShutdownAtExit::new(timeout);
        guard.registry = Some(registry.clone());
        guard
    }
    /// Sets what the drop does with the names of executors that are late. Default: it prints them on standard error.
    pub fn report(mut self, report: impl FnOnce(ShutdownError) + Send + 'static) -> Self {
        self.report = Some(Box::new(report));
        self
    }
    /// Shuts down now.
    ///
    /// # Errors
    /// Names the executors that have not ended in time.
    pub fn shutdown(mut self) -> Result<(), ShutdownError> {
        self.report = None;
        self.now()
    }
    fn now(&self) -> Result<(), ShutdownError> {
        let registry = self.registry.clone().unwrap_or_else(Registry::of_the_process);
        registry.shutdown(self.timeout)
    }
}

fn print(late: ShutdownError) {
    eprintln!("periodic executors: {late}");
}

impl Drop for ShutdownAtExit {
    fn drop(&mut self) {
        if let Some(report) = self.report.take() {
            if let Err(error) = self.now() {
                report(error);
            }
        }
    }
}

impl fmt::Debug for ShutdownAtExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShutdownAtExit").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}
