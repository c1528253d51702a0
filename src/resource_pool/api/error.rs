//! The errors of a borrower, and of a caller that adds.
//!
//! The factory's error need not be an [`Error`], so the text of an error here includes that of the factory's. `source` returns the
//! factory's error itself: a program looks for its type in the chain of causes, as with other pools. A report of the
//! whole chain therefore has its text twice.

use crate::resource_pool::api::shortage::Shortage;
use crate::resource_pool::state::refusal::{NotAdded, Refusal};
use std::error::Error;
use std::fmt;

const FORKED: &str = "the pool belongs to the parent of this forked process";

/// Why a call of the factory failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failure<E> {
    /// It returned this error.
    Error(E),
    /// It panicked, with this message.
    Panicked(String),
    /// It took longer than the pool's limit for it.
    TimedOut,
}

impl<E> Failure<E> {
    pub(crate) fn of<T>(result: Result<Result<T, E>, String>) -> Result<T, Failure<E>> {
        match result {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(Failure::Error(error)),
            Err(message) => Err(Failure::Panicked(message)),
        }
    }
    #[inline]
    pub(crate) fn boxed<T>(result: Result<Result<T, E>, String>) -> Result<T, Box<Failure<E>>> {
        Failure::of(result).map_err(Box::new)
    }
}

impl<E: fmt::Display> fmt::Display for Failure<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Error(error) => error.fmt(f),
            Failure::Panicked(message) => write!(f, "panicked: {message}"),
            Failure::TimedOut => f.write_str("took too long"),
        }
    }
}

/// A failed borrow. Two words, like a loan, so that either is returned in registers.
pub(crate) enum Denied<E> {
    Refused(Refusal),
    Failed(Box<BorrowError<E>>),
}

impl<E> Denied<E> {
    #[cold]
    pub(crate) fn failed(error: BorrowError<E>) -> Self {
        Denied::Failed(Box::new(error))
    }
}

impl<E> Denied<E> {
    /// Returns the error of the caller. `shortage` looks at what it waited for.
    #[cold]
    pub(crate) fn into_error(self, shortage: impl FnOnce() -> Shortage) -> BorrowError<E> {
        match self {
            Denied::Refused(Refusal::Closed) => BorrowError::Closed,
            Denied::Refused(Refusal::Forked) => BorrowError::Forked,
            Denied::Refused(Refusal::Exhausted) => BorrowError::Exhausted,
            Denied::Refused(Refusal::WouldBlock) => BorrowError::WouldBlock,
            Denied::Refused(Refusal::TooLate) => BorrowError::TimedOut(Box::new(shortage())),
            Denied::Failed(error) => *error,
        }
    }
}

/// The error of a borrow. `E` is the factory's error, which is also the `source`.
///
/// ```
#[doc = include_str!("example.txt")]
/// # let pool = ResourcePool::builder(Connections, "db.example").max_active(1).build()?;
/// use cabrank::resource_pool::{BorrowError, Failure};
///
/// let borrowed = match pool.try_borrow() {
///     Ok(connection) => Some(connection),
///     Err(BorrowError::WouldBlock | BorrowError::TimedOut(_)) => None, // all are lent: try again later
///     Err(BorrowError::Create(Failure::Error(refused))) => return Err(refused.into()),
///     Err(error) => return Err(error.into()),
/// };
/// assert!(borrowed.is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BorrowError<E> {
    /// The pool is closed.
    Closed,
    /// This process was forked from that of the pool: see [forked children](super::super#forked-children).
    Forked,
    /// A limit is reached, in a pool built with [`WhenExhausted::Fail`](crate::resource_pool::WhenExhausted::Fail).
    ///
    /// Either `max_active` resources are lent; or no resource is idle and `max_total` or `max_total_per_key` exist,
    /// including those that are being created, tested or destroyed.
    Exhausted,
    /// The call does not wait, and would have to.
    WouldBlock,
    /// The timeout, or `max_wait`, has passed. It says what the pool had at that moment.
    TimedOut(Box<Shortage>),
    /// The creation failed.
    Create(Failure<E>),
    /// The new resource could not be activated.
    Activate(Failure<E>),
    /// The new resource failed its test (`test_on_create`).
    Invalid,
}

impl<E: fmt::Display> fmt::Display for BorrowError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BorrowError::Closed => f.write_str("the pool is closed"),
            BorrowError::Forked => f.write_str(FORKED),
            BorrowError::Exhausted => f.write_str("the pool is exhausted"),
            BorrowError::WouldBlock => f.write_str("no resource can be lent without waiting"),
            BorrowError::TimedOut(why) => write!(f, "no resource could be lent in time: {why}"),
            BorrowError::Create(failure) => write!(f, "no resource could be created: {failure}"),
            BorrowError::Activate(failure) => {
                write!(f, "the new resource could not be activated: {failure}")
            }
            BorrowError::Invalid => f.write_str("the new resource failed its test"),
        }
    }
}

impl<E: Error + 'static> Error for BorrowError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            BorrowError::Create(Failure::Error(e)) | BorrowError::Activate(Failure::Error(e)) => {
                Some(e)
            }
            _ => None,
        }
    }
}

/// The error of a call to add. `E` is the factory's error, which is also the `source`.
///
/// ```
#[doc = include_str!("example.txt")]
/// use cabrank::resource_pool::AddError;
///
/// let pool = ResourcePool::builder(Connections, "db.example").max_idle(1).build()?;
/// pool.add()?;
/// assert!(matches!(pool.add(), Err(AddError::Full)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AddError<E> {
    /// The pool is closed, or was closed during the creation.
    Closed,
    /// This process was forked from that of the pool: see [forked children](super::super#forked-children).
    Forked,
    /// `max_idle`, `max_total` or `max_total_per_key` is reached.
    ///
    /// Expired resources count until they are evicted.
    Full,
    /// The creation failed.
    Create(Failure<E>),
    /// The new resource could not be passivated.
    Passivate(Failure<E>),
    /// The new resource failed its test (`test_on_create`).
    Invalid,
}

impl<E> From<NotAdded> for AddError<E> {
    fn from(why: NotAdded) -> Self {
        match why {
            NotAdded::Closed => AddError::Closed,
            NotAdded::Full => AddError::Full,
        }
    }
}

impl<E: fmt::Display> fmt::Display for AddError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AddError::Closed => f.write_str("the pool is closed"),
            AddError::Forked => f.write_str(FORKED),
            AddError::Full => f.write_str("the pool has no room for another idle resource"),
            AddError::Create(failure) => write!(f, "no resource could be created: {failure}"),
            AddError::Passivate(failure) => {
                write!(f, "the new resource could not be passivated: {failure}")
            }
            AddError::Invalid => f.write_str("the new resource failed its test"),
        }
    }
}

impl<E: Error + 'static> Error for AddError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            AddError::Create(Failure::Error(e)) | AddError::Passivate(Failure::Error(e)) => Some(e),
            _ => None,
        }
    }
}
