//! Calls of a target that an executor refers to weakly.

use super::outcome::Verdict;

/// A weak reference: `std`'s, or the models' own.
pub(crate) trait WeakRef {
    type Strong;
    fn strong(&self) -> Option<Self::Strong>;
    fn is_gone(&self) -> bool;

    /// Returns the verdict of a call, or [`Verdict::Gone`] if the target has gone during the call.
    ///
    /// Without this the executor would sleep once more before it ends.
    fn unless_gone(&self, verdict: Verdict) -> Verdict {
        if self.is_gone() { Verdict::Gone } else { verdict }
    }
}

impl<T: ?Sized> WeakRef for std::sync::Weak<T> {
    type Strong = std::sync::Arc<T>;
    fn strong(&self) -> Option<Self::Strong> {
        self.upgrade()
    }
    fn is_gone(&self) -> bool {
        self.strong_count() == 0
    }
}

/// The models' references, whose counts the scheduler sees.
#[cfg(all(test, any(feature = "loom", feature = "shuttle")))]
impl<T> WeakRef for crate::kernel::sync::Weak<T> {
    type Strong = crate::kernel::sync::Arc<T>;
    fn strong(&self) -> Option<Self::Strong> {
        self.upgrade()
    }
    fn is_gone(&self) -> bool {
        self.upgrade().is_none()
    }
}

/// Calls `f` with the target, if the target is still there.
///
/// The call holds a strong reference. If the last owner drops its own meanwhile, the target is dropped here, on the
/// executor's thread.
pub(super) fn call<W: WeakRef, R: Into<Verdict>>(
    weak: &W,
    f: &mut impl FnMut(&W::Strong) -> R,
) -> Verdict {
    let Some(target) = weak.strong() else { return Verdict::Gone };
    let verdict = f(&target).into();
    drop(target);
    weak.unless_gone(verdict)
}
