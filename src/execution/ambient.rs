//! The executors that run on this thread, which decide whether a `wrap` is nested.
//!
//! This is for reentrancy only. The values themselves own their executions, so an execution may move to another
//! thread, and a thread may have several.

use super::interlock;
use std::cell::RefCell;
use std::marker::PhantomData;

crate::sync::thread::thread_local! {
    /// The address of each running executor, unique while it runs, and how it runs.
    // loom's macro takes no `const` block.
    #[allow(clippy::missing_const_for_thread_local)]
    static ACTIVE: RefCell<Vec<(usize, Runs)>> = RefCell::new(Vec::new());
}

/// How an executor runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Runs {
    ForExecutor,
    ForReloader,
    /// The executor counts as not running: its execution is finished, even inside another one.
    No,
}

/// The executor runs on this thread until this is dropped.
pub(crate) struct Ambient {
    /// False if the thread is about to end and has lost its locals.
    entered: bool,
    /// Bound to this thread.
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
    /// Whether the executor runs for its reloader.
    pub(crate) fn is_reloading(executor: usize) -> bool {
        find(executor) == Runs::ForReloader
    }
}

/// The innermost entry of the executor counts.
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
            // This is the innermost entry: guards are dropped in reverse order.
            let _ = ACTIVE.try_with(|active| active.borrow_mut().pop());
        }
    }
}

/// The scope of an execution, which a thread enters.
#[derive(Clone)]
pub(crate) struct Scope {
    /// The executor and how it runs. `None` inside another execution of the same executor, which has entered it.
    pub(crate) executor: Option<(usize, Runs)>,
    pub(crate) share: Option<interlock::Scope>,
}

impl Scope {
    /// This thread is in the scope until the value is dropped.
    pub(crate) fn enter(self) -> (Option<Ambient>, Option<interlock::Within>) {
        let ambient = self.executor.map(|(id, runs)| Ambient::enter(id, runs));
        (ambient, self.share.map(interlock::Scope::enter))
    }
}

/// This thread is in no execution until this is dropped: its calls belong to no execution on its stack.
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
