//! The executions and executors that a thread is in: one stack for each thread.
//!
//! The stack only decides what is nested. It owns no share: an execution is a separate value, which may move to
//! another thread. A future enters its frames at each poll (`scoped.rs`).

use super::interlock::OwnerId;
use std::cell::RefCell;
use std::marker::PhantomData;
use std::thread::ThreadId;

/// The state of an execution of an interlock inside a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It runs.
    Run,
    /// It holds to load.
    Load,
    /// It holds to unload.
    Unload,
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
    static STACK: RefCell<Stack> = RefCell::new(Stack::default());
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
#[must_use]
pub(crate) struct Within {
    /// Absent if the thread is about to end and its locals are destroyed.
    number: Option<u64>,
    /// Keeps the guard on this thread.
    here: PhantomData<*const ()>,
}

impl Frame {
    #[inline]
    pub(crate) fn enter(&self) -> Within {
        let number = STACK.try_with(|stack| {
            let mut stack = stack.borrow_mut();
            stack.entered += 1;
            let number = stack.entered;
            stack.frames.push((number, *self));
            number
        });
        Within { number: number.ok(), here: PhantomData }
    }
}

impl Drop for Within {
    #[inline]
    fn drop(&mut self) {
        let Some(number) = self.number else { return };
        let _ = STACK.try_with(|stack| {
            let frames = &mut stack.borrow_mut().frames;
            if let Some(at) = frames.iter().rposition(|(entered, _)| *entered == number) {
                frames.remove(at);
            }
        });
    }
}

/// Looks at the frames, innermost first. Returns the first result.
#[inline]
fn find<R>(mut look: impl FnMut(&Frame) -> Option<R>) -> Option<R> {
    // A thread whose locals are destroyed is in no execution.
    let found = STACK
        .try_with(|stack| stack.borrow().frames.iter().rev().find_map(|(_, frame)| look(frame)));
    found.ok().flatten()
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

/// Returns the innermost frame of this interlock.
#[inline]
pub(crate) fn innermost(interlock: usize) -> Option<(OwnerId, Kind)> {
    find(|frame| {
        frame.share.filter(|(of, ..)| *of == interlock).map(|(_, owner, kind)| (owner, kind))
    })
}

/// Returns whether an owner of this interlock other than `owner` has an innermost frame of one of `kinds`.
///
/// That frame lies on this thread's stack: while the thread waits, its owner cannot go on.
pub(crate) fn has_other(interlock: usize, owner: OwnerId, kinds: &[Kind]) -> bool {
    let mut seen = vec![owner];
    let other = find(|frame| {
        let (_, owner, kind) =
            frame.share.filter(|(of, owner, _)| *of == interlock && !seen.contains(owner))?;
        seen.push(owner);
        kinds.contains(&kind).then_some(())
    });
    other.is_some()
}
