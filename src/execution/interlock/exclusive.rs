//! Loading and unloading alone, and then back to the previous share.

use super::caller::Caller;
use super::error::AcquireError;
use super::inner::Inner;
use super::modes::Purpose;
use super::owner_id::OwnerId;
use super::running::Running;
use super::sections::{Loading, Unloading};
use crate::execution::ambient::{self, Frame, Kind};
use crate::execution::scoped::scoped;
use crate::section::{Guarded, now};
use crate::sync::has_failed;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

const HERE: &str = "another execution that this thread is in would have to go on first";

impl Running<'_> {
    /// Gives the share up, and calls `f` once no other execution runs.
    ///
    /// Then other waiting loads have their turn, and all executions go on together. Inside an exclusive section of
    /// this execution, `load` does not wait.
    ///
    /// # Errors
    /// - [`AcquireError::Deadlock`] at once, if the call would wait for itself: `f` has not run.
    /// - [`AcquireError::TimedOut`] at the time limit of one of the waits. If that was the wait for the other loads,
    ///   `f` has run. The share comes back at once, or once the present holder releases.
    ///
    /// # Panics
    /// If `f` does. The section has ended then.
    #[track_caller]
    pub fn load<R>(&mut self, f: impl FnOnce(&mut Loading<'_>) -> R) -> Result<R, AcquireError> {
        let caller = Caller::thread(self.limit);
        now(self.load_by(caller, async move |loading: &mut Loading<'_>| f(loading)))
    }
    /// [`load`](Self::load) as a future, for any runtime.
    ///
    /// # Cancel safety
    /// A dropped future ends the section or the wait. The share comes back at once, or once the present holder
    /// releases. Until then this execution has [no share](Self::has_share), and its next operation waits for it.
    #[track_caller]
    pub fn load_async<R, F>(&mut self, f: F) -> impl Future<Output = Result<R, AcquireError>>
    where
        F: AsyncFnOnce(&mut Loading<'_>) -> R,
    {
        let caller = Caller::task(self.limit);
        self.load_by(caller, f)
    }
    pub(crate) async fn load_by<R>(
        &mut self,
        caller: Caller,
        f: impl AsyncFnOnce(&mut Loading<'_>) -> R,
    ) -> Result<R, AcquireError> {
        let mut held = self.hold(Purpose::Load, caller).await?;
        let frame = held.frame();
        let mut loading = held.loading();
        let result = scoped(|| frame.enter(), async { f(&mut loading).await }).await;
        held.finish(true, caller).await?;
        Ok(result)
    }
    /// Waits until this owner holds.
    pub(crate) async fn hold(
        &mut self,
        purpose: Purpose,
        caller: Caller,
    ) -> Result<Held<'_>, AcquireError> {
        if !caller.is_task {
            // A thread that blocks stops all executions that it is in. In a permit block they let others load.
            let kinds = [Kind::Run, Kind::Load, Kind::Unload, Kind::Permit];
            let kinds = if purpose == Purpose::Load { &kinds[..3] } else { &kinds[..] };
            if ambient::has_other(self.home.address(), self.id, kinds) {
                return Err(self.home.deadlock(self.id, HERE, caller.at));
            }
        }
        self.regain(caller).await?;
        let (id, in_section) = (self.id, self.is_in_section());
        let thread = ambient::thread();
        let step = self.home.step(id, caller, |state, _| {
            state.belongs_to(id, thread)?;
            state.acquire(id, purpose, in_section)
        });
        step.await?;
        Ok(Held { home: &self.home, id, purpose, is_open: true })
    }
    /// Waits for the share, if an earlier wait was given up while another owner held.
    pub(super) async fn regain(&self, caller: Caller) -> Result<(), AcquireError> {
        if self.home.quiet.load(Relaxed) {
            return Ok(());
        }
        self.home.refuse_under_holder(self.id, caller)?;
        self.home.step(self.id, caller, |state, _| Ok(state.regain(self.id))).await
    }
}

/// The holder's guard.
///
/// A drop releases without a turn for others, so it never waits. It counts as a section that has loaded or unloaded
/// something.
pub(crate) struct Held<'r> {
    home: &'r Arc<Inner>,
    id: OwnerId,
    purpose: Purpose,
    is_open: bool,
}

impl Held<'_> {
    /// Returns the frame of code that runs in the section.
    pub(crate) fn frame(&self) -> Frame {
        let kind = if self.purpose == Purpose::Load { Kind::Load } else { Kind::Unload };
        Frame::Interlock { of: self.home.address(), owner: self.id, kind }
    }
    pub(crate) fn loading(&mut self) -> Loading<'_> {
        Loading { home: Some(self.home) }
    }
    pub(crate) fn unloading(&mut self) -> Unloading<'_> {
        Unloading { home: self.home }
    }
    /// Calls `f` in the section.
    pub(super) async fn unload<R>(
        mut self,
        f: impl AsyncFnOnce(&mut Unloading<'_>) -> R,
    ) -> (R, Self) {
        let frame = self.frame();
        let mut unloading = self.unloading();
        let result = scoped(|| frame.enter(), async { f(&mut unloading).await }).await;
        (result, self)
    }
    /// Releases, and waits until others of its kind have had their turn. `done`: something was loaded or unloaded.
    pub(crate) async fn finish(mut self, done: bool, caller: Caller) -> Result<(), AcquireError> {
        self.is_open = false;
        let (home, id) = (self.home, self.id);
        home.step(id, caller, |state, _| Ok(state.release(id, done, true))).await
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if self.is_open && !has_failed() {
            self.home.critical(|state, _| {
                let _ = state.release(self.id, true, false);
            });
        }
    }
}
