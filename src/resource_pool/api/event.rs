//! The events that a pool reports to its listener: failures that are no borrower's error.
//!
//! A failure of a resource that was created for one borrower, or for one `add`, is the error of that call. It is not
//! reported as well, except for a test that panicked or took too long, which those errors do not tell.

use super::error::Failure;
use crate::resource_pool::state::effects::Abandoned;
use std::panic::Location;
use std::time::Duration;

/// A failure in the background, or a loan that looks abandoned. `E` is the factory's error.
///
/// ```
#[doc = include_str!("example.txt")]
/// use cabrank::resource_pool::Event;
/// use std::time::Duration;
///
/// let pool = ResourcePool::builder(Connections, "db.example")
///     .abandoned_after(Duration::from_secs(60))
///     .listener(|address, event| match event {
///         Event::Abandoned { id, lent_for, .. } => eprintln!("{address}: {id} is lent for {lent_for:?}"),
///         other => eprintln!("{address}: {other:?}"),
///     })
///     .build()?;
/// # drop(pool);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<E> {
    /// A creation failed that is no borrower's error: none waited when it began, or the one that got the error has left.
    CreateFailed(Failure<E>),
    /// A resource could not be activated, and is destroyed. Its borrower gets another one.
    ActivateFailed(Failure<E>),
    /// A resource could not be passivated, and is destroyed.
    PassivateFailed(Failure<E>),
    /// A test panicked with this message; the resource is destroyed.
    ValidatePanicked(String),
    /// A test took longer than `validate_timeout`; the resource is destroyed.
    ValidateTimedOut,
    /// A resource failed its test, and is destroyed.
    Invalid,
    /// The destruction panicked with this message. The resource counts as destroyed.
    DestroyPanicked(String),
    /// A destruction took longer than `destroy_timeout`, and was dropped. The resource counts as destroyed.
    DestroyTimedOut,
    /// The maintenance could not run, for this reason: no thread or task started, or the runtime's timer panicked.
    ///
    /// Reported once for evictions and once for refills, until they have started, or one of their timers has worked, again.
    /// The next due work tries again.
    MaintenanceNotStarted(String),
    /// The runtime that the pool was built on has ended, or its timer panicked.
    ///
    /// The pool goes on without it, as if `build_async` had built it, until the runtime takes tasks again. Reported for any key,
    /// once for each end.
    RuntimeEnded,
    /// A resource has been lent for longer than `abandoned_after`.
    Abandoned {
        /// The number of the resource, as in the snapshot.
        id: u64,
        /// How long it has been lent.
        lent_for: Duration,
        /// Whether its place was given to others. It is then destroyed when it is returned.
        removed: bool,
        /// The label that the borrower set by [`Borrowed::set_label`](crate::resource_pool::Borrowed::set_label).
        label: Option<Box<str>>,
        /// The call that borrowed it.
        borrowed_at: &'static Location<'static>,
    },
}

impl<E> From<Abandoned> for Event<E> {
    fn from(loan: Abandoned) -> Self {
        let Abandoned { id, lent_for, removed, label, borrowed_at } = loan;
        Event::Abandoned { id, lent_for, removed, label, borrowed_at }
    }
}
