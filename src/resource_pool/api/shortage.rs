//! The state of a key, in the error of a borrower that has waited in vain.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The state of a key when a borrower of it gave up: see
/// [`BorrowError::TimedOut`](crate::resource_pool::BorrowError::TimedOut).
///
/// ```
#[doc = include_str!("example.txt")]
/// # let pool = ResourcePool::builder(Connections, "db.example").max_active(1).build()?;
/// use cabrank::resource_pool::BorrowError;
/// use std::time::Duration;
///
/// let only = pool.borrow()?;
/// let Err(error) = pool.borrow_timeout(Duration::from_millis(1)) else { unreachable!() };
/// assert_eq!(
///     error.to_string(),
///     "no resource could be lent in time: 1 lent, 0 idle, 0 being created, 0 other borrowers waiting",
/// );
/// let BorrowError::TimedOut(shortage) = error else { unreachable!() };
/// assert_eq!((shortage.active, shortage.idle), (1, 0));
/// # drop(only);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Shortage {
    /// The pool's name, if it has one.
    pub pool: Option<Arc<str>>,
    /// The key or the metadata, as the factory's `describe` names it.
    pub key: Option<String>,
    /// Resources of the key that are lent, or reserved for a borrower.
    pub active: usize,
    /// Idle resources of the key.
    pub idle: usize,
    /// Resources of the key that the pool, or a caller that adds, is creating.
    pub creating: usize,
    /// The other borrowers of the key that wait.
    pub waiting: usize,
    /// Resources of other keys, which count for `max_total`.
    pub of_other_keys: usize,
    /// The last creation of the key that failed.
    pub last_failure: Option<LastFailure>,
}

/// A creation that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LastFailure {
    /// The text of the factory's error, or of its panic.
    pub text: Arc<str>,
    /// The time since it failed.
    pub ago: Duration,
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.pool, &self.key) {
            (Some(pool), Some(key)) => write!(f, "pool {pool}, {key}: ")?,
            (Some(pool), None) => write!(f, "pool {pool}: ")?,
            (None, Some(key)) => write!(f, "{key}: ")?,
            (None, None) => {}
        }
        let Shortage { active, idle, creating, waiting, of_other_keys, .. } = self;
        write!(f, "{active} lent, {idle} idle, {creating} being created, ")?;
        write!(f, "{waiting} other borrowers waiting")?;
        if *of_other_keys > 0 {
            write!(f, ", {of_other_keys} of other keys")?;
        }
        if let Some(LastFailure { text, ago }) = &self.last_failure {
            write!(f, "; a creation failed {ago:.1?} ago: {text}")?;
        }
        Ok(())
    }
}
