//! UserValue code and foreign values: what the user gave, and the library calls and drops.
//!
//! A panic in it is caught where it is called, and becomes an error of that call; it poisons nothing
//! and keeps nothing else from happening (rule 7). To drop a user's value is to call foreign code, so
//! what is kept of the user's is kept as a [`UserValue`], whose drop is contained.

use std::any::Any;
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Calls foreign code; a panic becomes its message.
#[inline]
pub(crate) fn contain<R>(foreign: impl FnOnce() -> R) -> Result<R, String> {
    catch(foreign).map_err(|payload| {
        let message = panic_message(&*payload);
        // What was thrown is foreign, too, and may panic when it is dropped.
        std::mem::forget(payload);
        message
    })
}

/// Calls foreign code; a panic is kept, for who will let it go on.
#[inline]
pub(crate) fn catch<R>(foreign: impl FnOnce() -> R) -> std::thread::Result<R> {
    // Rule 1, in every model, whether its foreign code re-enters the pool or not.
    #[cfg(all(test, any(feature = "loom", feature = "shuttle")))]
    assert!(
        crate::sync::has_failed() || crate::sync::held::by_me() == 0,
        "foreign code is called under a lock"
    );
    let result = catch_unwind(AssertUnwindSafe(foreign));
    #[cfg(all(test, any(feature = "loom", feature = "shuttle")))]
    if let Err(payload) = result {
        if !panic_message(&*payload).starts_with(crate::in_memory::SCRIPTED) {
            // A model's assertion, or the tool's own report of a deadlock: not for us to contain.
            std::panic::resume_unwind(payload);
        }
        return Err(payload);
    }
    result
}

/// Drops something foreign: its panic has nobody to be told to.
#[inline]
pub(crate) fn drop_contained<T>(foreign: T) {
    if std::mem::needs_drop::<T>() {
        let _ = contain(|| drop(foreign));
    }
}

/// What a panic said.
pub(crate) fn panic_message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|s| (*s).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a value that is no text".to_owned())
}

/// A value of the user's. Whoever drops it, wherever: a panic of its drop goes no further.
pub(crate) struct UserValue<T>(
    /// Absent only once it has been taken out.
    Option<T>,
);

impl<T> UserValue<T> {
    pub(crate) fn new(value: T) -> Self {
        UserValue(Some(value))
    }
    pub(crate) fn into_inner(mut self) -> T {
        self.0.take().expect("taken only here, and when it is dropped")
    }
}

impl<T> Deref for UserValue<T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        self.0.as_ref().expect("taken only by those who consume it")
    }
}

impl<T> DerefMut for UserValue<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect("taken only by those who consume it")
    }
}

impl<T> Drop for UserValue<T> {
    fn drop(&mut self) {
        if let Some(value) = self.0.take() {
            drop_contained(value);
        }
    }
}
