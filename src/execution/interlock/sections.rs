//! Loads, unloads and permit blocks: sections of an execution, which then has its share again.

use super::caller::{Caller, OwnerId};
use super::error::AcquireError;
use super::inner::Inner;
use super::modes::{Purpose, Step, Why};
use super::running::Running;
use super::state::State;
use crate::execution::ambient::{self, Frame, Kind};
use crate::execution::scoped::scoped;
use crate::kernel::section::{Guarded, now};
use crate::kernel::sync::has_failed;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// The right to load values: no other execution runs.
pub struct Loading<'a> {
    /// Absent where there is no interlock.
    pub(super) home: Option<&'a Arc<Inner>>,
}

/// The right to unload values: no other execution runs or is in a permit block.
pub struct Unloading<'a> {
    pub(super) home: &'a Arc<Inner>,
}

impl Loading<'_> {
    /// Returns the right to load where there is no interlock.
    pub(crate) fn detached() -> Loading<'static> {
        Loading { home: None }
    }
}

impl Unloading<'_> {
    /// Calls `f` to load the replacement of an unloaded value. It does not wait, because no other execution runs.
    pub fn load<R>(&mut self, f: impl FnOnce(&mut Loading<'_>) -> R) -> R {
        f(&mut Loading { home: Some(self.home) })
    }
}

impl Running<'_> {
    /// Gives the share up, and calls `f` once no other execution runs.
    ///
    /// Then other waiting loads have their turn, and all executions go on together. Inside an exclusive section of
    /// this execution, `load` does not wait.
    ///
    /// # Errors
    /// - [`AcquireError::Deadlock`] at once, if the call would wait for itself: `f` has not run.
    /// - [`AcquireError::TimedOut`] at the time limit of a wait. If that was the wait for the other loads, `f` has run.
    ///   The share comes back at once, or once the present holder releases.
    ///
    /// # Panics
    /// If `f` does. The section has ended then.
    #[track_caller]
    pub fn load<R>(&mut self, f: impl FnOnce(&mut Loading<'_>) -> R) -> Result<R, AcquireError> {
        let caller = Caller::thread(self.limit);
        now(self.load_by(caller, async move |loading: &mut Loading<'_>| f(loading)))
    }
    /// Loads as [`load`](Self::load) does, in a future for any runtime.
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
    /// Calls `f` without a share, so that others may load meanwhile, but not unload.
    ///
    /// For a wait that may depend on another execution, such as the join of a thread. The compiler ensures that `f`
    /// uses no handle of this execution. An execution that begins inside `f` is a new one, and may load.
    ///
    /// ```
    /// let interlock = cabrank::Interlock::new();
    /// let load = || interlock.run(|r| r.load(|_| 7));
    /// let join = || std::thread::scope(|scope| scope.spawn(load).join().expect("no panic"));
    /// // Without the permit, the child's load would wait for this execution, which waits for the child.
    /// let seven = interlock.run(|r| r.permit_loads(join))????;
    /// assert_eq!(seven, 7);
    /// # Ok::<(), cabrank::execution::interlock::AcquireError>(())
    /// ```
    ///
    /// # Errors
    /// - [`AcquireError::Deadlock`] at once inside a load or an unload, and while a concurrent branch of the same
    ///   task waits: `f` has not run.
    /// - [`AcquireError::TimedOut`] at the time limit of the wait for the share, after `f`. The share comes back once
    ///   the present holder releases.
    ///
    /// # Panics
    /// If `f` does. The share comes back at once, or once the present holder releases.
    #[track_caller]
    pub fn permit_loads<R>(&mut self, f: impl FnOnce() -> R) -> Result<R, AcquireError> {
        let caller = Caller::thread(self.limit);
        now(self.permit_by(caller, async move || f()))
    }
    /// Permits loads as [`permit_loads`](Self::permit_loads) does, around a future.
    ///
    /// Branches of one task share one execution: while one branch permits loads, all do.
    ///
    /// # Cancel safety
    /// As for [`load_async`](Self::load_async).
    #[track_caller]
    pub fn permit_loads_async<F: Future>(
        &mut self,
        future: F,
    ) -> impl Future<Output = Result<F::Output, AcquireError>> {
        let caller = Caller::task(self.limit);
        self.permit_by(caller, async move || future.await)
    }

    pub(crate) async fn load_by<R>(
        &mut self,
        caller: Caller,
        f: impl AsyncFnOnce(&mut Loading<'_>) -> R,
    ) -> Result<R, AcquireError> {
        let held = self.hold(Purpose::Load, caller).await?;
        let mut loading = Loading { home: Some(held.home) };
        held.around(async { f(&mut loading).await }, caller).await
    }
    async fn permit_by<R>(
        &mut self,
        caller: Caller,
        f: impl AsyncFnOnce() -> R,
    ) -> Result<R, AcquireError> {
        let id = self.id;
        let block = self.open(Kind::Permit, caller, |state| state.permit(id)).await?;
        block.around(async { f().await }, caller).await
    }

    /// Waits until this owner holds.
    pub(crate) async fn hold(
        &mut self,
        purpose: Purpose,
        caller: Caller,
    ) -> Result<Held<'_>, AcquireError> {
        let (id, in_section) = (self.id, self.in_section());
        // An execution in a permit block lets others load, but not unload.
        self.home.refuse_in_other(id, &caller, purpose == Purpose::Load)?;
        self.open(Kind::Section, caller, |state| state.acquire(id, purpose, in_section)).await
    }
    /// Begins a section by a step that only the owner's own thread may take.
    async fn open(
        &mut self,
        kind: Kind,
        caller: Caller,
        step: impl FnOnce(&mut State) -> Result<Step, Why>,
    ) -> Result<Held<'_>, AcquireError> {
        let (home, id, thread) = (&self.home, self.id, ambient::thread());
        if !home.quiet.load(Relaxed) {
            // The share may be missing: an earlier wait was given up while another owner held.
            home.refuse_under_holder(id, caller)?;
            home.step(id, caller, |state| state.regain(id, caller.is_task)).await?;
        }
        let step = |state: &mut State| state.belongs_to(id, thread).and_then(|()| step(state));
        home.step(id, caller, step).await?;
        Ok(Held { home, id, kind, is_open: true })
    }
}

/// The guard of a section or a permit block.
///
/// Its drop waits neither for others' turns nor for the share. A section then counts as one that has loaded or unloaded
/// something.
pub(crate) struct Held<'r> {
    home: &'r Arc<Inner>,
    id: OwnerId,
    kind: Kind,
    is_open: bool,
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
    /// Runs `body` inside, and ends it.
    async fn around<R>(
        self,
        body: impl Future<Output = R>,
        caller: Caller,
    ) -> Result<R, AcquireError> {
        let frame = self.frame();
        let result = scoped(|| frame.enter(), body).await;
        self.finish(true, caller).await?;
        Ok(result)
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
