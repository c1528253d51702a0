//! tokio as the runtime of executors and pools (feature `tokio`).

use crate::kernel::runtime::{BoxFuture, Runtime};
use std::time::Instant;
use tokio::runtime::{Handle, TryCurrentError};

/// Runs the tasks of an executor, or of a pool, on a tokio runtime.
///
/// The runtime needs its timer (`enable_time`). Threads outside the runtime may use the executor or the pool as well.
/// If the runtime shuts down, it drops the tasks.
///
/// ```
/// use cabrank::periodic_executor::Tokio;
/// use cabrank::resource_pool::{Async, AsyncResourceFactory, AsyncResourcePool};
/// use std::time::Duration;
///
/// struct Connections;
/// impl AsyncResourceFactory for Connections {
///     type Resource = String; // a connection
///     type Metadata = String; // where to connect to
///     type Error = std::io::Error;
///     async fn create(&self, address: &String) -> std::io::Result<String> {
///         Ok(format!("connection to {address}"))
///     }
/// }
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let pool = AsyncResourcePool::builder(Async(Connections), "db.example".to_owned())
///     .max_idle_time(Duration::from_secs(600))
///     .create_timeout(Duration::from_secs(5))
///     .build_on(Tokio::current())?;
/// assert_eq!(*pool.borrow_async().await?, "connection to db.example");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Paused time
/// Under tokio's paused time, the interval of an [`AsyncPeriodicExecutor`](super::AsyncPeriodicExecutor) and the time
/// limits of a pool follow tokio's time. Idle times and lifetimes do not: they follow the pool's clock. A test that
/// lets them pass gives the pool a [`ManualClock`](crate::ManualClock).
#[derive(Clone, Debug)]
pub struct Tokio(Handle);

impl Tokio {
    /// Returns the runtime that polls the caller.
    ///
    /// # Panics
    /// Panics outside a tokio runtime.
    #[track_caller]
    pub fn current() -> Self {
        Tokio(Handle::current())
    }

    /// Returns the runtime that polls the caller.
    ///
    /// # Errors
    /// Returns tokio's error outside a tokio runtime.
    pub fn try_current() -> Result<Self, TryCurrentError> {
        Handle::try_current().map(Tokio)
    }
}

impl From<Handle> for Tokio {
    fn from(handle: Handle) -> Self {
        Tokio(handle)
    }
}

impl Runtime for Tokio {
    type Sleep = tokio::time::Sleep;

    fn spawn(&self, task: BoxFuture<()>) {
        self.0.spawn(task);
    }

    fn sleep_until(&self, at: Instant) -> tokio::time::Sleep {
        // A thread outside the runtime may set a timer, too.
        let _inside = self.0.enter();
        // tokio's time may differ from the system's after a test has paused it, so only the rest of the time counts.
        tokio::time::sleep(at.saturating_duration_since(Instant::now()))
    }
}
