//! One request and its answer with one process, and what happens at its end: the pseudocode's
//! `session_has_been_closed`.
//!
//! A [`Session`] refers to its process weakly: it keeps neither the process nor the pool from going,
//! and when it is closed after them, closing does nothing. There are four ways for that to end, and a
//! model reaches each: the process is no more; it is seen to have left without the lock; it is seen
//! to have left under it; it is there.

use super::effects::Effects;
use super::event::DetachReason;
use super::group::End;
use super::process_info::{Entry, Place};
use super::spawner::{Identifier, Process, ShutDown, Spawner};
use super::state::State;
use crate::section::Guarded;
use crate::sync::{Arc, Weak, has_failed};
use crate::user_code::drop_contained;
use std::fmt;
use std::ops::{Deref, DerefMut};

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It was closed: one request more is processed.
    Closed,
    /// It was never used: a get was cancelled, or could not connect for reasons of its own.
    Unused,
    /// The process broke it.
    Failed,
}

/// Which way a close went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The process is no more.
    Null,
    /// It has left: seen without the lock.
    GoneBeforeLock,
    /// It has left: seen under the lock.
    GoneUnderLock,
    /// It drains, and was counted down.
    Draining,
    /// It is in the pool.
    Live,
}

/// The text's `session_has_been_closed`, for a reference that is still strong.
pub(crate) fn session_has_been_closed<S: Spawner>(entry: &Arc<Entry<S>>, end: Ending) -> Found {
    if entry.gone.is_raised() {
        return Found::GoneBeforeLock;
    }
    entry.pool.critical(|state, fx| state.end_session(entry, end, fx))
}

impl<S: Spawner> State<S> {
    /// Ends a session of a process that may have left meanwhile.
    pub(crate) fn end_session(
        &mut self,
        entry: &Entry<S>,
        ending: Ending,
        fx: &mut Effects<S>,
    ) -> Found {
        // Once more: the first look was not under the lock (erratum E15).
        if entry.gone.is_raised() {
            return Found::GoneUnderLock;
        }
        self.close_session(entry, ending, fx)
    }

    fn close_session(&mut self, entry: &Entry<S>, ending: Ending, fx: &mut Effects<S>) -> Found {
        let key = entry.key;
        let info = &mut self.processes[key.index()];
        // Every close counts down, on one path (erratum E14: PROP-SESSIONS).
        info.sessions -= 1;
        if ending == Ending::Closed {
            info.processed += 1;
            self.totals.processed += 1;
        }
        if info.is_detached() {
            if info.sessions == 0 {
                self.end_drain(key, ShutDown::Drained, fx);
            }
            return Found::Draining;
        }

        info.last_used = self.clock.now();
        let group_key = info.group;
        let idle = info.sessions == 0;
        let group = &mut self.groups[group_key.index()];
        group.processes.remove(&mut self.processes, key);
        // The text's move_to_front, if it is idle; else it waits its turn among its equals.
        let end = if idle { End::Front } else { End::Back };
        group.processes.insert(&mut self.processes, key, end);
        if idle {
            group.idle += 1;
            // Attached and idle, it belongs here (INV-PROCESS-IDLE); used last, it comes last
            // (INV-INACTIVE-ORDER).
            self.inactive_apps.push_back(&mut self.processes, key);
            self.mutate_active(self.active - 1);
        }
        let info = &self.processes[key.index()];
        if ending == Ending::Failed {
            self.detach_process(key, DetachReason::Failed, fx);
            self.settle(group_key, fx);
        } else if idle && info.place == Place::Retiring {
            let reason = match info.condemned {
                true => DetachReason::Evicted,
                false => DetachReason::MaxRequests,
            };
            self.detach_process(key, reason, fx);
            self.settle(group_key, fx);
        } else {
            if idle && !self.max_idle_time.is_zero() {
                let due = info.last_used.plus_span(self.max_idle_time);
                self.refresh(group_key);
                if self.evictable > 0 {
                    self.is_due(due, fx);
                }
            }
            if self.somebody_waits(group_key) {
                self.settle(group_key, fx);
            } else {
                self.refresh(group_key);
            }
        }
        Found::Live
    }

    /// Whether a process that has become less busy can be of use to anybody.
    fn somebody_waits(&self, group: crate::collections::slab_list::Key) -> bool {
        !self.group(group).queue.is_empty() || !self.first.is_empty()
    }
}

/// A process checked out of the pool, and not connected to by it: for callers that connect on their
/// own, asynchronously for one. Dropping it closes the session.
#[must_use = "dropping a lease closes its session"]
pub struct Lease<S: Spawner> {
    /// Absent once it has been closed or turned into a session.
    entry: Option<Arc<Entry<S>>>,
}

impl<S: Spawner> Lease<S> {
    pub(crate) fn new(entry: Arc<Entry<S>>) -> Self {
        Lease { entry: Some(entry) }
    }
    pub(crate) fn entry(&self) -> &Arc<Entry<S>> {
        self.entry.as_ref().expect("taken only by those who consume the lease")
    }

    /// The process, to connect to. The reference keeps its value, not its place in the pool.
    pub fn process(&self) -> &S::Process {
        &self.entry().process
    }
    /// The process's name in the pool.
    pub fn identifier(&self) -> Identifier {
        self.entry().identifier
    }
    /// Turns the lease into a session over `connection`.
    #[inline]
    pub fn connected(mut self, connection: <S::Process as Process>::Connection) -> Session<S> {
        let entry = self.entry.take().expect("taken only by those who consume the lease");
        let info = Arc::downgrade(&entry);
        Session { identifier: entry.identifier, info, connection: Some(connection) }
    }
    /// Closes the session: one request more is processed. The same as dropping the lease.
    pub fn close(self) {}
    /// Gives the session back as if it had not been taken: no request was processed.
    pub fn cancel(mut self) {
        self.end(Ending::Unused);
    }
    /// The process could not be used: ends the session and detaches the process.
    pub fn fail(mut self) {
        self.end(Ending::Failed);
    }
    pub(crate) fn end(&mut self, end: Ending) {
        if let Some(entry) = self.entry.take() {
            session_has_been_closed(&entry, end);
        }
    }
}

impl<S: Spawner> Drop for Lease<S> {
    fn drop(&mut self) {
        if !has_failed() {
            self.end(Ending::Closed);
        }
    }
}

impl<S: Spawner> fmt::Debug for Lease<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease").field("process", &self.entry().identifier).finish()
    }
}

/// An open session with a process: derefs to the connection. Dropping it closes the connection, then
/// the session.
#[must_use = "dropping a session closes it"]
pub struct Session<S: Spawner> {
    identifier: Identifier,
    info: Weak<Entry<S>>,
    /// Absent only while the session is being closed.
    connection: Option<<S::Process as Process>::Connection>,
}

impl<S: Spawner> Session<S> {
    /// The process's name in the pool.
    pub fn identifier(&self) -> Identifier {
        self.identifier
    }
    /// Closes the session: one request more is processed. The same as dropping it.
    pub fn close(self) {}
    /// The process broke the session: ends it and detaches the process, so that nobody else is sent
    /// there.
    pub fn fail(mut self) {
        self.end(Ending::Failed);
    }

    pub(crate) fn end(&mut self, end: Ending) -> Found {
        let Some(connection) = self.connection.take() else { return Found::Null };
        // The connection goes first: who is handed the process next finds it free. Its drop is
        // foreign code and may panic; the session is counted down all the same.
        drop_contained(connection);
        match self.info.upgrade() {
            Some(entry) => session_has_been_closed(&entry, end),
            None => Found::Null,
        }
    }
}

impl<S: Spawner> Drop for Session<S> {
    fn drop(&mut self) {
        if !has_failed() {
            self.end(Ending::Closed);
        }
    }
}

impl<S: Spawner> Deref for Session<S> {
    type Target = <S::Process as Process>::Connection;
    fn deref(&self) -> &Self::Target {
        self.connection.as_ref().expect("present until the session is closed")
    }
}
impl<S: Spawner> DerefMut for Session<S> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.connection.as_mut().expect("present until the session is closed")
    }
}

impl<S: Spawner> fmt::Debug for Session<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("process", &self.identifier).finish_non_exhaustive()
    }
}
