//! The begin of an execution: a new owner, or a view of the one that the thread or task is in.

use super::caller::Caller;
use super::error::AcquireError;
use super::inner::Inner;
use super::modes::{Origin, Step};
use super::owner_id::OwnerId;
use super::running::Running;
use super::transitions::Aim;
use crate::execution::ambient::{self, Kind, Within};
use crate::section::{Guarded, now};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

const HOLDS: &str = "this thread or task holds the interlock, and would wait for itself";

/// How an execution begins.
enum Begun {
    Entered(Running<'static>),
    /// A newcomer waits.
    Enters(OwnerId),
    /// A view waits for the share of its owner.
    Regains(Running<'static>),
}

impl Inner {
    /// Begins an execution.
    ///
    /// - Inside an execution of the same thread or task it is a view of that one, and waits only for a share that
    ///   is missing.
    /// - Inside a permit block it is a new owner: the block gave the share up.
    #[inline]
    pub(super) async fn enter(
        self: &Arc<Self>,
        caller: Caller,
    ) -> Result<Running<'static>, AcquireError> {
        match self.begin(caller)? {
            Begun::Entered(running) => Ok(running),
            waits => self.wait_to_begin(waits, caller).await,
        }
    }
    /// [`enter`](Self::enter) by a thread. An uncontended one needs no future.
    #[inline]
    pub(super) fn enter_now(
        self: &Arc<Self>,
        caller: Caller,
    ) -> Result<Running<'static>, AcquireError> {
        match self.begin(caller)? {
            Begun::Entered(running) => Ok(running),
            waits => now(self.wait_to_begin(waits, caller)),
        }
    }
    #[inline]
    fn begin(self: &Arc<Self>, caller: Caller) -> Result<Begun, AcquireError> {
        let around = ambient::innermost(self.address());
        if around.is_some() {
            if let Some(begun) = self.begin_inside(around, caller)? {
                return Ok(begun);
            }
        }
        let thread = (!caller.is_task).then(ambient::thread);
        let origin = Origin { thread, at: caller.at, since: self.state.clock().now() };
        let (id, step) = self.critical(|state, _| {
            let (id, step) = state.enter(origin, around.is_some());
            if step == Step::Wait {
                state.await_owner(id, caller, origin.since);
            }
            (id, step)
        });
        match step {
            Step::Done => {
                Ok(Begun::Entered(Running::new(self, id, Kind::Run, false, caller.limit)))
            }
            Step::Wait => Ok(Begun::Enters(id)),
        }
    }
    /// Returns a view, or `None` in a permit block.
    #[cold]
    fn begin_inside(
        self: &Arc<Self>,
        around: Option<(OwnerId, Kind)>,
        caller: Caller,
    ) -> Result<Option<Begun>, AcquireError> {
        if let Some((id, kind)) = around.filter(|(_, kind)| *kind != Kind::Permit) {
            if let Some((view, step)) = self.view(id, kind, caller) {
                return Ok(Some(match step {
                    Step::Done => Begun::Entered(view),
                    Step::Wait => Begun::Regains(view),
                }));
            }
        }
        self.refuse_under_holder(None, caller).map(|()| None)
    }
    #[cold]
    async fn wait_to_begin(
        self: &Arc<Self>,
        begun: Begun,
        caller: Caller,
    ) -> Result<Running<'static>, AcquireError> {
        match begun {
            Begun::Entered(running) => Ok(running),
            Begun::Regains(view) => {
                self.regain(view.id(), caller).await?;
                Ok(view)
            }
            Begun::Enters(id) => {
                self.wait(id, Aim::Enter, caller).await?;
                Ok(Running::new(self, id, Kind::Run, false, caller.limit))
            }
        }
    }
    /// Returns one more view of this owner, unless its execution has ended: a frame may have been leaked.
    fn view(
        self: &Arc<Self>,
        id: OwnerId,
        kind: Kind,
        caller: Caller,
    ) -> Option<(Running<'static>, Step)> {
        let step = self.critical(|state, _| {
            state.find(id)?;
            state.owner_mut(id).views += 1;
            Some(state.regain(id))
        });
        step.map(|step| (Running::new(self, id, kind, true, caller.limit), step))
    }
    /// Refuses a wait for an owner that holds in a section around this call.
    fn refuse_under_holder(
        self: &Arc<Self>,
        id: Option<OwnerId>,
        caller: Caller,
    ) -> Result<(), AcquireError> {
        match ambient::other(self.address(), id, &[Kind::Load, Kind::Unload]) {
            Some(holder) => Err(self.deadlock(id.unwrap_or(holder), HOLDS, caller.at)),
            None => Ok(()),
        }
    }
    /// Waits for the owner's share, if an earlier wait was given up while another owner held.
    pub(super) async fn regain(
        self: &Arc<Self>,
        id: OwnerId,
        caller: Caller,
    ) -> Result<(), AcquireError> {
        self.refuse_under_holder(Some(id), caller)?;
        self.step(id, Aim::Share, caller, |state, _| Ok(state.regain(id))).await
    }
}

/// An execution that ends when this guard is dropped. See [`Interlock::enter`](super::Interlock::enter).
///
/// It stays on the thread that entered, because calls on that thread nest in it.
#[must_use = "the execution ends when this is dropped"]
pub struct Entered {
    /// Dropped first: from then on calls do not nest in it.
    _within: Within,
    running: Running<'static>,
}

impl Entered {
    pub(super) fn new(running: Running<'static>) -> Self {
        Entered { _within: running.frame().enter(), running }
    }
}

impl Deref for Entered {
    type Target = Running<'static>;
    fn deref(&self) -> &Running<'static> {
        &self.running
    }
}

impl DerefMut for Entered {
    fn deref_mut(&mut self) -> &mut Running<'static> {
        &mut self.running
    }
}

impl fmt::Debug for Entered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.running.fmt(f)
    }
}
