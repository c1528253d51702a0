//! A share's place in its thread, for executions that keep their share beside other things.
//!
//! [`Running::in_scope`] borrows the share for as long as its closure runs, so the closure could
//! not be given it. A [`Scope`] borrows nothing: who enters it sees to it that the share is still
//! there.

use super::Interlock;
use super::ambient::{self, Frame, Kind};
use super::running::Running;
use super::tasks::{LoadingGuard, UnloadingGuard};

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
    /// Whether this thread is in an execution that has a share, or is alone. Not in a permit block.
    pub(crate) fn is_shared_here(&self) -> bool {
        ambient::innermost(&self.0).is_some_and(|frame| frame.kind != Kind::Permit)
    }
}
