//! Waiting for the end of a run, by threads and tasks.

use super::core::{Core, Ending};
use super::exit::Exit;
use super::outcome::{Ended, JoinError, Joined};
use super::registry::Member;
use crate::clock::Deadline;
use crate::collections::slab_list::Key;
use crate::collections::wait_queue::{Queue, Waiters};
use crate::sync::has_failed;
use crate::user_code::drop_contained;
use std::cell::RefCell;
use std::sync::Arc;
use std::task::{Context, Poll};

crate::sync::thread::thread_local! {
    /// The executors whose target this thread calls at present.
    // loom's macro takes no `const` block.
    #[allow(clippy::missing_const_for_thread_local)]
    static INSIDE: RefCell<Vec<usize>> = RefCell::new(Vec::new());
}

/// Marks this thread as one that calls an executor's target, until it is dropped.
pub(super) struct Inside {
    entered: bool,
}

impl Inside {
    pub(super) fn of<T>(core: &Arc<Core<T>>) -> Self {
        // A thread that ends has lost its locals, and may still drop a task.
        let entered = INSIDE.try_with(|cores| cores.borrow_mut().push(Arc::as_ptr(core) as usize));
        Inside { entered: entered.is_ok() }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        if self.entered {
            let _ = INSIDE.try_with(|cores| cores.borrow_mut().pop());
        }
    }
}

impl<T: Send + 'static> Core<T> {
    /// Blocks until the run ends, if there is one, and until the threads of all runs that have ended are gone.
    pub(super) fn join(&self, deadline: Deadline) -> Result<Joined, JoinError> {
        let (ended, exits) = self.wait_for_end(deadline).ok_or(JoinError::TimedOut)?;
        let are_gone = exits.iter().all(|exit| exit.is_gone_by(deadline));
        if are_gone { ended.result() } else { Err(JoinError::TimedOut) }
    }

    /// Blocks until the run ends. Returns `None` if the deadline comes first.
    fn wait_for_end(&self, deadline: Deadline) -> Option<(Ended, Vec<Exit>)> {
        if let Some(joined) = self.cannot_wait() {
            return Some((Ended::Joined(joined), Vec::new()));
        }
        let mut waiter = None;
        let mut ending = self.ending.lock();
        loop {
            let key = match self.look(&mut ending, waiter, Waiters::enqueue_thread) {
                Ok(ended) => return Some((ended, ending.exits.all())),
                Err(key) => *waiter.insert(key),
            };
            let Ending { joining, queue, .. } = &mut *ending;
            if self.settings.clock.has_passed(deadline) {
                joining.cancel(queue, key);
                return None;
            }
            let condvar = joining.condvar(key);
            self.settings.clock.wait(&condvar, &mut ending, deadline);
        }
    }

    fn poll_join(
        &self,
        waiter: &mut Option<Key>,
        cx: &Context<'_>,
    ) -> Poll<Result<Joined, JoinError>> {
        if let Some(joined) = self.cannot_wait() {
            return Poll::Ready(Ok(joined));
        }
        // The waker is user code: cloned before the lock, and dropped after it.
        let mut waker = Some(cx.waker().clone());
        let mut former = None;
        let looked = {
            let mut ending = self.ending.lock();
            let looked = self.look(&mut ending, *waiter, Waiters::enqueue_task);
            // Each poll leaves its own waker: the former one may belong to another task.
            if let (Err(key), Some(waker)) = (&looked, waker.take_if(|_| looked.is_err())) {
                former = ending.joining.set_waker(*key, waker);
            }
            looked
        };
        drop_contained((waker, former));
        *waiter = looked.as_ref().err().copied();
        looked.map_or(Poll::Pending, |ended| Poll::Ready(ended.result()))
    }

    /// One look under the lock: the outcome of the run, or the caller's place in the queue.
    fn look(
        &self,
        ending: &mut Ending<T>,
        waiter: Option<Key>,
        enqueue: fn(&mut Waiters<Ended>, &mut Queue) -> Key,
    ) -> Result<Ended, Key> {
        let Ending { joining, queue, last, .. } = ending;
        let waiter = match waiter {
            Some(waiter) => waiter,
            // Before the caller looks at the clock: an advance after this wakes it.
            None if self.signal.announce_join() => enqueue(joining, queue),
            None => return Ok(last.clone()),
        };
        joining.take(waiter).ok_or(waiter)
    }

    /// Returns why the caller cannot wait for the run, if it cannot.
    fn cannot_wait(&self) -> Option<Joined> {
        match () {
            () if self.is_inside() => Some(Joined::Itself),
            () if self.is_forked() => Some(Joined::Forked),
            () => None,
        }
    }
    fn is_inside(&self) -> bool {
        let me = std::ptr::from_ref(self) as usize;
        INSIDE.try_with(|cores| cores.borrow().contains(&me)).unwrap_or(false)
    }
}

/// A task's place among those that wait for the end of a run. Dropping it gives the place up.
pub(super) struct Join<'a, T: Send + 'static> {
    core: &'a Core<T>,
    waiter: Option<Key>,
}

impl<'a, T: Send + 'static> Join<'a, T> {
    pub(super) fn new(core: &'a Core<T>) -> Self {
        Join { core, waiter: None }
    }
    pub(super) fn poll(&mut self, cx: &Context<'_>) -> Poll<Result<Joined, JoinError>> {
        self.core.poll_join(&mut self.waiter, cx)
    }
}

impl<T: Send + 'static> Drop for Join<'_, T> {
    fn drop(&mut self) {
        if let Some(waiter) = self.waiter.take().filter(|_| !has_failed()) {
            let (_, waker) = {
                let mut ending = self.core.ending.lock();
                let ending = &mut *ending;
                ending.joining.cancel(&mut ending.queue, waiter)
            };
            drop_contained(waker);
        }
    }
}

impl<T: Send + 'static> Member for Core<T> {
    fn name(&self) -> Arc<str> {
        self.settings.name.clone()
    }
    fn close(&self) {
        self.signal.close();
    }
    fn has_ended_by(&self, deadline: Deadline) -> bool {
        self.wait_for_end(deadline).is_some()
    }
}
