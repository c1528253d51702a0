//! Permit blocks: waiting without a share.

use super::ambient::{self, Kind};
use super::error::AcquireError;
use super::modes::{Asker, Mode};
use super::running::Running;
use crate::sync::has_failed;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;

impl Running<'_> {
    /// Runs `f` without a share, so that others may load (and not unload) meanwhile. For whatever may
    /// wait for somebody who loads; `f` promises to use nothing that is loaded, and the compiler holds
    /// it to that.
    ///
    /// # Errors
    /// [`AcquireError::Nested`], [`AcquireError::Forfeited`]; `f` has not run.
    pub fn permit_loads<R>(&mut self, f: impl FnOnce() -> R) -> Result<R, AcquireError> {
        let level = self.begin_permit()?;
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
    fn begin_permit(&mut self) -> Result<u32, AcquireError> {
        self.rise()?;
        let record = self.record();
        let permitted = record.home.slowly(|state| {
            state.adopt(record.key());
            let running = state.owner(record.key()).mode == Mode::Running;
            if running {
                state.permit(record.key());
            }
            running
        });
        if !permitted {
            // In an exclusive section, in which nobody else could load.
            self.sink();
            return Err(AcquireError::Nested);
        }
        Ok(self.level + 1)
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
        self.recover_async().await;
        let level = self.begin_permit()?;
        let permit = super::tasks::Permit::new(self.record(), self.level);
        let frame = self.frame(level, Kind::Permit);
        let mut future = pin!(future);
        let output = std::future::poll_fn(|cx| {
            let _within = ambient::push(frame.clone());
            future.as_mut().poll(cx)
        })
        .await;
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
    /// # Errors
    /// Those of `permit_loads`; then the thread is detached.
    pub fn join<T>(
        &mut self,
        thread: std::thread::JoinHandle<T>,
    ) -> Result<std::thread::Result<T>, AcquireError> {
        self.permit_loads(|| thread.join())
    }
}
