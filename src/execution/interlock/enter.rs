//! Begins and ends executions: through the word if possible, otherwise through the mutex.

use super::Interlock;
use super::ambient::{self, Kind, ambient_is_not_alone};
use super::child::Child;
use super::error::AcquireError;
use super::inner::{Inner, Limit};
use super::modes::{Asker, Parent, Step};
use super::owner::{Lineage, Seat};
use super::running::{Begun, Running};
use super::vitals::Context;
use crate::section::Guarded;
use std::sync::Arc;
use std::time::Duration;

impl Interlock {
    /// Runs `f` in an execution, which begins once no other loads or unloads, or waits to.
    ///
    /// Inside another `run` of this interlock on the same thread it joins that execution without waiting; in
    /// a permit block it waits only for the holder. If the enclosing [`Running`] is borrowed, and its share
    /// given up, by another future or thread, `f` runs in a [child](Running::child), which may not load.
    ///
    /// # Panics
    /// Where it would wait for itself:
    /// - The borrower of the enclosing `Running` loads or unloads, or waits to while another execution holds.
    ///   The borrower may be a future of this thread, which goes on only after this call.
    /// - The enclosing `Running` has no share, because it is in a permit block or a future was dropped. The
    ///   holder is another execution that this thread is in.
    pub fn run<R>(&self, f: impl for<'s> FnOnce(&mut Running<'s>) -> R) -> R {
        self.run_by(Limit::Forever, f).unwrap_or_else(|error| panic!("{error}"))
    }
    /// [`run`](Self::run) without waiting.
    ///
    /// # Errors
    /// [`AcquireError::WouldBlock`]; [`AcquireError::Nested`] where `run` panics.
    pub fn try_run<R>(
        &self,
        f: impl for<'s> FnOnce(&mut Running<'s>) -> R,
    ) -> Result<R, AcquireError> {
        self.run_by(Limit::Never, f)
    }
    /// [`run`](Self::run), if it can begin within `timeout`.
    ///
    /// # Errors
    /// [`AcquireError::TimedOut`]; [`AcquireError::Nested`] or [`AcquireError::Deadlock`] where `run` panics.
    pub fn run_timeout<R>(
        &self,
        timeout: Duration,
        f: impl for<'s> FnOnce(&mut Running<'s>) -> R,
    ) -> Result<R, AcquireError> {
        self.run_by(self.0.deadline(timeout), f)
    }
    /// [`run`](Self::run), with an error instead of a panic.
    pub(crate) fn run_here<R>(
        &self,
        f: impl for<'s> FnOnce(&mut Running<'s>) -> R,
    ) -> Result<R, AcquireError> {
        self.run_by(Limit::Forever, f)
    }
    fn run_by<R>(
        &self,
        limit: Limit,
        f: impl for<'s> FnOnce(&mut Running<'s>) -> R,
    ) -> Result<R, AcquireError> {
        match ambient::innermost(&self.0) {
            Some(frame) => Running::nested(frame, limit).map(|mut running| {
                let within = running.within(Kind::Running);
                let result = f(&mut running);
                drop(within);
                result
            }),
            None => Running::first(&self.0, None, limit).map(|running| running.run(f)),
        }
    }

    /// Begins an execution that ends when the guard is dropped, on any thread.
    ///
    /// The guard is a separate owner: a `run` on this thread does not nest in it (see [`Running::in_scope`]).
    /// Inside a `run` it begins a [child](Running::child) of that execution.
    ///
    /// # Panics
    /// Inside an exclusive section of this thread: it would wait for itself.
    pub fn enter(&self) -> Running<'static> {
        self.enter_by(Limit::Forever).unwrap_or_else(|_| unreachable!("it waits without a limit"))
    }
    /// [`enter`](Self::enter) without waiting.
    ///
    /// # Errors
    /// [`AcquireError::WouldBlock`].
    pub fn try_enter(&self) -> Result<Running<'static>, AcquireError> {
        self.enter_by(Limit::Never)
    }
    /// [`enter`](Self::enter), if it can begin within `timeout`.
    ///
    /// # Errors
    /// [`AcquireError::TimedOut`].
    pub fn enter_timeout(&self, timeout: Duration) -> Result<Running<'static>, AcquireError> {
        self.enter_by(self.0.deadline(timeout))
    }
    pub(super) fn enter_by(&self, limit: Limit) -> Result<Running<'static>, AcquireError> {
        if matches!(limit, Limit::Forever) {
            ambient_is_not_alone(&self.0);
        }
        Running::first(&self.0, self.ambient_child(), limit)
    }
    /// Returns a token for a child of the execution that this thread is in.
    pub(crate) fn ambient_child(&self) -> Option<Child> {
        ambient::innermost(&self.0).map(|frame| Child::of(&frame.record, frame.lineage))
    }
}

impl Inner {
    #[inline]
    pub(super) fn begin(
        self: &Arc<Self>,
        seat: &Seat,
        lineage: Option<&Arc<Lineage>>,
        asker: Asker,
    ) -> Begun {
        seat.record.vitals().rename();
        if lineage.is_none() && self.enter_fast() {
            seat.record.vitals().begin(self.state.clock().now());
            return Begun::Yes;
        }
        self.begin_slowly(seat, lineage, asker)
    }
    #[cold]
    fn begin_slowly(&self, seat: &Seat, lineage: Option<&Arc<Lineage>>, asker: Asker) -> Begun {
        // An unload may wait for the execution that this thread is in, even if it is not an ancestor.
        let is_inside = || ambient::innermost(&seat.record.home).is_some();
        let descends = lineage.is_some_and(|lineage| lineage.is_live() || is_inside());
        let parent = lineage.map(|lineage| lineage.id);
        let now = self.state.clock().now();
        self.critical(|state, _| {
            let (key, id) = (seat.record.key(), seat.record.id());
            state.owners[key.index()].parent = parent.map(|parent| Parent { of: id, id: parent });
            let step = if state.slow {
                state.enter(key, descends, asker)
            } else {
                // `SLOW` is set only under the mutex: only other exchanges can interfere.
                while !self.enter_fast() {}
                Some(Step::Done)
            };
            if step == Some(Step::Done) {
                seat.record.vitals().begin(now);
            }
            match step {
                Some(Step::Done) => Begun::Yes,
                Some(Step::Wait) => Begun::Waits,
                None => Begun::Refused,
            }
        })
    }
    #[inline]
    pub(super) fn end(&self, seat: &Seat, lineage: Option<&Lineage>) {
        let vitals = seat.record.vitals();
        let regular = vitals.context() == Context::BASE;
        // Before the word: a thread that sets `SLOW` afterwards sees that it has left.
        vitals.end();
        if regular && lineage.is_none() && self.leave_fast() {
            return;
        }
        self.end_slowly(seat, lineage);
    }
    #[cold]
    fn end_slowly(&self, seat: &Seat, lineage: Option<&Lineage>) {
        self.critical(|state, _| {
            if state.slow || !self.leave_fast() {
                let key = seat.record.key();
                state.adopt(key);
                state.leave(key);
            }
            // A `forfeit` may have come in between.
            seat.record.vitals().end();
            if let Some(lineage) = lineage {
                state.remove_child(lineage.id);
            }
        });
    }
}
