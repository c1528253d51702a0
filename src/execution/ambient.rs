//! The executions and executors that a thread is in: one stack for each thread.
//!
//! The stack only decides what is nested. It owns no share: an execution is a separate value, which may move to
//! another thread. A future enters its frames at each poll (`scoped.rs`).

use super::interlock::OwnerId;
use std::cell::RefCell;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
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

#[derive(Default)]
struct Stack {
    /// Innermost last, each with its number.
    frames: Vec<(u64, Frame)>,
    /// Numbers the frames. A number is never used twice, so a guard removes its own frame only.
    entered: u64,
}

crate::sync::thread::thread_local! {
    // loom's macro takes no `const` block.
    #[allow(clippy::missing_const_for_thread_local)]
    static STACK: RefCell<Stack> = RefCell::default();
    /// Has no destructor: for executions in the destructors of other locals, after that of the first stack.
    #[allow(clippy::missing_const_for_thread_local)]
    static LATE: ManuallyDrop<RefCell<Stack>> =
        ManuallyDrop::new(RefCell::new(Stack { frames: Vec::new(), entered: FIRST_LATE }));
}

/// The numbers in the late stack begin here, so that no guard of the first one removes its frames.
const FIRST_LATE: u64 = 1 << 63;

/// Calls `f` with the thread's stack.
#[inline]
fn with_stack<R>(mut f: impl FnMut(&mut Stack) -> R) -> Option<R> {
    let found = STACK.try_with(|stack| f(&mut stack.borrow_mut()));
    found.or_else(|_| LATE.try_with(|stack| f(&mut stack.borrow_mut()))).ok()
}

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
        let number = with_stack(|stack| {
            stack.entered += 1;
            stack.frames.push((stack.entered, *self));
            stack.entered
        });
        Within { number, here: PhantomData }
    }
}

impl Drop for Within {
    #[inline]
    fn drop(&mut self) {
        with_stack(|stack| {
            let entered = |(entered, _): &(u64, Frame)| Some(*entered) == self.number;
            if let Some(at) = stack.frames.iter().rposition(entered) {
                stack.frames.remove(at);
            }
            if stack.entered >= FIRST_LATE && stack.frames.is_empty() {
                stack.frames = Vec::new(); // no destructor frees it
            }
        });
    }
}

/// Looks at the frames, innermost first. Returns the first result.
#[inline]
fn find<R>(mut look: impl FnMut(&Frame) -> Option<R>) -> Option<R> {
    with_stack(|stack| stack.frames.iter().rev().find_map(|(_, frame)| look(frame))).flatten()
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
