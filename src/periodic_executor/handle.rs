//! The owners whose drop closes an executor.

use super::core::Core;
use super::registry::Member;
use crate::sync::has_failed;
use std::fmt;
use std::sync::Arc;

/// Closes an executor when it is dropped, however many handles the executor has.
///
/// The owner of the target keeps one, so that the executor ends with the owner, at once. An owner that keeps the
/// executor's only handle does not need it. The drop takes no lock, does not allocate and does not wait. So the
/// owner may be dropped anywhere, also on the executor's own thread.
pub struct CloseOnDrop(Arc<dyn Member>);

impl CloseOnDrop {
    pub(super) fn new(executor: Arc<dyn Member>) -> Self {
        CloseOnDrop(executor)
    }
}

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        if !has_failed() {
            self.0.close();
        }
    }
}

impl fmt::Debug for CloseOnDrop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CloseOnDrop").field(&self.0.name()).finish()
    }
}

/// The state that all clones of an executor share. The drop of the last one closes the executor.
pub(super) struct Handle<T: Send + 'static>(pub(super) Arc<Core<T>>);

impl<T: Send + 'static> Drop for Handle<T> {
    fn drop(&mut self) {
        if !has_failed() {
            self.0.signal.close();
        }
    }
}

impl<T: Send + 'static> Handle<T> {
    pub(super) fn fmt(&self, what: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(what)
            .field("name", &self.0.settings.name)
            .field("phase", &self.0.signal.phase())
            .finish_non_exhaustive()
    }
}
