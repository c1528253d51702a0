//! An execution from its own point of view: its share.

use super::caller::{Caller, OwnerId};
use super::error::AcquireError;
use super::inner::Inner;
use super::modes::Mode;
use crate::execution::ambient::{self, Frame, Kind};
use crate::kernel::section::Guarded;
use crate::kernel::sync::has_failed;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// A share of the interlock: while it lives, no other execution loads or unloads.
///
/// Handles to loaded values borrow from it, so the compiler refuses a handle that would live across a permit block, a
/// load or an unload. The lifetime keeps two closures from swapping their shares; user code never has to write it.
#[must_use = "the share is given back when this is dropped"]
pub struct Running<'scope> {
    pub(super) home: Arc<Inner>,
    pub(super) id: OwnerId,
    /// Whether it is a view of an execution that began before.
    pub(crate) is_view: bool,
    /// The time limit of its waits.
    pub(super) limit: Option<Duration>,
    pub(super) scope: PhantomData<fn(&'scope ()) -> &'scope ()>,
}

impl Running<'_> {
    /// Returns the execution's identifier in dumps.
    pub fn id(&self) -> OwnerId {
        self.id
    }
    /// Sets the execution's name in dumps and errors, such as `GET /users`.
    pub fn set_name(&self, name: &str) {
        let name = Arc::from(name);
        self.home.state.amend(|state| state.owner_mut(self.id).name = Some(name));
    }

    /// Returns whether the execution has its share, or holds around this call.
    ///
    /// The share is missing after a wait was dropped or has timed out, while another execution holds. It is missing,
    /// too, while a concurrent branch of the same task waits, holds or permits.
    #[inline]
    pub fn has_share(&self) -> bool {
        if self.home.quiet.load(Relaxed) {
            return true;
        }
        let mode = self.home.state.look(|state| state.owner(self.id).mode);
        mode == Mode::Running || mode == Mode::Holding && self.in_section()
    }

    /// Returns whether this call comes from inside the owner's section. An execution that began there may have left it.
    pub(super) fn in_section(&self) -> bool {
        ambient::in_section(self.home.address(), |owner| owner == self.id)
    }

    /// Waits until the execution may begin. A newcomer that gives up leaves the interlock when its `Running` is
    /// dropped.
    pub(crate) async fn wait(&self, caller: Caller) -> Result<(), AcquireError> {
        self.home.wait(self.id, caller).await
    }
    /// Returns the frame that a thread enters while the execution's body runs or is polled.
    #[inline]
    pub(crate) fn frame(&self) -> Frame {
        Frame { share: Some((self.home.address(), self.id, Kind::Run)), executor: None }
    }
}

impl Drop for Running<'_> {
    #[inline]
    fn drop(&mut self) {
        if !has_failed() {
            self.home.critical(|state, fx| state.leave(self.id, fx));
        }
    }
}

impl fmt::Debug for Running<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Running").field(&self.id).finish()
    }
}
