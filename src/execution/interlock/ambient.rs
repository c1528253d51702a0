//! The execution in which a thread is: so that one begun inside another is a share more of the same
//! owner, and does not wait for itself.

use super::inner::Inner;
use super::owner::{Lineage, Record};
use super::vitals::OwnerId;
use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::Arc;

/// What a closure that runs on this thread may count on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A share.
    Running,
    /// That nobody else runs.
    Exclusive,
    /// The same, in a reload.
    Reload,
    /// Nothing: it is a permit block.
    Permit,
}

impl Kind {
    /// Whether it is in a section of the holder's.
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
    /// Innermost last, of whatever interlock.
    // loom's macro takes no `const` block.
    #[allow(clippy::missing_const_for_thread_local)]
    static FRAMES: RefCell<Vec<Frame>> = RefCell::new(Vec::new());
}

/// The innermost frame of this interlock on this thread.
pub(super) fn innermost(home: &Arc<Inner>) -> Option<Frame> {
    let found = FRAMES.try_with(|frames| {
        let frames = frames.borrow();
        frames.iter().rev().find(|frame| Arc::ptr_eq(&frame.record.home, home)).cloned()
    });
    // A thread that ends is in no execution any more.
    found.ok().flatten()
}

/// Whether this thread is in an exclusive section of this interlock: whatever waits for the holder would
/// wait for itself.
pub(super) fn is_alone(home: &Arc<Inner>) -> bool {
    is_any(home, Kind::is_alone)
}
/// # Panics
/// If this thread loads or unloads: an execution of its own would wait for that.
pub(super) fn ambient_is_not_alone(home: &Arc<Inner>) {
    assert!(
        !is_alone(home),
        "this thread loads or unloads: a guard would wait for it. Use `run`, which nests"
    );
}

/// Whether this thread carries out a reload of what this interlock guards.
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
/// The other executions of its interlock in which this thread is.
pub(super) fn beside(record: &Arc<Record>) -> Vec<OwnerId> {
    let found = FRAMES.try_with(|frames| {
        let others = |frame: &&Frame| {
            Arc::ptr_eq(&frame.record.home, &record.home) && frame.record.key() != record.key()
        };
        frames.borrow().iter().filter(others).map(|frame| frame.record.id()).collect()
    });
    found.unwrap_or_default()
}

/// This thread is in none of its executions, until the guard is dropped: what it does meanwhile is not
/// theirs.
pub(super) fn set_aside() -> Aside {
    let frames = FRAMES.try_with(|frames| frames.take()).unwrap_or_default();
    Aside { frames, here: PhantomData }
}

#[must_use]
pub(super) struct Aside {
    frames: Vec<Frame>,
    /// Of this thread.
    here: PhantomData<*const ()>,
}

impl Drop for Aside {
    fn drop(&mut self) {
        let former = std::mem::take(&mut self.frames);
        let _ = FRAMES.try_with(|frames| frames.replace(former));
    }
}

/// The thread is in this frame until the guard is dropped.
pub(super) fn push(frame: Frame) -> Within {
    let pushed = FRAMES.try_with(|frames| frames.borrow_mut().push(frame)).is_ok();
    Within { pushed, here: PhantomData }
}

#[must_use]
pub(super) struct Within {
    pushed: bool,
    /// Of this thread.
    here: PhantomData<*const ()>,
}

impl Within {
    /// Ends it, and gives the frame back.
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
