//! The executions and executors that a thread is in: one stack for each thread.
//!
//! The stack only decides what is nested. It owns no share: an execution is a separate value, which may move to
//! another thread. A future enters its frames at each poll (`scoped.rs`).

use super::interlock::OwnerId;
use crate::kernel::thread_stack::thread_stack;
use std::marker::PhantomData;
use std::thread::ThreadId;

/// The state of an execution of an interlock inside a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It runs, or is a view inside a section.
    Run,
    /// It holds, to load or to unload.
    Section,
    /// It permits loads, and has no share.
    Permit,
}

/// An execution that the thread is in: of an interlock, of an executor, or of both.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    /// The address of the interlock, the owner there, and the owner's state.
    pub(crate) share: Option<(usize, OwnerId, Kind)>,
    /// The address of the active executor, whether it runs for its reloader, and the execution's number.
    ///
    /// Absent if an outer frame of the same executor has it.
    pub(crate) executor: Option<(usize, bool, u64)>,
}

thread_stack!(
    /// Calls `f` with the thread's frames.
    with_frames,
    Frame
);

std::thread_local! {
    /// Cached, because `std::thread::current` changes a reference count.
    static THREAD: ThreadId = std::thread::current().id();
}

/// Returns the identifier of this thread.
#[inline]
pub(crate) fn thread() -> ThreadId {
    THREAD.with(|thread| *thread)
}

/// Keeps this thread in a frame until it is dropped. Guards may be dropped in any order.
#[derive(Debug)]
#[must_use]
pub(crate) struct Within {
    /// Absent if the thread has lost its stacks.
    number: Option<u64>,
    /// Ties the guard to this thread.
    here: PhantomData<*const ()>,
}

impl Frame {
    #[inline]
    pub(crate) fn enter(&self) -> Within {
        Within { number: with_frames(|frames| frames.enter(*self)), here: PhantomData }
    }
}

impl Drop for Within {
    #[inline]
    fn drop(&mut self) {
        if let Some(number) = self.number {
            with_frames(|frames| frames.leave(number));
        }
    }
}

/// Looks at the frames, innermost first. Returns the first result.
#[inline]
fn find<R>(mut look: impl FnMut(&Frame) -> Option<R>) -> Option<R> {
    with_frames(|frames| frames.innermost_first().find_map(&mut look)).flatten()
}

/// Returns whether this executor is active here, and then whether it runs for its reloader.
#[inline]
pub(crate) fn executor(executor: usize) -> Option<bool> {
    find(|frame| frame.executor.filter(|(id, ..)| *id == executor).map(|(_, reloads, _)| reloads))
}

/// Looks at the numbers of the executors' executions here, innermost first. Returns the first result.
pub(crate) fn executions<R>(mut look: impl FnMut(u64) -> Option<R>) -> Option<R> {
    find(|frame| frame.executor.and_then(|(_, _, execution)| look(execution)))
}

/// Looks at the frames of this interlock, innermost first. Returns the first result.
#[inline]
fn find_share<R>(interlock: usize, mut look: impl FnMut(OwnerId, Kind) -> Option<R>) -> Option<R> {
    find(|frame| match frame.share {
        Some((of, owner, kind)) if of == interlock => look(owner, kind),
        _ => None,
    })
}

/// Returns the innermost frame of this interlock.
#[inline]
pub(crate) fn innermost(interlock: usize) -> Option<(OwnerId, Kind)> {
    find_share(interlock, |owner, kind| Some((owner, kind)))
}

/// Returns whether this thread is in a section of an owner of this interlock for which `is_meant` returns true.
pub(crate) fn in_section(interlock: usize, is_meant: impl Fn(OwnerId) -> bool) -> bool {
    let section = |owner, kind| (kind == Kind::Section && is_meant(owner)).then_some(());
    find_share(interlock, section).is_some()
}

/// Returns whether this thread is in another owner of this interlock. With `but_permits`, one whose innermost frame is
/// a permit block does not count.
///
/// While the thread waits, that owner cannot go on.
pub(crate) fn in_other(interlock: usize, owner: OwnerId, but_permits: bool) -> bool {
    let mut seen = vec![owner];
    let other = find_share(interlock, |owner, kind| {
        if seen.contains(&owner) {
            return None;
        }
        seen.push(owner);
        (!but_permits || kind != Kind::Permit).then_some(())
    });
    other.is_some()
}
