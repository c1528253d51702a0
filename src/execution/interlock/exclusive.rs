//! Loading and unloading alone, and then back to the previous share.

use super::caller::Caller;
use super::error::AcquireError;
use super::inner::Inner;
use super::modes::{Purpose, Refused, Step};
use super::owner_id::OwnerId;
use super::running::Running;
use super::sections::{Loading, Unloading};
use super::state::State;
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
        let (id, in_section) = (self.id, self.kind != Kind::Run);
        let acquire = |state: &mut State| state.acquire(id, purpose, in_section);
        self.step(caller, acquire).await?;
        let kind = if purpose == Purpose::Load { Kind::Load } else { Kind::Unload };
        Ok(Held { home: &self.home, id, kind, is_open: true })
    }
    /// Takes a step that only the owner's own thread may take.
    pub(super) async fn step(
        &self,
        caller: Caller,
        step: impl FnOnce(&mut State) -> Result<Step, Refused>,
    ) -> Result<(), AcquireError> {
        let (id, thread) = (self.id, ambient::thread());
        let step = |state: &mut State| state.belongs_to(id, thread).and_then(|()| step(state));
        self.home.step(id, caller, step).await
    }
    /// Waits for the share, if an earlier wait was given up while another owner held.
    pub(super) async fn regain(&self, caller: Caller) -> Result<(), AcquireError> {
        if self.home.quiet.load(Relaxed) {
            return Ok(());
        }
        self.home.refuse_under_holder(self.id, caller)?;
        self.home.step(self.id, caller, |state| Ok(state.regain(self.id))).await
    }
}

/// The guard of a section or a permit block.
///
/// Its drop waits neither for others' turns nor for the share. A section then counts as one that has loaded or unloaded
/// something.
pub(crate) struct Held<'r> {
    pub(super) home: &'r Arc<Inner>,
    pub(super) id: OwnerId,
    pub(super) kind: Kind,
    pub(super) is_open: bool,
}

impl Held<'_> {
    /// Returns the frame of code that runs inside.
    pub(crate) fn frame(&self) -> Frame {
        Frame { share: Some((self.home.address(), self.id, self.kind)), executor: None }
    }
    pub(crate) fn loading(&mut self) -> Loading<'_> {
        Loading { home: Some(self.home) }
    }
    pub(crate) fn unloading(&mut self) -> Unloading<'_> {
        Unloading { home: self.home }
    }
    /// Ends it. Waits until others of its kind have had their turn, and until the share is back.
    ///
    /// `done`: something was loaded or unloaded.
    pub(crate) async fn finish(mut self, done: bool, caller: Caller) -> Result<(), AcquireError> {
        self.is_open = false;
        self.home.step(self.id, caller, |state| Ok(self.close(state, done, true))).await
    }
    fn close(&self, state: &mut State, done: bool, drains: bool) -> Step {
        match self.kind {
            Kind::Permit => state.end_permit(self.id),
            _ => state.release(self.id, done, drains),
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if self.is_open && !has_failed() {
            self.home.critical(|state, _| {
                let _ = self.close(state, true, false);
            });
        }
    }
}
