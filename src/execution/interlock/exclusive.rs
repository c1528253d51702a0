//! Loading and unloading alone, and then back to the previous share.

use super::alone::{Home, Loading, Section, Unloading};
use super::ambient::{self, Frame, Kind, Within};
use super::error::{AcquireError, Deadlock};
use super::inner::{Inner, Limit, Waited};
use super::modes::{Asker, Mode, Purpose, Step};
use super::owner::{Lineage, Record};
use super::running::Running;
use super::vitals::{Context, OwnerId};
use crate::sync::has_failed;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

impl Running<'_> {
    /// Gives the share up, and runs `f` once no other execution runs.
    ///
    /// Then other waiting loads have their turn, and all executions go on together. Inside an exclusive
    /// section of this execution `load` does not wait.
    ///
    /// # Errors
    /// [`AcquireError::Deadlock`], [`AcquireError::Nested`], [`AcquireError::Forfeited`]; `f` has not run.
    ///
    /// # Panics
    /// If `f` does. The share is there again, and other executions are not affected.
    pub fn load<R>(&mut self, f: impl FnOnce(&mut Loading<'_>) -> R) -> Result<R, AcquireError> {
        self.load_by(Limit::Forever, f)
    }
    /// [`load`](Self::load), if no other execution runs now. It may block at its end, while other waiting
    /// loads have their turn.
    ///
    /// # Errors
    /// [`AcquireError::WouldBlock`], and those of `load`.
    pub fn try_load<R>(
        &mut self,
        f: impl FnOnce(&mut Loading<'_>) -> R,
    ) -> Result<R, AcquireError> {
        self.load_by(Limit::Never, f)
    }
    /// [`load`](Self::load), if it can begin within `timeout`.
    ///
    /// After a time-out the share is there again: while another execution holds, the call waits for it. Only
    /// the wait for a [share](Self::has_share) that was missing before, because a future was dropped, ends
    /// with `timeout`.
    ///
    /// # Errors
    /// [`AcquireError::TimedOut`], and those of `load`.
    pub fn load_timeout<R>(
        &mut self,
        timeout: Duration,
        f: impl FnOnce(&mut Loading<'_>) -> R,
    ) -> Result<R, AcquireError> {
        let limit = self.home().deadline(timeout);
        self.load_by(limit, f)
    }
    fn load_by<R>(
        &mut self,
        limit: Limit,
        f: impl FnOnce(&mut Loading<'_>) -> R,
    ) -> Result<R, AcquireError> {
        let hold = self.hold(Purpose::Load, limit)?;
        Ok(hold.run(|section| f(&mut Loading::new(section))))
    }

    /// Runs `f` once no other execution runs, loads, waits to load, or is in a permit block.
    ///
    /// # Errors
    /// [`AcquireError::Child`], and those of [`load`](Self::load). [`AcquireError::Nested`] also inside a
    /// load, or in its own permit block.
    ///
    /// # Panics
    /// As `load`.
    pub fn unload<R>(
        &mut self,
        f: impl FnOnce(&mut Unloading<'_>) -> R,
    ) -> Result<R, AcquireError> {
        self.unload_by(Limit::Forever, f)
    }
    /// [`unload`](Self::unload), if no other execution runs now. It may block at its end, as
    /// [`try_load`](Self::try_load).
    ///
    /// # Errors
    /// [`AcquireError::WouldBlock`], and those of `unload`.
    pub fn try_unload<R>(
        &mut self,
        f: impl FnOnce(&mut Unloading<'_>) -> R,
    ) -> Result<R, AcquireError> {
        self.unload_by(Limit::Never, f)
    }
    /// [`unload`](Self::unload), if it can begin within `timeout`; see
    /// [`load_timeout`](Self::load_timeout).
    ///
    /// # Errors
    /// [`AcquireError::TimedOut`], and those of `unload`.
    pub fn unload_timeout<R>(
        &mut self,
        timeout: Duration,
        f: impl FnOnce(&mut Unloading<'_>) -> R,
    ) -> Result<R, AcquireError> {
        let limit = self.home().deadline(timeout);
        self.unload_by(limit, f)
    }
    fn unload_by<R>(
        &mut self,
        limit: Limit,
        f: impl FnOnce(&mut Unloading<'_>) -> R,
    ) -> Result<R, AcquireError> {
        let hold = self.hold(Purpose::Unload, limit)?;
        Ok(hold.run(|section| f(&mut Unloading::new(section))))
    }
    /// [`unload`](Self::unload), unless another execution has unloaded since `seen`: then it returns `None`.
    /// So one change is unloaded once, even if several executions see it.
    ///
    /// ```
    /// let interlock = cabrank::Interlock::new();
    /// let seen = interlock.generation(); // before looking for changes
    /// interlock.run(|r| r.unload(|_| ())).unwrap();
    /// let skipped = interlock.run(|r| r.unload_once(seen, |_| unreachable!("it was unloaded since")));
    /// assert!(skipped.unwrap().is_none());
    /// ```
    ///
    /// `seen` is the generation in which the change was found.
    ///
    /// # Errors
    /// Those of `unload`.
    pub fn unload_once<R>(
        &mut self,
        seen: u64,
        f: impl FnOnce(&mut Unloading<'_>) -> R,
    ) -> Result<Option<R>, AcquireError> {
        self.unload_once_by(seen, Limit::Forever, f)
    }
    /// [`unload_once`](Self::unload_once), if no other execution runs now. It may block at its end, as
    /// [`try_load`](Self::try_load).
    ///
    /// # Errors
    /// [`AcquireError::WouldBlock`], and those of `unload`.
    pub fn try_unload_once<R>(
        &mut self,
        seen: u64,
        f: impl FnOnce(&mut Unloading<'_>) -> R,
    ) -> Result<Option<R>, AcquireError> {
        self.unload_once_by(seen, Limit::Never, f)
    }
    /// [`unload_once`](Self::unload_once), if it can begin within `timeout`; see
    /// [`load_timeout`](Self::load_timeout).
    ///
    /// # Errors
    /// [`AcquireError::TimedOut`], and those of `unload`.
    pub fn unload_once_timeout<R>(
        &mut self,
        seen: u64,
        timeout: Duration,
        f: impl FnOnce(&mut Unloading<'_>) -> R,
    ) -> Result<Option<R>, AcquireError> {
        let limit = self.home().deadline(timeout);
        self.unload_once_by(seen, limit, f)
    }
    fn unload_once_by<R>(
        &mut self,
        seen: u64,
        limit: Limit,
        f: impl FnOnce(&mut Unloading<'_>) -> R,
    ) -> Result<Option<R>, AcquireError> {
        if !self.home().is_due(seen) {
            return Ok(None);
        }
        let hold = self.hold(Purpose::Unload, limit)?;
        if hold.generation != seen {
            hold.finish(false);
            return Ok(None);
        }
        Ok(Some(hold.run(|section| f(&mut Unloading::new(section)))))
    }

    /// [`try_load`](Self::try_load) without a turn for others: it never blocks.
    pub(crate) fn load_at_once<R>(
        &mut self,
        f: impl FnOnce(&mut Loading<'_>) -> R,
    ) -> Result<R, AcquireError> {
        let hold = self.hold(Purpose::Load, Limit::Never)?;
        let _within = hold.within();
        Ok(f(&mut Loading::new(hold.section())))
    }
    fn hold(&mut self, purpose: Purpose, limit: Limit) -> Result<Exclusive<'_>, AcquireError> {
        let step = self.ask(purpose, limit.asker(), limit)?;
        let record = self.record();
        if step == Step::Wait {
            let error = match record.home.wait(record.key(), limit.deadline()) {
                Waited::Granted => None,
                Waited::Forfeited => Some(AcquireError::Forfeited),
                Waited::TimedOut(step) => {
                    record.home.wait_for_share(record.key(), step);
                    Some(AcquireError::TimedOut)
                }
            };
            if let Some(error) = error {
                self.sink();
                return Err(error);
            }
        }
        Ok(Exclusive::new(self))
    }
    /// Asks to hold, one level up. `limit` bounds the wait for a share that a dropped future gave up.
    pub(super) fn ask(
        &mut self,
        purpose: Purpose,
        asker: Asker,
        limit: Limit,
    ) -> Result<Step, AcquireError> {
        if purpose == Purpose::Unload && self.lineage.as_ref().is_some_and(|line| line.is_live()) {
            return Err(AcquireError::Child);
        }
        self.rise(limit)?;
        let record = self.record();
        // A waiting thread keeps the shares of all executions that it is in.
        let here = if asker == Asker::Thread { ambient::beside(record) } else { Vec::new() };
        let asked = record.home.slowly(|state| {
            state.adopt(record.key());
            state.ask(record.key(), purpose, asker, &here)
        });
        asked.inspect_err(|_| self.sink())
    }
}

impl Inner {
    pub(super) fn is_due(&self, seen: u64) -> bool {
        self.state.look(|state| state.generation) == seen
    }
}

impl super::state::State {
    /// The part of [`Running::ask`] under the lock.
    fn ask(
        &mut self,
        key: crate::collections::slab_list::Key,
        purpose: Purpose,
        asker: Asker,
        here: &[OwnerId],
    ) -> Result<Step, AcquireError> {
        let (mode, permits) = (self.owner(key).mode, self.owner(key).permits);
        match (mode, &mut self.holder) {
            (Mode::Holding, Some(holder)) => {
                if purpose == Purpose::Unload && holder.purpose == Purpose::Load {
                    // Other executions may be in permit blocks, which tolerate a load but no unload.
                    return Err(AcquireError::Nested);
                }
                holder.depth += 1;
                Ok(Step::Done)
            }
            (Mode::Running, _) => {
                if purpose == Purpose::Unload && permits > 0 {
                    return Err(AcquireError::Nested);
                }
                let step = self.acquire(key, purpose, asker).ok_or(AcquireError::WouldBlock)?;
                if step == Step::Done {
                    return Ok(step);
                }
                let stuck: Vec<_> =
                    here.iter().copied().filter(|&id| self.keeps_out(id, purpose)).collect();
                match self.tally.blocked > 0 || !stuck.is_empty() {
                    true => Err(self.withdraw(key, &stuck)),
                    false => Ok(step),
                }
            }
            (Mode::Forfeited, _) => Err(AcquireError::Forfeited),
            (mode, _) => unreachable!("{mode:?} has no share to ask with"),
        }
    }
    /// Returns true if this execution keeps such a request waiting until it goes on.
    fn keeps_out(&mut self, id: OwnerId, purpose: Purpose) -> bool {
        if !self.owner(id.key()).vitals.is_live(id) {
            return false;
        }
        self.adopt(id.key());
        let owner = self.owner(id.key());
        matches!(owner.mode, Mode::Running | Mode::Holding)
            || purpose == Purpose::Unload && owner.permits > 0
    }
    /// Withdraws a request whose wait would not end. `stuck`: executions that cannot go on while their thread
    /// waits.
    fn withdraw(
        &mut self,
        key: crate::collections::slab_list::Key,
        stuck: &[OwnerId],
    ) -> AcquireError {
        let deadlock = Deadlock::of(self, key, stuck);
        self.unlink(key);
        self.begin_to_run(key);
        deadlock
    }
}

/// The holder's guard. Its drop releases without a turn for others; it neither blocks nor panics.
pub(super) struct Exclusive<'a> {
    pub(super) record: &'a Arc<Record>,
    level: u32,
    lineage: Option<&'a Arc<Lineage>>,
    pub(super) generation: u64,
    /// It began without a share, and ends without one.
    pending: bool,
    open: bool,
}

impl<'a> Exclusive<'a> {
    pub(super) fn new(running: &'a mut Running<'_>) -> Self {
        let (record, lineage) = (running.record(), running.lineage.as_ref());
        let level = running.level;
        Exclusive { record, level, lineage, generation: 0, pending: false, open: true }.entered()
    }
    /// For an owner without a share, whose execution began with the grant.
    pub(super) fn alone(record: &'a Arc<Record>) -> Self {
        let level = Context::BASE.level;
        Exclusive { record, level, lineage: None, generation: 0, pending: true, open: true }
            .entered()
    }
    fn entered(mut self) -> Self {
        self.generation = self.record.home.state.look(|state| state.generation);
        self
    }
    pub(super) fn level(&self) -> u32 {
        self.level
    }
    pub(super) fn section(&self) -> Section {
        Section { home: Home::of(&self.record.home), generation: self.generation }
    }
    fn within(&self) -> Within {
        ambient::push(self.frame())
    }
    pub(super) fn frame(&self) -> Frame {
        Frame {
            record: self.record.clone(),
            level: self.level + 1,
            kind: Kind::Exclusive,
            lineage: self.lineage.cloned(),
        }
    }
    pub(super) fn run<R>(self, f: impl FnOnce(Section) -> R) -> R {
        let within = self.within();
        let result = f(self.section());
        drop(within);
        self.finish(true);
        result
    }
    /// Releases; other waiters of the same kind have their turn first. `done`: something was loaded or
    /// unloaded.
    pub(super) fn finish(mut self, done: bool) {
        let step = self.release(done, Some(Asker::Thread));
        self.record.home.wait_for_share(self.record.key(), step);
        self.sink();
    }
    /// Releases. [`Step::Wait`]: the task drains.
    pub(super) fn finish_as_task(mut self, done: bool) -> Step {
        self.release(done, Some(Asker::Task))
    }
    fn release(&mut self, done: bool, drain: Option<Asker>) -> Step {
        self.open = false;
        let (record, key, pending) = (self.record, self.record.key(), self.pending);
        record.home.slowly(|state| {
            let step = state.release(key, done, drain);
            if pending {
                if state.owner(key).mode == Mode::Forfeited {
                    state.leave(key);
                }
                // Under the lock that takes the owner out: `forfeit` compares both.
                record.vitals().end();
            }
            step
        })
    }
    fn sink(&self) {
        if !self.pending {
            self.record.sink(self.level);
        }
    }
}

impl Drop for Exclusive<'_> {
    fn drop(&mut self) {
        if self.open && !has_failed() {
            let _ = self.release(true, None);
            self.sink();
        }
    }
}

impl fmt::Debug for Exclusive<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exclusive").field("owner", &self.record.id()).finish_non_exhaustive()
    }
}
