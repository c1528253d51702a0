//! A target that is referred to weakly.

use super::outcome::Verdict;

/// A weak reference, whoever counts.
pub(crate) trait WeakRef {
    type Strong;
    fn strong(&self) -> Option<Self::Strong>;
    fn is_gone(&self) -> bool;
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

/// The models' references, which the scheduler sees.
#[cfg(all(test, any(feature = "loom", feature = "shuttle")))]
impl<T> WeakRef for crate::sync::Weak<T> {
    type Strong = crate::sync::Arc<T>;
    fn strong(&self) -> Option<Self::Strong> {
        self.upgrade()
    }
    fn is_gone(&self) -> bool {
        self.upgrade().is_none()
    }
}

/// Calls `f` with the target, if it is there. It is kept for the time of the call, so its last owner may
/// let go of it meanwhile; it is then dropped here, on the executor's own thread.
pub(super) fn call<W: WeakRef, R: Into<Verdict>>(
    weak: &W,
    f: &mut impl FnMut(&W::Strong) -> R,
) -> Verdict {
    let Some(target) = weak.strong() else { return Verdict::Gone };
    let verdict = f(&target).into();
    drop(target);
    // Nobody need come back for one that has gone meanwhile.
    if weak.is_gone() { Verdict::Gone } else { verdict }
}
