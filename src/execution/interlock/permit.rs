//! Permit blocks: waiting without a share.

use super::ambient::{self, Kind};
use super::error::AcquireError;
use super::inner::Limit;
use super::modes::{Asker, Mode};
use super::running::Running;
use crate::execution::scoped::scoped;
use crate::sync::has_failed;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

impl Running<'_> {
    /// Runs `f` without a share, so that others may load meanwhile, but not unload: for a wait that may
    /// depend on a load.
    ///
    /// The compiler ensures that `f` uses no loaded value.
    ///
    /// # Errors
    /// [`AcquireError::Nested`], [`AcquireError::Forfeited`]; `f` has not run.
    pub fn permit_loads<R>(&mut self, f: impl FnOnce() -> R) -> Result<R, AcquireError> {
        self.permit(false, f)
    }
    /// [`permit_loads`](Self::permit_loads) around an `f` that waits until all [children](Self::child) have
    /// ended.
    ///
    /// The wait is declared, as by [`waiting`](Self::waiting), but without a share: a child may load
    /// meanwhile. One deadlock remains: the parent of this execution waits for it and keeps a share, for
    /// which a child's load would wait. The interlock refuses the call that completes the circle.
    ///
    /// # Errors
    /// [`AcquireError::Deadlock`], and those of `permit_loads`; `f` has not run.
    ///
    /// ```
    /// use cabrank::execution::interlock::AcquireError;
    /// use cabrank::Interlock;
    ///
    /// let interlock = Interlock::new();
    /// let grandparent = interlock.enter();
    /// let parent = grandparent.child();
    /// let parent = || {
    ///     parent.run(|r| {
    ///         let child = r.child();
    ///         let thread = std::thread::spawn(move || child.run(|r| r.load(|_| ())));
    ///         r.permit_waiting(|| thread.join().expect("no panic"))
    ///     })
    /// };
    /// let result = grandparent.waiting(|| std::thread::scope(|scope| scope.spawn(parent).join()));
    /// let (Ok(Ok(Err(error))) | Ok(Ok(Ok(Err(error))))) = result else { panic!("no deadlock was reported") };
    /// assert!(matches!(error, AcquireError::Deadlock(_)));
    /// ```
    pub fn permit_waiting<R>(&mut self, f: impl FnOnce() -> R) -> Result<R, AcquireError> {
        self.permit(true, f)
    }
    /// `awaits`: `f` waits for the children.
    fn permit<R>(&mut self, awaits: bool, f: impl FnOnce() -> R) -> Result<R, AcquireError> {
        let level = self.begin_permit(awaits, Limit::Forever)?;
        let within = ambient::push(self.frame(level, Kind::Permit));
        // A caller that catches the panic has its share again.
        let result = catch_unwind(AssertUnwindSafe(f));
        drop(within);
        if !has_failed() {
            let record = self.record();
            let step = record.home.slowly(|state| state.end_permit(record.key(), Asker::Thread));
            record.home.wait_for_share(record.key(), step);
            self.sink();
        }
        result.or_else(|panic| resume_unwind(panic))
    }
    fn begin_permit(&mut self, awaits: bool, limit: Limit) -> Result<u32, AcquireError> {
        self.rise(limit)?;
        let record = self.record();
        let permitted = record.home.slowly(|state| {
            state.adopt(record.key());
            if state.owner(record.key()).mode != Mode::Running {
                // In an exclusive section no other execution could load.
                return Err(AcquireError::Nested);
            }
            state.permit(record.key());
            if awaits { state.start_awaiting(record.key()) } else { Ok(()) }
        });
        match permitted {
            Ok(()) => Ok(self.level + 1),
            Err(error) => {
                self.sink();
                Err(error)
            }
        }
    }
    /// [`permit_loads`](Self::permit_loads) around a future.
    ///
    /// # Errors
    /// Those of `permit_loads`.
    ///
    /// # Cancel safety
    /// After a drop the share is back at once. While another execution loads, this `Running` has [no
    /// share](Self::has_share) until it next loads, unloads or permits.
    pub async fn permit_loads_async<F: Future>(
        &mut self,
        future: F,
    ) -> Result<F::Output, AcquireError> {
        self.permit_async(false, future).await
    }
    /// [`permit_waiting`](Self::permit_waiting) around a future.
    ///
    /// ```
    /// # use std::{pin::pin, task::{Context, Poll, Waker}};
    /// # fn now<T>(future: impl Future<Output = T>) -> T {
    /// #     match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
    /// #         Poll::Ready(value) => value,
    /// #         Poll::Pending => panic!("it has to wait"),
    /// #     }
    /// # }
    /// # now(async {
    /// let interlock = cabrank::Interlock::new();
    /// let mut running = interlock.enter_async().await;
    /// let child = running.child();
    /// let work = async move {
    ///     let mut running = child.enter_async().await;
    ///     running.load_async().await?.finish().await; // the parent has no share meanwhile
    ///     Ok::<_, cabrank::execution::interlock::AcquireError>(7)
    /// };
    /// assert_eq!(running.permit_waiting_async(work).await??, 7);
    /// # Ok::<_, cabrank::execution::interlock::AcquireError>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    /// Those of `permit_waiting`.
    ///
    /// # Cancel safety
    /// As for [`permit_loads_async`](Self::permit_loads_async). The drop also ends the declared wait.
    pub async fn permit_waiting_async<F: Future>(
        &mut self,
        future: F,
    ) -> Result<F::Output, AcquireError> {
        self.permit_async(true, future).await
    }
    async fn permit_async<F: Future>(
        &mut self,
        awaits: bool,
        future: F,
    ) -> Result<F::Output, AcquireError> {
        self.regain_async().await;
        let level = self.begin_permit(awaits, Limit::Never)?;
        let permit = super::tasks::Permit::new(self.record(), self.level);
        let frame = self.frame(level, Kind::Permit);
        let output = scoped(|| ambient::push(frame.clone()), future).await;
        permit.end().await;
        Ok(output)
    }
    /// [`permit_loads`](Self::permit_loads) under the name of its most common use: a blocking call.
    ///
    /// # Errors
    /// Those of `permit_loads`.
    pub fn blocking<R>(&mut self, f: impl FnOnce() -> R) -> Result<R, AcquireError> {
        self.permit_loads(f)
    }
    /// Waits for a thread's end, and permits loads meanwhile.
    ///
    /// The interlock does not know that thread's execution, so it detects no deadlock through this wait. Use
    /// [`permit_waiting`](Self::permit_waiting) for children, or give a load a [time
    /// limit](Self::load_timeout).
    ///
    /// # Errors
    /// Those of `permit_loads`; then the thread is detached.
    pub fn join<T>(
        &mut self,
        thread: std::thread::JoinHandle<T>,
    ) -> Result<std::thread::Result<T>, AcquireError> {
        self.permit_loads(|| thread.join())
    }
    /// Waits for a task that a runtime has spawned, and permits loads meanwhile.
    ///
    /// As for [`join`](Self::join), the interlock detects no deadlock through this wait. Use
    /// [`permit_waiting_async`](Self::permit_waiting_async) for children.
    ///
    /// # Errors
    /// Those of `permit_loads`; then the task is not waited for.
    ///
    /// # Cancel safety
    /// As for [`permit_loads_async`](Self::permit_loads_async).
    pub async fn join_async<F: Future>(&mut self, task: F) -> Result<F::Output, AcquireError> {
        self.permit_loads_async(task).await
    }
}
