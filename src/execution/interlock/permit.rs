//! Permit blocks: waiting without a share.

use super::caller::Caller;
use super::error::AcquireError;
use super::exclusive::Held;
use super::modes::Step;
use super::running::Running;
use crate::execution::ambient::Kind;
use crate::execution::scoped::scoped;
use crate::section::now;
use std::future::Future;

impl Running<'_> {
    /// Calls `f` without a share, so that others may load meanwhile, but not unload.
    ///
    /// For a wait that may depend on another execution, such as the join of a thread. The compiler ensures that `f`
    /// uses no handle of this execution. An execution that begins inside `f` is a new one, and may load.
    ///
    /// ```
    /// use cabrank::Interlock;
    /// use std::thread;
    ///
    /// let interlock = Interlock::new();
    /// interlock.run(|r| {
    ///     let child = thread::spawn({
    ///         let interlock = interlock.clone();
    ///         move || interlock.run(|r| r.load(|_| 7))
    ///     });
    ///     // Without the permit, the child's load would wait for this execution, which waits for the child.
    ///     let seven = r.permit_loads(|| child.join()).expect("no deadlock").expect("no panic");
    ///     assert_eq!(seven.expect("no time limit").expect("no deadlock"), 7);
    /// })?;
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
    /// [`permit_loads`](Self::permit_loads) around a future.
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

    async fn permit_by<R>(
        &mut self,
        caller: Caller,
        f: impl AsyncFnOnce() -> R,
    ) -> Result<R, AcquireError> {
        self.regain(caller).await?;
        let id = self.id;
        self.step(caller, |state| state.permit(id).map(|()| Step::Done)).await?;
        let block = Held { home: &self.home, id, kind: Kind::Permit, is_open: true };
        let frame = block.frame();
        let result = scoped(|| frame.enter(), async { f().await }).await;
        block.finish(true, caller).await?;
        Ok(result)
    }
}
