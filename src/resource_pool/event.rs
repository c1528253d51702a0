//! What a pool tells its listener: what goes wrong where no borrower could be told.
//!
//! What fails that was made for one borrower, or for one `add`, is the error of that call and told to nobody
//! else; but for the message of a test that panicked, which those errors do not have.

use super::error::Failure;
use std::time::Duration;

/// Something went wrong in the background, or a borrower keeps what it was lent. `E` is the factory's
/// error.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<E> {
    /// No resource could be made for stock; or a borrower had taken over what another had begun to make, and that
    /// failed: it then makes one itself.
    CreateFailed(Failure<E>),
    /// A resource could not be activated, and is destroyed; its borrower gets another.
    ActivateFailed(Failure<E>),
    /// A resource could not be passivated, and is destroyed.
    PassivateFailed(Failure<E>),
    /// A test panicked with this message; the resource is destroyed.
    ValidatePanicked(String),
    /// A resource failed its test, and is destroyed.
    Invalid,
    /// The destruction panicked with this message. The resource counts as destroyed.
    DestroyPanicked(String),
    /// What is due cannot be done, for this reason: no thread could be started, the runtime took no task,
    /// or its timer panicked, which is told once of evictions and once of stock, until one of their timers works again.
    /// That is tried again when something is due again, also by what a listener does that is told of it; but it is not
    /// told of this within itself.
    MaintenanceNotStarted(String),
    /// A resource has been lent for longer than `abandoned_after`.
    Abandoned {
        /// The number of the resource, as in the snapshot.
        id: u64,
        /// For how long it has been lent.
        lent_for: Duration,
        /// Whether its place was given to others; it is then destroyed when it comes back.
        removed: bool,
    },
}
