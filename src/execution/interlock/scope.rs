//! A share's place in its thread, for executions that keep their share beside other things.
//!
//! An execution that begins inside another has a share of its own. One that ends where it began, on the
//! thread's stack, has one more of the same owner; a future, which may be polled and dropped elsewhere, is a
//! child. Neither may load by it: the execution around it would have to give its share up, and waits for it.
//!
//! [`Running::in_scope`] borrows the share for as long as its closure runs, so the closure could
//! not be given it. A [`Scope`] borrows nothing: who enters it sees to it that the share is still
//! there.

use super::ambient::{self, Aside, Frame, Kind};
use super::error::AcquireError;
use super::modes::Mode;
use super::running::Running;
use super::tasks::{Arrival, LoadingGuard, UnloadingGuard};
use super::{Interlock, Limit};

/// Where a share is.
#[derive(Clone)]
pub(crate) struct Scope(Frame);

/// This thread is in a scope.
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

/// A share that an execution has for itself.
pub(crate) struct Share {
    pub(crate) running: Running<'static>,
    /// It began inside another one, whose share is not given up: it may not load.
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
    /// This thread is in it, until the value is dropped.
    pub(crate) fn enter(self) -> Within {
        Within { _frame: ambient::push(self.0) }
    }
}

impl Interlock {
    /// The share of what begins on this thread and ends there, before whatever it is inside of does.
    pub(crate) fn share(&self) -> Result<Share, AcquireError> {
        match ambient::innermost(&self.0) {
            Some(frame) if frame.kind != Kind::Permit => {
                let running = Running::nested(frame, self.patience()).map_err(nested)?;
                Ok(Share { running, inside: true })
            }
            _ => self.share_apart(),
        }
    }
    /// That of what begins on this thread, and may end anywhere: one of its own, which it may load by.
    pub(crate) fn share_apart(&self) -> Result<Share, AcquireError> {
        if self.holds_around() {
            return Err(AcquireError::Nested);
        }
        let running = self.enter_by(self.patience()).map_err(nested)?;
        Ok(Share { running, inside: false })
    }
    /// That of a future that begins on this thread.
    pub(crate) async fn share_async(&self) -> Result<Share, AcquireError> {
        // It would wait for a section's end, of which it is a part; or it could be polled after it.
        if self.is_alone_here() || self.holds_around() {
            return Err(AcquireError::Nested);
        }
        let inside = ambient::innermost(&self.0).is_some_and(|frame| frame.kind != Kind::Permit);
        let running = Arrival::enter(&self.0, self.ambient_child()).await;
        Ok(Share { running, inside })
    }
    /// Whether this thread is in a section of the holder's: who waits for that waits for itself.
    pub(crate) fn is_alone_here(&self) -> bool {
        ambient::is_alone(&self.0)
    }
    /// Whether the execution that this thread is in holds, by a guard perhaps.
    fn holds_around(&self) -> bool {
        ambient::innermost(&self.0).is_some_and(|frame| self.0.mode_of(&frame) == Mode::Holding)
    }
    /// How long what begins here may wait.
    fn patience(&self) -> Limit {
        if self.is_alone_here() { Limit::Never } else { Limit::Forever }
    }
    /// What is called meanwhile is called by a reload. The caller is in its section.
    pub(crate) fn reload_scope(&self) -> Option<Within> {
        let section = ambient::innermost(&self.0)?;
        let frame = Frame { kind: Kind::Reload, ..section };
        Some(Within { _frame: ambient::push(frame) })
    }
}

/// Who may not wait could not do so without waiting for itself.
fn nested(refused: AcquireError) -> AcquireError {
    match refused {
        AcquireError::WouldBlock => AcquireError::Nested,
        other => other,
    }
}

/// This thread is in no execution of whatever interlock, until the value is dropped.
#[must_use]
pub(crate) struct Outside {
    _frames: Aside,
}

impl Outside {
    pub(crate) fn step() -> Self {
        Outside { _frames: ambient::set_aside() }
    }
}
