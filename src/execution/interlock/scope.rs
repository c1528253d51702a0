//! The place of a share on its thread, for executions that keep their share next to other data.
//!
//! An execution that begins inside another has its own share. If it ends on the same stack, that is a further
//! share of the same owner. A future may move between threads, so it is a child. Neither may load by that
//! share: the outer execution would have to give its own up, but waits for the inner one.
//!
//! [`Running::in_scope`] borrows the share while its closure runs, so the closure cannot use it. A [`Scope`]
//! borrows no share: the caller of `enter` ensures that it is still there.

use super::ambient::{self, Aside, Frame, Kind};
use super::error::AcquireError;
use super::modes::Mode;
use super::running::Running;
use super::tasks::{Arrival, LoadingGuard, UnloadingGuard};
use super::{Interlock, Limit};

#[derive(Clone)]
pub(crate) struct Scope(Frame);

/// Keeps this thread in a scope, until it is dropped.
#[must_use]
pub(crate) struct Within {
    _frame: ambient::Within,
}

impl Running<'_> {
    pub(crate) fn scope(&self) -> Scope {
        let (record, lineage) = (self.record().clone(), self.lineage.clone());
        Scope(Frame { record, level: self.level, kind: Kind::Running, lineage })
    }
}

pub(crate) struct Share {
    pub(crate) running: Running<'static>,
    /// It began inside another execution that keeps its share: it may not load.
    pub(crate) inside: bool,
}

impl LoadingGuard<'_> {
    pub(crate) fn scope(&self) -> Scope {
        Scope(self.hold.frame())
    }
}

impl UnloadingGuard<'_> {
    pub(crate) fn scope(&self) -> Scope {
        Scope(self.hold.frame())
    }
}

impl Scope {
    pub(crate) fn enter(self) -> Within {
        Within { _frame: ambient::push(self.0) }
    }
}

impl Interlock {
    /// Returns a share for an execution that begins and ends on this thread's stack.
    pub(crate) fn share(&self) -> Result<Share, AcquireError> {
        match ambient::innermost(&self.0) {
            Some(frame) if frame.kind != Kind::Permit => {
                let running = Running::nested(frame, self.patience()).map_err(nested)?;
                Ok(Share { running, inside: true })
            }
            _ => self.share_apart(),
        }
    }
    /// Returns a separate share, for an execution that may end on any thread. It may load.
    pub(crate) fn share_apart(&self) -> Result<Share, AcquireError> {
        if self.holds_around() {
            return Err(AcquireError::Nested);
        }
        let running = self.enter_by(self.patience()).map_err(nested)?;
        Ok(Share { running, inside: false })
    }
    /// Returns a share for a future that begins on this thread.
    pub(crate) async fn share_async(&self) -> Result<Share, AcquireError> {
        // The future would wait for its own section; or it could be polled after that ended.
        if self.is_alone_here() || self.holds_around() {
            return Err(AcquireError::Nested);
        }
        let inside = ambient::innermost(&self.0).is_some_and(|frame| frame.kind != Kind::Permit);
        let running = Arrival::enter(&self.0, self.ambient_child()).await;
        Ok(Share { running, inside })
    }
    /// Returns true if a wait for the holder would be a wait for itself.
    pub(crate) fn is_alone_here(&self) -> bool {
        ambient::is_alone(&self.0)
    }
    /// Returns true if the execution that this thread is in holds, possibly by a guard.
    fn holds_around(&self) -> bool {
        ambient::innermost(&self.0).is_some_and(|frame| self.0.mode_of(&frame) == Mode::Holding)
    }
    fn patience(&self) -> Limit {
        if self.is_alone_here() { Limit::Never } else { Limit::Forever }
    }
    /// Marks the following calls as part of a reload. The caller is in its section.
    pub(crate) fn reload_scope(&self) -> Option<Within> {
        let section = ambient::innermost(&self.0)?;
        let frame = Frame { kind: Kind::Reload, ..section };
        Some(Within { _frame: ambient::push(frame) })
    }
}

/// A refused wait would have been a wait for itself.
fn nested(refused: AcquireError) -> AcquireError {
    match refused {
        AcquireError::WouldBlock => AcquireError::Nested,
        other => other,
    }
}

/// Takes this thread out of all executions, until it is dropped.
#[must_use]
pub(crate) struct Outside {
    _frames: Aside,
}

impl Outside {
    pub(crate) fn step() -> Self {
        Outside { _frames: ambient::set_aside() }
    }
}
