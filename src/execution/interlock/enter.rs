//! The begin of an execution: a new owner, or a view of the one that the thread or task is in.

use super::caller::Caller;
use super::error::AcquireError;
use super::inner::Inner;
use super::modes::{Origin, Step};
use super::owner_id::OwnerId;
use super::running::Running;
use crate::execution::ambient::{self, Kind};
use crate::section::{Guarded, now};
use std::marker::PhantomData;
use std::sync::Arc;

const HOLDS: &str = "this thread or task holds the interlock, and would wait for itself";

impl Inner {
    /// Begins an execution.
    ///
    /// - Inside an execution of the same thread or task it is a view of that one. It waits only for a missing share.
    /// - Inside a permit block it is a new owner: the block gave the share up.
    #[inline]
    pub(super) async fn enter<'s>(
        self: &Arc<Self>,
        caller: Caller,
    ) -> Result<Running<'s>, AcquireError> {
        let (running, step) = self.begin(&caller)?;
        if step == Step::Wait {
            running.wait(caller).await?;
        }
        Ok(running)
    }
    /// [`enter`](Self::enter) by a thread. An uncontended one needs no future.
    #[inline]
    pub(super) fn enter_now<'s>(
        self: &Arc<Self>,
        caller: Caller,
    ) -> Result<Running<'s>, AcquireError> {
        let (running, step) = self.begin(&caller)?;
        if step == Step::Wait {
            now(running.wait(caller))?;
        }
        Ok(running)
    }
    /// Begins an execution, which then may have to [wait](Running::wait).
    // Always inlined: a call would copy the `Running` right after its fields were written, and a copy stalls on them.
    #[inline(always)]
    pub(super) fn begin<'s>(
        self: &Arc<Self>,
        caller: &Caller,
    ) -> Result<(Running<'s>, Step), AcquireError> {
        let around = ambient::innermost(self.address());
        if let Some((id, kind)) = around {
            self.refuse_under_holder(id, *caller)?;
            if let Some(view) = self.view(id, kind, caller) {
                return Ok(view);
            }
        }
        let thread = (!caller.is_task).then(ambient::thread);
        let origin = Origin { thread, at: caller.at, since: self.state.clock().now() };
        let (id, step) = self.critical(|state, _| {
            let (id, step) = state.enter(origin, around.is_some());
            if step == Step::Wait {
                state.await_owner(id, *caller, origin.since);
            }
            (id, step)
        });
        Ok((self.share(id, Kind::Run, false, caller), step))
    }
    /// Returns one more view of this owner.
    ///
    /// Returns `None` in a permit block, and if the execution has ended: a frame may have been leaked.
    #[cold]
    fn view<'s>(
        self: &Arc<Self>,
        id: OwnerId,
        kind: Kind,
        caller: &Caller,
    ) -> Option<(Running<'s>, Step)> {
        let step = self.critical(|state, _| {
            state.find(id).filter(|_| kind != Kind::Permit)?;
            state.owner_mut(id).views += 1;
            let step = state.regain(id);
            if step == Step::Wait {
                state.await_owner(id, *caller, self.state.clock().now());
            }
            Some(step)
        })?;
        Some((self.share(id, kind, true, caller), step))
    }
    /// The caller has counted one more view of this owner.
    #[inline]
    fn share<'s>(
        self: &Arc<Self>,
        id: OwnerId,
        kind: Kind,
        is_view: bool,
        caller: &Caller,
    ) -> Running<'s> {
        let (home, limit, scope) = (self.clone(), caller.limit, PhantomData);
        Running { home, id, kind, is_view, limit, scope }
    }
    /// Refuses a wait for another owner that holds in a section around this call.
    pub(super) fn refuse_under_holder(
        self: &Arc<Self>,
        id: OwnerId,
        caller: Caller,
    ) -> Result<(), AcquireError> {
        match ambient::has_other(self.address(), id, &[Kind::Load, Kind::Unload]) {
            true => Err(self.deadlock(id, HOLDS, caller.at)),
            false => Ok(()),
        }
    }
}
