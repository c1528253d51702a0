//! Why the pool itself refuses a call. `error.rs` has the errors that its callers get.

/// A refusal of the pool itself.
// A whole word, so that a value with it is copied by words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Refusal {
    Closed,
    /// The pool is that of a parent process.
    Forked,
    Exhausted,
    WouldBlock,
    /// The timeout has passed.
    TooLate,
}

/// Why no place is reserved for a resource to add.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotAdded {
    Closed,
    /// A limit is reached.
    Full,
}
