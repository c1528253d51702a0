//! Children: executions that their parent declares to wait for.

use super::ambient::ambient_is_not_alone;
use super::error::{AcquireError, Deadlock};
use super::inner::{Inner, Limit};
use super::modes::Mode;
use super::owner::{Lineage, Record};
use super::running::Running;
use super::state::State;
use crate::collections::slab_list::Key;
use crate::section::Guarded;
use crate::sync::has_failed;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

impl Running<'_> {
    /// Runs `f`, which waits until all [children](Self::child) have ended, and keeps the share.
    ///
    /// Executions begun by a guard inside this one are children, too. A child that `f` does not wait for
    /// still counts: its load may be refused although it would only have waited longer.
    ///
    /// A child that waits to load waits for this share. The interlock detects this deadlock, and refuses the
    /// call that completes it: the child's load or this wait.
    ///
    /// # Errors
    /// [`AcquireError::Deadlock`] if a child waits to load. [`AcquireError::Nested`] inside an exclusive
    /// section, if there are children: they may have to wait for its end. `f` has not run.
    ///
    /// ```
    /// use cabrank::execution::interlock::AcquireError::Nested;
    ///
    /// let interlock = cabrank::Interlock::new();
    /// let mut running = interlock.enter();
    /// let child = running.child();
    /// let inside = || interlock.run(|r| r.waiting(|| unreachable!("it would wait for ever")));
    /// assert!(matches!(running.load(|_| inside()), Ok(Err(Nested))));
    /// drop(child);
    /// running.waiting(|| ()).expect("no child is left");
    /// ```
    pub fn waiting<R>(&self, f: impl FnOnce() -> R) -> Result<R, AcquireError> {
        // Only an owner with its share is in a deadlock that the interlock sees.
        self.share_within(Limit::Forever)?;
        let _declared = self.declared()?;
        Ok(f())
    }

    /// [`waiting`](Self::waiting) around a future.
    ///
    /// # Errors
    /// Those of `waiting`.
    ///
    /// # Cancel safety
    /// Dropping the future ends the wait.
    pub async fn waiting_async<F: Future>(&self, future: F) -> Result<F::Output, AcquireError> {
        self.await_share_async().await;
        let _declared = self.declared()?;
        Ok(future.await)
    }
    fn declared(&self) -> Result<Option<Declared<'_>>, AcquireError> {
        let record = self.record();
        Ok(match self.has_share() {
            true => record.declare()?.then_some(Declared(record)),
            false => None,
        })
    }

    /// Returns a token that begins an execution for which this one may wait.
    ///
    /// The child enters even if an unload waits, because the unload waits for its parent.
    ///
    /// ```
    /// let interlock = cabrank::Interlock::new();
    /// interlock.run(|r| {
    ///     let child = r.child();
    ///     let thread = std::thread::spawn(move || child.run(|r| r.load(|_| 7).unwrap()));
    ///     assert_eq!(r.join(thread).unwrap().unwrap(), 7);
    /// });
    /// ```
    pub fn child(&self) -> Child {
        Child::of(self.record(), self.lineage.clone())
    }
}

struct Declared<'a>(&'a Record);

impl Drop for Declared<'_> {
    fn drop(&mut self) {
        if !has_failed() {
            self.0.home.slowly(|state| state.undeclare(self.0.key()));
        }
    }
}

impl Record {
    fn declare(&self) -> Result<bool, AcquireError> {
        self.home.slowly(|state| {
            state.adopt(self.key());
            state.declare(self.key())
        })
    }
}

impl State {
    /// Declares a wait for the children. Returns false if it does not count.
    fn declare(&mut self, key: Key) -> Result<bool, AcquireError> {
        match self.owner(key).mode {
            Mode::Running => {
                self.change(key, |owner| owner.declared += 1);
                if self.tally.blocked == 0 {
                    return Ok(true);
                }
                let deadlock = Deadlock::of(self, key, &[]);
                self.undeclare(key);
                Err(deadlock)
            }
            // A child may have to wait for the holder, so the holder waits for no child.
            Mode::Holding if self.owner(key).live_children().0 > 0 => Err(AcquireError::Nested),
            _ => Ok(false),
        }
    }
    /// The same at the begin of a permit block, which a deadlock takes back.
    pub(super) fn start_awaiting(&mut self, key: Key) -> Result<(), AcquireError> {
        self.change(key, |owner| owner.awaits.push(owner.permits));
        if self.tally.blocked == 0 {
            return Ok(());
        }
        let deadlock = Deadlock::of(self, key, &[]);
        self.resume(key, true);
        Err(deadlock)
    }
    fn undeclare(&mut self, key: Key) {
        // It is 0 already if the owner was forfeited meanwhile.
        self.change(key, |owner| owner.declared = owner.declared.saturating_sub(1));
    }
}

/// A token that begins one execution as a child of another.
///
/// For a thread or task that the parent waits for. See [`Running::child`].
#[must_use = "a parent that waits for its children waits for this one, too"]
pub struct Child {
    home: Arc<Inner>,
    lineage: Option<Arc<Lineage>>,
}

impl Child {
    /// Runs `f` in the child's execution.
    ///
    /// # Panics
    /// As [`enter`](Self::enter).
    pub fn run<R>(self, f: impl for<'s> FnOnce(&mut Running<'s>) -> R) -> R {
        self.enter().run(f)
    }
    /// [`run`](Self::run) without waiting. A refusal uses the token up.
    ///
    /// # Errors
    /// [`AcquireError::WouldBlock`].
    pub fn try_run<R>(
        self,
        f: impl for<'s> FnOnce(&mut Running<'s>) -> R,
    ) -> Result<R, AcquireError> {
        self.try_enter().map(|running| running.run(f))
    }
    /// [`run`](Self::run), if it can begin within `timeout`. A time-out uses the token up.
    ///
    /// # Errors
    /// [`AcquireError::TimedOut`].
    pub fn run_timeout<R>(
        self,
        timeout: Duration,
        f: impl for<'s> FnOnce(&mut Running<'s>) -> R,
    ) -> Result<R, AcquireError> {
        self.enter_timeout(timeout).map(|running| running.run(f))
    }
    /// Begins the child's execution, which ends when the guard is dropped.
    ///
    /// # Panics
    /// Inside an exclusive section of this thread: it would wait for itself.
    pub fn enter(self) -> Running<'static> {
        ambient_is_not_alone(&self.home);
        self.enter_by(Limit::Forever).unwrap_or_else(|_| unreachable!("it waits without a limit"))
    }
    /// [`enter`](Self::enter) without waiting. A refusal uses the token up.
    ///
    /// ```
    /// let interlock = cabrank::Interlock::new();
    /// interlock.run(|r| {
    ///     let child = r.child();
    ///     assert!(child.try_enter().is_ok());
    ///     let child = r.child();
    ///     r.load(|_| assert!(child.try_enter().is_err())).unwrap();
    /// });
    /// ```
    ///
    /// # Errors
    /// [`AcquireError::WouldBlock`].
    pub fn try_enter(self) -> Result<Running<'static>, AcquireError> {
        self.enter_by(Limit::Never)
    }
    /// [`enter`](Self::enter), if it can begin within `timeout`. A time-out uses the token up.
    ///
    /// # Errors
    /// [`AcquireError::TimedOut`].
    pub fn enter_timeout(self, timeout: Duration) -> Result<Running<'static>, AcquireError> {
        let limit = self.home.deadline(timeout);
        self.enter_by(limit)
    }
    fn enter_by(self, limit: Limit) -> Result<Running<'static>, AcquireError> {
        let home = self.home.clone();
        Running::first(&home, Some(self), limit)
    }
    pub(super) fn of(record: &Record, up: Option<Arc<Lineage>>) -> Child {
        record.home.critical(|state, _| state.add_child(record.id()));
        Child { home: record.home.clone(), lineage: Some(Lineage::below(record, up)) }
    }
    pub(super) fn home(&self) -> &Arc<Inner> {
        &self.home
    }
    pub(super) fn lineage(&self) -> Option<&Arc<Lineage>> {
        self.lineage.as_ref()
    }
    /// The child's execution has begun, and counts instead of the token.
    pub(super) fn begun(mut self) -> Option<Arc<Lineage>> {
        self.lineage.take()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if let Some(lineage) = self.lineage.take().filter(|_| !has_failed()) {
            self.home.critical(|state, _| {
                state.remove_child(lineage.id);
            });
        }
    }
}

impl fmt::Debug for Child {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parent = self.lineage.as_ref().map(|lineage| lineage.id);
        f.debug_struct("Child").field("parent", &parent).finish()
    }
}
