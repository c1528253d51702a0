//! Calls of user code, and user values whose drop cannot unwind.
//!
//! The library catches each panic of user code where it calls that code. The panic becomes an error of
//! that call; it poisons no lock, and whatever follows the call still happens. The `Drop` of a user's value
//! is user code, too. Therefore the library stores user values as [`UserValue`], which contains that panic.

use std::any::Any;
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Begins the message of each panic that a model throws on purpose.
///
/// Under a model, [`catch`] contains only these: any other panic is a failed assertion or the tool's own report.
#[cfg(feature = "in-memory")]
pub(crate) const SCRIPTED: &str = "scripted panic";

/// Calls user code and returns its result, or the message of its panic.
#[inline]
pub(crate) fn contain<R>(user_code: impl FnOnce() -> R) -> Result<R, String> {
    catch(user_code).map_err(|payload| {
        let message = panic_message(&*payload);
        // The payload is a user value, too: its drop may panic. The payload of that panic is leaked, because its drop
        // may panic again, and so on.
        if let Err(another) = catch(|| drop(payload)) {
            std::mem::forget(another);
        }
        message
    })
}

/// Calls user code and returns its result, or its panic for a caller that resumes it.
#[inline]
pub(crate) fn catch<R>(user_code: impl FnOnce() -> R) -> std::thread::Result<R> {
    // "No user code under a lock" holds in every model, also where the user code does not re-enter the pool.
    #[cfg(all(test, any(feature = "loom", feature = "shuttle")))]
    assert!(
        crate::kernel::sync::has_failed() || crate::kernel::sync::held::by_me() == 0,
        "user code is called under a lock"
    );
    let result = catch_unwind(AssertUnwindSafe(user_code));
    #[cfg(all(test, any(feature = "loom", feature = "shuttle")))]
    if let Err(payload) = result {
        if !panic_message(&*payload).starts_with(SCRIPTED) {
            // A model's assertion, or the tool's own report of a deadlock: it must reach the tool.
            std::panic::resume_unwind(payload);
        }
        return Err(payload);
    }
    result
}

/// Drops a user value. Discards the message of a panic: no caller is left to report it to.
#[inline]
pub(crate) fn drop_contained<T>(value: T) {
    if std::mem::needs_drop::<T>() {
        let _ = contain(|| drop(value));
    }
}

/// Returns the message of a panic.
pub(crate) fn panic_message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|s| (*s).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a value that is not a string".to_owned())
}

/// Holds a value of the user's. Its drop contains a panic of the value's own drop.
pub(crate) struct UserValue<T>(
    /// `None` only once `into_inner` or `drop` has taken the value.
    Option<T>,
);

impl<T> UserValue<T> {
    pub(crate) fn new(value: T) -> Self {
        UserValue(Some(value))
    }
    pub(crate) fn into_inner(mut self) -> T {
        self.0.take().expect("only into_inner and drop take the value")
    }
}

/// Holds a value of the user's whose drop may take long, such as a process that waits for its child. A thread of
/// its own drops the value, so that no caller and no thread of the library waits for it.
pub(crate) struct SlowDrop<T: Send + 'static>(
    /// `None` only in `drop`.
    Option<UserValue<T>>,
);

impl<T: Send + 'static> SlowDrop<T> {
    pub(crate) fn new(value: T) -> Self {
        SlowDrop(Some(UserValue::new(value)))
    }
}

impl<T: Send + 'static> Deref for SlowDrop<T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        self.0.as_ref().expect("only drop takes the value")
    }
}

impl<T: Send + 'static> Drop for SlowDrop<T> {
    fn drop(&mut self) {
        let value = self.0.take();
        // In a model the drop of a process takes no time, and one thread more would multiply the interleavings.
        let at_once = cfg!(all(test, any(feature = "loom", feature = "shuttle")));
        if std::mem::needs_drop::<T>() && !at_once {
            // A thread that cannot be started drops its closure, and with it the value, here.
            let _ = crate::kernel::sync::thread::start("cabrank drop", None, move || drop(value));
        }
    }
}

impl<T> Deref for UserValue<T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        self.0.as_ref().expect("only into_inner and drop take the value")
    }
}

impl<T> DerefMut for UserValue<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect("only into_inner and drop take the value")
    }
}

impl<T> Drop for UserValue<T> {
    fn drop(&mut self) {
        if let Some(value) = self.0.take() {
            drop_contained(value);
        }
    }
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;

    struct PanicsOnDrop;
    impl Drop for PanicsOnDrop {
        fn drop(&mut self) {
            // Without the panic hook, which would print it.
            std::panic::resume_unwind(Box::new("in drop"));
        }
    }

    /// The drop of what a panic carries is user code, too, and may panic again.
    #[test]
    fn a_panic_whose_value_panics_when_it_is_dropped_is_contained() {
        let thrown = || std::panic::resume_unwind(Box::new(PanicsOnDrop));
        let said = catch_unwind(|| contain(thrown));
        assert!(said.is_ok_and(|said| said == Err("a value that is not a string".to_owned())));
    }

    /// `panic!` carries a text of either kind, depending on its arguments.
    #[test]
    fn the_message_of_each_panic_is_its_text() {
        let said = |panics: fn()| contain(panics).expect_err("it panics");
        let resume = |payload: Box<dyn Any + Send>| std::panic::resume_unwind(payload);
        assert_eq!(said(|| std::panic::resume_unwind(Box::new("a literal"))), "a literal");
        let formatted = contain(|| resume(Box::new(format!("{} of {}", 1, 2))));
        assert_eq!(formatted, Err::<(), _>("1 of 2".to_owned()));
    }

    /// The caller goes on, while another thread drops the value.
    #[test]
    fn a_slow_drop_takes_no_time_of_its_caller() {
        use std::sync::mpsc::{Receiver, Sender, channel};
        struct Slow(Receiver<()>, Sender<std::thread::ThreadId>);
        impl Drop for Slow {
            fn drop(&mut self) {
                let _ = self.0.recv();
                let _ = self.1.send(std::thread::current().id());
            }
        }
        let ((go, gone), (sender, dropped)) = (channel(), channel());
        let slow = SlowDrop::new(Slow(gone, sender));
        let caller = std::thread::spawn(move || {
            drop(slow);
            go.send(()).expect("the value is there");
            std::thread::current().id()
        });
        let minute = std::time::Duration::from_secs(60);
        let by = dropped.recv_timeout(minute).expect("the caller has gone on");
        assert_ne!(by, caller.join().expect("no panic"));
    }

    #[test]
    fn what_a_panic_carries_is_freed() {
        let carried = std::sync::Arc::new(());
        let theirs = carried.clone();
        let said = contain(|| std::panic::resume_unwind(Box::new(theirs)));
        assert_eq!(said, Err::<(), _>("a value that is not a string".to_owned()));
        assert_eq!(std::sync::Arc::strong_count(&carried), 1);
    }

    #[test]
    fn a_value_that_panics_when_it_is_dropped_is_contained() {
        drop_contained(PanicsOnDrop);
        drop(UserValue::new(PanicsOnDrop));
        assert!(catch_unwind(|| drop(PanicsOnDrop)).is_err());
    }
}
