//! Values that belong to one execution, in a map by its number. A call takes its value out, so user code runs without
//! the lock.

use super::ambient;
use super::error::BoxError;
use super::hooks::Hook;
use crate::kernel::sync::Mutex;
use crate::kernel::user_code::{UserValue, catch};
use std::collections::HashMap;
use std::fmt;
use std::mem::replace;
use std::panic::resume_unwind;
use std::sync::Arc;

/// A value of each execution: made at its first use there, and dropped at the execution's end. Cheap to clone: all
/// clones are the same.
///
/// It is a hook of the executors whose executions have such a value. Here, an execution borrows a connection when it
/// first needs one, and gives it back at its end, on any thread:
///
/// ```
/// use cabrank::execution::{Executor, PerExecution};
/// use cabrank::resource_pool::{Borrowed, ResourceFactory, ResourcePool};
/// # struct Connections;
/// # impl ResourceFactory for Connections {
/// #     type Resource = String;
/// #     type Metadata = &'static str;
/// #     type Error = std::io::Error;
/// #     fn create(&self, address: &&'static str) -> std::io::Result<String> {
/// #         Ok(format!("connection to {address}"))
/// #     }
/// # }
///
/// let pool = ResourcePool::builder(Connections, "db.example").build()?;
/// let lender = pool.clone();
/// let connection = PerExecution::new(move || Ok(Borrowed::into_owned(lender.borrow()?)));
/// let executor = Executor::builder().hook(connection.clone()).build();
///
/// executor.wrap(|_| {
///     connection.with(|connection| println!("the first use of {connection:?}"))?;
///     connection.with(|connection| println!("the second use of {connection:?}"))
/// })?;
/// assert_eq!(pool.num_active(), 0); // it was given back
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct PerExecution<T>(Arc<Inner<T>>);

struct Inner<T> {
    make: Box<dyn Fn() -> Result<T, BoxError> + Send + Sync>,
    /// By the number of the execution.
    values: Mutex<HashMap<u64, Slot<T>>>,
}

enum Slot<T> {
    /// Not made yet.
    Empty,
    Present(UserValue<T>),
    /// A call makes it, or uses it.
    Taken,
}

impl<T: Send + 'static> PerExecution<T> {
    /// Returns a hook whose executions each have a value that `make` returns.
    pub fn new(make: impl Fn() -> Result<T, BoxError> + Send + Sync + 'static) -> Self {
        PerExecution(Arc::new(Inner { make: Box::new(make), values: Mutex::new(HashMap::new()) }))
    }

    /// Calls `f` with the value of the execution that this thread is in. At the first call there, makes the value.
    ///
    /// # Errors
    /// - The error of `make`. The next call tries again.
    /// - This thread is in no execution of an executor with this hook.
    /// - Another call of the execution uses the value, because `f` calls this again.
    pub fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> Result<R, BoxError> {
        let found = ambient::executions(|execution| {
            let slot = replace(self.0.values.lock().get_mut(&execution)?, Slot::Taken);
            Some(Taken { home: &self.0, execution, slot })
        });
        let mut taken = found.ok_or("there is no execution with this value here")?;
        if let Slot::Empty = taken.slot {
            // Caught, so that the models see this call of user code. Its panic is the caller's.
            let made = catch(|| (self.0.make)()).unwrap_or_else(|panic| resume_unwind(panic));
            taken.slot = Slot::Present(UserValue::new(made?));
        }
        match &mut taken.slot {
            Slot::Present(value) => Ok(f(value)),
            _ => Err("the execution already uses its value".into()),
        }
    }
}

/// Puts the value back, also after a panic.
struct Taken<'a, T> {
    home: &'a Inner<T>,
    execution: u64,
    slot: Slot<T>,
}

impl<T> Drop for Taken<'_, T> {
    fn drop(&mut self) {
        // If the execution has ended meanwhile, its value is dropped with `self`, without the lock.
        if let Some(place) = self.home.values.lock().get_mut(&self.execution) {
            *place = replace(&mut self.slot, Slot::Taken);
        }
    }
}

impl<T: Send + 'static> Hook for PerExecution<T> {
    type State = u64;
    fn run(&self) -> Result<u64, BoxError> {
        let execution = ambient::executions(Some).ok_or("a hook runs inside its execution")?;
        self.0.values.lock().insert(execution, Slot::Empty);
        Ok(execution)
    }
    fn complete(&self, execution: u64) -> Result<(), BoxError> {
        let slot = self.0.values.lock().remove(&execution);
        if let Some(Slot::Present(value)) = slot {
            drop(value.into_inner()); // a panic is this hook's failure
        }
        Ok(())
    }
}

impl<T> Clone for PerExecution<T> {
    fn clone(&self) -> Self {
        PerExecution(self.0.clone())
    }
}

impl<T> fmt::Debug for PerExecution<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PerExecution").finish_non_exhaustive()
    }
}
