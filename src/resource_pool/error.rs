//! What can go wrong for a borrower.
//!
//! The text of an error has that of the factory's, which need not be an [`Error`]; so its `source` is the
//! factory's own, and no text is told twice.

use std::error::Error;
use std::fmt;

/// Why a call of the factory failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure<E> {
    /// It said so.
    Error(E),
    /// It panicked, with this message.
    Panicked(String),
}

impl<E> Failure<E> {
    pub(super) fn of<T>(result: Result<Result<T, E>, String>) -> Result<T, Failure<E>> {
        match result {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(Failure::Error(error)),
            Err(message) => Err(Failure::Panicked(message)),
        }
    }
}

impl<E: fmt::Display> fmt::Display for Failure<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Error(error) => error.fmt(f),
            Failure::Panicked(message) => write!(f, "panicked: {message}"),
        }
    }
}

/// Why the pool itself lends nothing.
// A whole word: what is returned with it is then copied by words, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Refusal {
    Closed,
    Exhausted,
    WouldBlock,
    /// Its time is up.
    TooLate,
}

/// Why a borrower gets nothing. Two words: a loan and this return in registers.
pub(crate) enum Denied<E> {
    Refused(Refusal),
    Failed(Box<BorrowError<E>>),
}

impl<E> Denied<E> {
    #[cold]
    pub(super) fn failed(error: BorrowError<E>) -> Self {
        Denied::Failed(Box::new(error))
    }
}

impl<E> From<Denied<E>> for BorrowError<E> {
    #[cold]
    fn from(denied: Denied<E>) -> Self {
        match denied {
            Denied::Refused(Refusal::Closed) => BorrowError::Closed,
            Denied::Refused(Refusal::Exhausted) => BorrowError::Exhausted,
            Denied::Refused(Refusal::WouldBlock) => BorrowError::WouldBlock,
            Denied::Refused(Refusal::TooLate) => BorrowError::TimedOut,
            Denied::Failed(error) => *error,
        }
    }
}

/// Why nothing was lent. `E` is the factory's error.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BorrowError<E> {
    /// The pool is closed.
    Closed,
    /// As many are lent as may be (`max_active`); or there is no stock, and no place for another (`max_total`,
    /// `max_total_per_key`), for what is being made for stock, tested or destroyed has its place, too. And the pool
    /// is built with [`WhenExhausted::Fail`](super::WhenExhausted::Fail).
    Exhausted,
    /// Nothing can be lent right now, to a call that does not wait.
    WouldBlock,
    /// Nothing could be lent in time: a wait was too long, or that of resources that then failed was.
    TimedOut,
    /// No resource could be made.
    Create(Failure<E>),
    /// A resource that had just been made could not be activated.
    Activate(Failure<E>),
    /// A resource that had just been made failed its test (`test_on_create`).
    Invalid,
}

impl<E: fmt::Display> fmt::Display for BorrowError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BorrowError::Closed => f.write_str("the pool is closed"),
            BorrowError::Exhausted => f.write_str("the pool is exhausted"),
            BorrowError::WouldBlock => f.write_str("nothing can be lent without waiting"),
            BorrowError::TimedOut => f.write_str("nothing could be lent in time"),
            BorrowError::Create(failure) => write!(f, "no resource could be made: {failure}"),
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
                e.source()
            }
            _ => None,
        }
    }
}

/// Why nothing was added to the stock. `E` is the factory's error.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AddError<E> {
    /// The pool is closed, or was while the resource was being made.
    Closed,
    /// `max_idle`, `max_total` or `max_total_per_key` is reached. What has been idle for too long counts until it
    /// is evicted. What was left unfinished of the key needs no more room; that of other keys counts for `max_total`.
    Full,
    /// No resource could be made.
    Create(Failure<E>),
    /// A resource that had just been made could not be passivated.
    Passivate(Failure<E>),
    /// The new resource failed its test (`test_on_create`).
    Invalid,
}

impl<E: fmt::Display> fmt::Display for AddError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AddError::Closed => f.write_str("the pool is closed"),
            AddError::Full => f.write_str("the pool has no room for more stock"),
            AddError::Create(failure) => write!(f, "no resource could be made: {failure}"),
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
            AddError::Create(Failure::Error(e)) | AddError::Passivate(Failure::Error(e)) => {
                e.source()
            }
            _ => None,
        }
    }
}
