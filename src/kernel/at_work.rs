//! The mark of a thread at work: the owners for which the current thread runs user code.
//!
//! A thread is at work for an application pool while it spawns for it, runs its effects or notifies its observer; for a
//! resource pool while it reports a failed start to its listener; for an executor while it calls its target. Such user
//! code may call the owner, and the owner must not wait for its own thread, nor call the listener within itself.

use crate::kernel::thread_stack::thread_stack;
use std::marker::PhantomData;

thread_stack!(
    /// Calls `f` with the addresses of the owners.
    with_owners,
    usize
);

/// Keeps this thread at work for an owner until it is dropped.
#[must_use]
pub(crate) struct AtWork {
    number: Option<u64>,
    /// Not `Send`: the mark is on this thread's stack.
    here: PhantomData<*const ()>,
}

impl AtWork {
    pub(crate) fn begin<T>(owner: &T) -> Self {
        let number = with_owners(|owners| owners.enter(address(owner)));
        AtWork { number, here: PhantomData }
    }
    /// Returns `None` if this thread is at work for the owner already.
    pub(crate) fn begin_once<T>(owner: &T) -> Option<Self> {
        (!Self::is_for(owner)).then(|| Self::begin(owner))
    }
    /// Returns whether this thread is at work for the owner.
    pub(crate) fn is_for<T>(owner: &T) -> bool {
        let address = address(owner);
        let found = with_owners(|owners| owners.innermost_first().any(|owner| *owner == address));
        found.unwrap_or(false)
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            with_owners(|owners| owners.leave(number));
        }
    }
}

fn address<T>(owner: &T) -> usize {
    std::ptr::from_ref(owner) as usize
}
