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
    /// Runs `f` without a share, so that others may load (and not unload) meanwhile. For whatever may
    /// wait for somebody who loads; `f` promises to use nothing that is loaded, and the compiler holds
    /// it to that.
    ///
    /// # Errors
    /// [`AcquireError::Nested`], [`AcquireError::Forfeited`]; `f` has not run.
    pub fn permit_loads<R>(&mut self, f: impl FnOnce() -> R) -> Result<R, AcquireError> {
        self.permit(false, f)
    }
    /// [`permit_loads`](Self::permit_loads) around `f`, which waits until all [children](Self::child) have
    /// ended: the interlock is told, as by [`waiting`](Self::waiting), and the share is given up.
    ///
    /// A child may load meanwhile. But where this execution is a child itself, whose parent waits for it
    /// and keeps its share, a child's load would wait for that parent, and none of the three could ever go
    /// on: whoever closes the circle is refused.
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
    /// let told = grandparent.waiting(|| std::thread::scope(|scope| scope.spawn(parent).join()));
    /// let (Ok(Ok(Err(told))) | Ok(Ok(Ok(Err(told))))) = told else { panic!("one of the two is told") };
    /// assert!(matches!(told, AcquireError::Deadlock(_)));
    /// ```
    pub fn permit_waiting<R>(&mut self, f: impl FnOnce() -> R) -> Result<R, AcquireError> {
        self.permit(true, f)
    }
    /// `awaits`: `f` waits for its children.
    fn permit<R>(&mut self, awaits: bool, f: impl FnOnce() -> R) -> Result<R, AcquireError> {
        let level = self.begin_permit(awaits, Limit::Forever)?;
        let within = ambient::push(self.frame(level, Kind::Permit));
        // The share is to be there again for whoever catches the panic.
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
                // In an exclusive section, in which nobody else could load.
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
    /// Dropped in the middle, the share is back at once, or, if somebody loads just then, when this
    /// `Running` next loads, unloads or permits: until then it has [no share](Self::has_share).
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
    /// #         Poll::Pending => panic!("nobody is in the way"),
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
    /// As for [`permit_loads_async`](Self::permit_loads_async). It waits for nobody any more.
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
    /// [`permit_loads`](Self::permit_loads), by the name of what it is most often for: a call that
    /// blocks, of whatever kind.
    ///
    /// # Errors
    /// Those of `permit_loads`.
    pub fn blocking<R>(&mut self, f: impl FnOnce() -> R) -> Result<R, AcquireError> {
        self.permit_loads(f)
    }
    /// Waits for a thread's end, and permits loads meanwhile.
    ///
    /// Whose thread it is the interlock cannot know: a circle that this wait closes it does not see, and
    /// nobody is told. To wait for children, [`permit_waiting`](Self::permit_waiting) is told, and a load
    /// that may be in such a circle can have a [time limit](Self::load_timeout).
    ///
    /// # Errors
    /// Those of `permit_loads`; then the thread is detached.
    pub fn join<T>(
        &mut self,
        thread: std::thread::JoinHandle<T>,
    ) -> Result<std::thread::Result<T>, AcquireError> {
        self.permit_loads(|| thread.join())
    }
    /// Waits for a task's end, and permits loads meanwhile: for what a runtime's `spawn` returns.
    ///
    /// As by [`join`](Self::join), a circle that this wait closes is not seen. To wait for children,
    /// [`permit_waiting_async`](Self::permit_waiting_async) is told.
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
