//! The executions that a thread is in. One that begins inside another becomes a further share of the same
//! owner, and does not wait for itself.

use super::inner::Inner;
use super::owner::{Lineage, Record};
use super::vitals::OwnerId;
use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::Arc;

/// The guarantees of a closure on this thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It has a share.
    Running,
    /// No other execution runs.
    Exclusive,
    /// No other execution runs, because this thread reloads.
    Reload,
    /// It has no share: it is in a permit block.
    Permit,
}

impl Kind {
    pub(super) fn is_alone(self) -> bool {
        matches!(self, Kind::Exclusive | Kind::Reload)
    }
}

#[derive(Clone)]
pub(super) struct Frame {
    pub(super) record: Arc<Record>,
    pub(super) level: u32,
    pub(super) kind: Kind,
    pub(super) lineage: Option<Arc<Lineage>>,
}

crate::sync::thread::thread_local! {
    /// The frames of all interlocks, innermost last.
    // loom's macro takes no `const` block.
    #[allow(clippy::missing_const_for_thread_local)]
    static FRAMES: RefCell<Vec<Frame>> = RefCell::new(Vec::new());
}

pub(super) fn innermost(home: &Arc<Inner>) -> Option<Frame> {
    let found = FRAMES.try_with(|frames| {
        let frames = frames.borrow();
        frames.iter().rev().find(|frame| Arc::ptr_eq(&frame.record.home, home)).cloned()
    });
    // A thread whose locals are destroyed is in no execution.
    found.ok().flatten()
}

/// Returns true if a wait for the holder would be a wait for itself.
pub(super) fn is_alone(home: &Arc<Inner>) -> bool {
    is_any(home, Kind::is_alone)
}
/// # Panics
/// If this thread loads or unloads: its own execution would wait for that.
pub(super) fn ambient_is_not_alone(home: &Arc<Inner>) {
    assert!(
        !is_alone(home),
        "this thread loads or unloads, so a guard would wait for itself: use `run`, which nests"
    );
}

/// Returns true if this thread carries out a reload.
pub(super) fn reloads(home: &Arc<Inner>) -> bool {
    is_any(home, |kind| kind == Kind::Reload)
}
fn is_any(home: &Arc<Inner>, wanted: fn(Kind) -> bool) -> bool {
    let found = FRAMES.try_with(|frames| {
        let of_home = |frame: &&Frame| Arc::ptr_eq(&frame.record.home, home);
        frames.borrow().iter().filter(of_home).any(|frame| wanted(frame.kind))
    });
    found.unwrap_or(false)
}
/// Returns this thread's other executions in the same interlock.
pub(super) fn beside(record: &Arc<Record>) -> Vec<OwnerId> {
    let found = FRAMES.try_with(|frames| {
        let others = |frame: &&Frame| {
            Arc::ptr_eq(&frame.record.home, &record.home) && frame.record.key() != record.key()
        };
        frames.borrow().iter().filter(others).map(|frame| frame.record.id()).collect()
    });
    found.unwrap_or_default()
}

/// Takes this thread out of all its executions, until the guard is dropped.
pub(super) fn set_aside() -> Aside {
    let frames = FRAMES.try_with(|frames| frames.take()).unwrap_or_default();
    Aside { frames, here: PhantomData }
}

#[must_use]
pub(super) struct Aside {
    frames: Vec<Frame>,
    /// Ties the guard to this thread.
    here: PhantomData<*const ()>,
}

impl Drop for Aside {
    fn drop(&mut self) {
        let former = std::mem::take(&mut self.frames);
        let _ = FRAMES.try_with(|frames| frames.replace(former));
    }
}

/// Puts this thread into the frame, until the guard is dropped.
pub(super) fn push(frame: Frame) -> Within {
    let pushed = FRAMES.try_with(|frames| frames.borrow_mut().push(frame)).is_ok();
    Within { pushed, here: PhantomData }
}

#[must_use]
pub(super) struct Within {
    pushed: bool,
    /// Ties the guard to this thread.
    here: PhantomData<*const ()>,
}

impl Within {
    pub(super) fn end(mut self) -> Option<Frame> {
        self.pop()
    }
    fn pop(&mut self) -> Option<Frame> {
        if !std::mem::take(&mut self.pushed) {
            return None;
        }
        FRAMES.try_with(|frames| frames.borrow_mut().pop()).ok().flatten()
    }
}

impl Drop for Within {
    fn drop(&mut self) {
        self.pop();
    }
}
