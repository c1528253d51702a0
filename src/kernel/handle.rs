//! Handles to something that is closed when the last of them is dropped.

use crate::kernel::sync::has_failed;
use std::sync::{Arc, Weak};

/// The target of a [`Handle`].
pub(crate) trait Close {
    fn close(this: &Arc<Self>);
}

/// A handle that keeps its target open. Dropping the last one closes the target.
pub(crate) struct Handle<T: Close>(Arc<ClosedOnDrop<T>>);
/// A handle that does not keep its target open.
pub(crate) struct WeakHandle<T: Close>(Weak<ClosedOnDrop<T>>);
struct ClosedOnDrop<T: Close>(Arc<T>);

impl<T: Close> Drop for ClosedOnDrop<T> {
    fn drop(&mut self) {
        if !has_failed() {
            T::close(&self.0);
        }
    }
}

impl<T: Close> Handle<T> {
    pub(crate) fn new(target: Arc<T>) -> Self {
        Handle(Arc::new(ClosedOnDrop(target)))
    }
    #[inline]
    pub(crate) fn target(&self) -> &Arc<T> {
        &self.0.0
    }
    pub(crate) fn downgrade(&self) -> WeakHandle<T> {
        WeakHandle(Arc::downgrade(&self.0))
    }
}
impl<T: Close> WeakHandle<T> {
    pub(crate) fn upgrade(&self) -> Option<Handle<T>> {
        self.0.upgrade().map(Handle)
    }
}
impl<T: Close> Clone for Handle<T> {
    fn clone(&self) -> Self {
        Handle(self.0.clone())
    }
}
impl<T: Close> Clone for WeakHandle<T> {
    fn clone(&self) -> Self {
        WeakHandle(self.0.clone())
    }
}
