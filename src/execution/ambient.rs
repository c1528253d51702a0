//! Which executors are running on this thread: all that a nested `wrap` has to know.
//!
//! This is for reentrancy only. Who owns what is said by the values themselves, so that an
//! execution may move to another thread, and a thread may have several.

use super::interlock;
use std::cell::RefCell;
use std::marker::PhantomData;

crate::sync::thread::thread_local! {
    /// By their addresses, which are theirs alone while they run; and whether by a reloader.
    // loom's macro takes no `const` block.
    #[allow(clippy::missing_const_for_thread_local)]
    static ACTIVE: RefCell<Vec<(usize, bool)>> = RefCell::new(Vec::new());
}

/// Says that an executor is running on this thread, until it is dropped.
pub(crate) struct Ambient {
    /// Not if the thread is about to end, and has no locals any more.
    entered: bool,
    /// It is this thread's.
    bound: PhantomData<*const ()>,
}

impl Ambient {
    pub(crate) fn enter(executor: usize, reloading: bool) -> Self {
        let entered = ACTIVE.try_with(|active| active.borrow_mut().push((executor, reloading)));
        Ambient { entered: entered.is_ok(), bound: PhantomData }
    }
    /// Whether the executor is running.
    pub(crate) fn is(executor: usize) -> bool {
        find(executor).is_some()
    }
    /// Whether it is running for its reloader.
    pub(crate) fn is_reloading(executor: usize) -> bool {
        find(executor) == Some(true)
    }
}

fn find(executor: usize) -> Option<bool> {
    let found = ACTIVE.try_with(|active| {
        let active = active.borrow();
        active.iter().rev().find(|(id, _)| *id == executor).map(|(_, reloading)| *reloading)
    });
    found.ok().flatten()
}

impl Drop for Ambient {
    fn drop(&mut self) {
        if self.entered {
            // The innermost: they are dropped in reverse order.
            let _ = ACTIVE.try_with(|active| active.borrow_mut().pop());
        }
    }
}

/// What a thread has to know that is in an execution.
#[derive(Clone)]
pub(crate) struct Scope {
    pub(crate) executor: usize,
    pub(crate) reloading: bool,
    pub(crate) share: Option<interlock::Scope>,
}

impl Scope {
    /// This thread is in it, until the value is dropped.
    pub(crate) fn enter(self) -> (Ambient, Option<interlock::Within>) {
        let ambient = Ambient::enter(self.executor, self.reloading);
        (ambient, self.share.map(interlock::Scope::enter))
    }
}
