//! The begin of an execution: a new owner, or a view of the one that the thread or task is in.

use super::caller::{Caller, OwnerId};
use super::error::AcquireError;
use super::inner::Inner;
use super::modes::Step;
use super::running::Running;
use crate::execution::ambient::{self, Kind};
use crate::kernel::section::Guarded;
use std::marker::PhantomData;
use std::sync::Arc;

const HERE: &str = "another execution that this thread is in would have to go on first";
const HOLDS: &str = "this thread or task holds the interlock, and would wait for itself";

impl Inner {
    /// Begins an execution, and waits for its share.
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
    /// Begins an execution, which then may have to [wait](Running::wait).
    ///
    /// - Inside an execution of the same thread or task it is a view of that one. It waits only for a missing share.
    /// - Inside a permit block it is a new owner: the block gave the share up.
    // Always inlined: a call would copy the `Running` right after its fields were written, and a copy stalls on them.
    #[inline(always)]
    pub(super) fn begin<'s>(
        self: &Arc<Self>,
        caller: &Caller,
    ) -> Result<(Running<'s>, Step), AcquireError> {
        let around = ambient::innermost(self.address());
        if let Some((id, kind)) = around {
            self.refuse_under_holder(id, *caller)?;
            let is_view = kind != Kind::Permit;
            if let Some(view) = is_view.then(|| self.view(id, caller)).flatten() {
                return view;
            }
        }
        let now = self.state.clock().now();
        let (id, step) = self.critical(|state, _| {
            let (id, step) = state.enter(caller, now, around.is_some());
            if step == Step::Wait {
                state.await_owner(id, *caller, now);
            }
            (id, step)
        });
        let running = self.share(id, false, caller);
        if step == Step::Wait {
            self.refuse_in_other(id, caller, true)?;
        }
        Ok((running, step))
    }
    /// Returns one more view of this owner. Returns `None` if it has ended: a frame may have been leaked.
    #[cold]
    fn view<'s>(
        self: &Arc<Self>,
        id: OwnerId,
        caller: &Caller,
    ) -> Option<Result<(Running<'s>, Step), AcquireError>> {
        let step = self.critical(|state, _| {
            state.find(id)?;
            let step = state.regain(id, caller.is_task);
            if step.is_ok() {
                state.owner_mut(id).views += 1;
            }
            if step == Ok(Step::Wait) {
                state.await_owner(id, *caller, self.state.clock().now());
            }
            Some(step)
        })?;
        Some(match step {
            Ok(step) => Ok((self.share(id, true, caller), step)),
            Err(why) => Err(self.deadlock(id, why, caller.at)),
        })
    }
    /// The caller has counted one more view of this owner.
    #[inline]
    fn share<'s>(self: &Arc<Self>, id: OwnerId, is_view: bool, caller: &Caller) -> Running<'s> {
        Running { home: self.clone(), id, is_view, limit: caller.limit, scope: PhantomData }
    }
    /// Refuses a wait of a thread that is in another execution. With `but_permits`, permit blocks do not count.
    pub(super) fn refuse_in_other(
        self: &Arc<Self>,
        id: OwnerId,
        caller: &Caller,
        but_permits: bool,
    ) -> Result<(), AcquireError> {
        let stops = !caller.is_task && ambient::in_other(self.address(), id, but_permits);
        if stops { Err(self.deadlock(id, HERE, caller.at)) } else { Ok(()) }
    }
    /// Refuses a wait for another owner that holds in a section around this call.
    pub(super) fn refuse_under_holder(
        self: &Arc<Self>,
        id: OwnerId,
        caller: Caller,
    ) -> Result<(), AcquireError> {
        let would_wait = ambient::in_section(self.address(), |owner| owner != id);
        if would_wait { Err(self.deadlock(id, HOLDS, caller.at)) } else { Ok(()) }
    }
}
