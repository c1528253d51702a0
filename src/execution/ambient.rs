//! Which executors are running on this thread: all that a nested `wrap` has to know.
//!
//! This is for reentrancy only. Who owns what is said by the values themselves, so that an
//! execution may move to another thread, and a thread may have several.

use super::interlock;
use std::cell::RefCell;
use std::marker::PhantomData;

crate::sync::thread::thread_local! {
    /// By their addresses, which are theirs alone while they run; and how.
    // loom's macro takes no `const` block.
    #[allow(clippy::missing_const_for_thread_local)]
    static ACTIVE: RefCell<Vec<(usize, Runs)>> = RefCell::new(Vec::new());
}

/// How an executor runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Runs {
    ForExecutor,
    ForReloader,
    /// Not: its execution is over, whichever that is inside of.
    No,
}

/// Says that an executor is running on this thread, until it is dropped.
pub(crate) struct Ambient {
    /// Not if the thread is about to end, and has no locals any more.
    entered: bool,
    /// It is this thread's.
    bound: PhantomData<*const ()>,
}

impl Ambient {
    pub(crate) fn enter(executor: usize, runs: Runs) -> Self {
        let entered = ACTIVE.try_with(|active| active.borrow_mut().push((executor, runs)));
        Ambient { entered: entered.is_ok(), bound: PhantomData }
    }
    /// Whether the executor is running.
    pub(crate) fn is(executor: usize) -> bool {
        find(executor) != Runs::No
    }
    /// Whether it is running for its reloader.
    pub(crate) fn is_reloading(executor: usize) -> bool {
        find(executor) == Runs::ForReloader
    }
}

/// As the innermost that says something of it.
fn find(executor: usize) -> Runs {
    let found = ACTIVE.try_with(|active| {
        let active = active.borrow();
        active.iter().rev().find(|(id, _)| *id == executor).map(|(_, runs)| *runs)
    });
    found.ok().flatten().unwrap_or(Runs::No)
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
    /// Which executor runs, and how. None inside another execution of the same: that
    /// has said so.
    pub(crate) executor: Option<(usize, Runs)>,
    pub(crate) share: Option<interlock::Scope>,
}

impl Scope {
    /// This thread is in it, until the value is dropped.
    pub(crate) fn enter(self) -> (Option<Ambient>, Option<interlock::Within>) {
        let ambient = self.executor.map(|(id, runs)| Ambient::enter(id, runs));
        (ambient, self.share.map(interlock::Scope::enter))
    }
}

/// This thread is in no execution, until the value is dropped: what it does meanwhile belongs to none of
/// those that are on its stack.
pub(crate) struct Outside {
    active: Vec<(usize, Runs)>,
    _shares: interlock::Outside,
}

impl Outside {
    pub(crate) fn step() -> Self {
        let active = ACTIVE.try_with(|active| active.take()).unwrap_or_default();
        Outside { active, _shares: interlock::Outside::step() }
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        let former = std::mem::take(&mut self.active);
        let _ = ACTIVE.try_with(|active| active.replace(former));
    }
}
