//! A condition variable for threads and tasks alike: FIFO, cancellable, by hand-over.
//!
//! It is a plain data structure that lives under its owner's lock. A waiter is enqueued there, and
//! whoever makes something available resolves the waiter at the front *under the same lock*, with an
//! outcome that is the waiter's from that moment. So:
//! - nobody overtakes: what has been handed over cannot be taken by a newcomer (erratum E17);
//! - wake-ups are exact: only a waiter that has its outcome is woken;
//! - no wake-up is lost (erratum E21): the outcome is stored before the lock is released, and a waiter
//!   looks for it under the lock before it sleeps;
//! - giving up is one step: a waiter that was resolved meanwhile finds its outcome and passes it on.
//!
//! [`Wake`]s are run after the lock is released: a task's waker is foreign code.

use crate::collections::indexed_heap::{self, IndexedHeap, Placed};
use crate::collections::slab_list::{Key, Links, List};
use crate::sync::Condvar;
use slab::Slab;
use std::sync::Arc;
use std::task::Waker;

/// All the waiters of one owner, in any number of queues.
#[derive(Debug)]
pub(crate) struct Waiters<T> {
    slab: Slab<Waiter<T>>,
    /// Condition variables of waiters that have left: after warm-up, waiting allocates nothing.
    spare: Vec<Arc<Condvar>>,
    /// How many have ever queued up.
    tickets: u64,
}

/// One first-come-first-served queue of them.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// Those that were woken in vain, by their tickets: they come before all others. (O(log n) of them, for
    /// they come back in any order.)
    again: IndexedHeap<u64, Again>,
    list: List<InQueue>,
}

#[derive(Debug)]
struct Waiter<T> {
    links: Links,
    again: indexed_heap::Place,
    wake: Wake,
    outcome: Option<T>,
    /// Tells the order of arrival over all queues.
    ticket: u64,
}

impl<T> crate::collections::slab_list::Linked<InQueue> for Waiter<T> {
    fn links(&self) -> &Links {
        &self.links
    }
    fn links_mut(&mut self) -> &mut Links {
        &mut self.links
    }
}

/// The list of one queue.
#[derive(Debug)]
pub(crate) enum InQueue {}

/// Those of one queue that were woken in vain.
#[derive(Debug)]
pub(crate) enum Again {}
impl<T> Placed<Again> for Waiter<T> {
    fn place(&mut self) -> &mut indexed_heap::Place {
        &mut self.again
    }
}

/// How a waiter is woken, once the lock has been released.
#[derive(Debug)]
pub(crate) enum Wake {
    /// A thread that waits on this with the owner's lock.
    Thread(Arc<Condvar>),
    /// A task; none before its first poll.
    Task(Option<Waker>),
}

impl Wake {
    pub(crate) fn wake(self) {
        match self {
            Wake::Thread(condvar) => {
                condvar.notify_one();
            }
            Wake::Task(Some(waker)) => waker.wake(),
            Wake::Task(None) => {}
        }
    }
    /// What a thread waits on.
    pub(crate) fn thread(&self) -> Option<&Arc<Condvar>> {
        match self {
            Wake::Thread(condvar) => Some(condvar),
            Wake::Task(_) => None,
        }
    }
}

impl<T> Default for Waiters<T> {
    fn default() -> Self {
        Waiters { slab: Slab::new(), spare: Vec::new(), tickets: 0 }
    }
}

impl<T> Waiters<T> {
    /// How many are there, resolved ones included.
    #[cfg(any(test, debug_assertions))]
    pub(crate) fn len(&self) -> usize {
        self.slab.len()
    }

    /// A thread queues up; it then waits on [`condvar`](Self::condvar).
    pub(crate) fn enqueue_thread(&mut self, queue: &mut Queue) -> Key {
        let wake = self.thread();
        self.enqueue(queue, wake)
    }
    /// A task queues up; it then shows its waker with [`set_waker`](Self::set_waker).
    pub(crate) fn enqueue_task(&mut self, queue: &mut Queue) -> Key {
        self.enqueue(queue, Wake::Task(None))
    }
    /// Who was woken in vain takes its place again: at the front, but for those that were woken before it and
    /// in vain, too.
    pub(crate) fn requeue(&mut self, queue: &mut Queue, is_thread: bool, ticket: u64) -> Key {
        let wake = if is_thread { self.thread() } else { Wake::Task(None) };
        let key = self.insert(wake, ticket);
        queue.again.set(&mut self.slab, key, Some(ticket));
        key
    }
    fn thread(&mut self) -> Wake {
        Wake::Thread(self.spare.pop().unwrap_or_else(|| Arc::new(Condvar::new())))
    }
    fn enqueue(&mut self, queue: &mut Queue, wake: Wake) -> Key {
        self.tickets += 1;
        let key = self.insert(wake, self.tickets);
        queue.list.push_back(&mut self.slab, key);
        key
    }
    fn insert(&mut self, wake: Wake, ticket: u64) -> Key {
        let (links, again) = (Links::default(), indexed_heap::Place::default());
        let waiter = Waiter { links, again, wake, outcome: None, ticket };
        Key::new(self.slab.insert(waiter))
    }

    pub(crate) fn ticket(&self, key: Key) -> u64 {
        self.slab[key.index()].ticket
    }
    /// The ticket of the oldest waiter of a queue.
    pub(crate) fn front_ticket(&self, queue: &Queue) -> Option<u64> {
        let again = queue.again.first().map(|(ticket, _)| ticket);
        again.or_else(|| queue.list.front().map(|key| self.ticket(key)))
    }

    /// Gives the oldest waiter of the queue its outcome. The caller wakes it after the lock.
    ///
    /// # Panics
    /// If nobody waits.
    pub(crate) fn resolve_front(&mut self, queue: &mut Queue, outcome: T) -> Wake {
        let again = queue.again.pop_first(&mut self.slab);
        let key = again.or_else(|| queue.list.pop_front(&mut self.slab)).expect("somebody waits");
        let waiter = &mut self.slab[key.index()];
        waiter.outcome = Some(outcome);
        match &mut waiter.wake {
            Wake::Thread(condvar) => Wake::Thread(condvar.clone()),
            Wake::Task(waker) => Wake::Task(waker.take()),
        }
    }

    /// The waiter's outcome, if it has been resolved; it is then gone.
    pub(crate) fn take(&mut self, key: Key) -> Option<T> {
        self.slab[key.index()].outcome.as_ref()?;
        self.remove(key).0
    }

    /// The waiter gives up. What it had been given meanwhile is the caller's to pass on; its waker
    /// is the caller's to drop, after the lock.
    pub(crate) fn cancel(&mut self, queue: &mut Queue, key: Key) -> (Option<T>, Option<Waker>) {
        queue.again.set(&mut self.slab, key, None);
        if self.slab[key.index()].links.is_linked() {
            queue.list.remove(&mut self.slab, key);
        }
        self.remove(key)
    }

    fn remove(&mut self, key: Key) -> (Option<T>, Option<Waker>) {
        let waiter = self.slab.remove(key.index());
        let waker = match waiter.wake {
            Wake::Thread(condvar) => {
                self.spare.push(condvar);
                None
            }
            Wake::Task(waker) => waker,
        };
        (waiter.outcome, waker)
    }

    /// Returns how the waiter is woken. Called only while it has no outcome.
    pub(crate) fn wake_mut(&mut self, key: Key) -> &mut Wake {
        &mut self.slab[key.index()].wake
    }

    /// What the waiting thread sleeps on.
    pub(crate) fn condvar(&self, key: Key) -> Arc<Condvar> {
        match &self.slab[key.index()].wake {
            Wake::Thread(condvar) => condvar.clone(),
            Wake::Task(_) => unreachable!("a task has no condition variable"),
        }
    }

    /// Who is to be woken when the task is resolved. Gives the former waker back, to be dropped after
    /// the lock.
    pub(crate) fn set_waker(&mut self, key: Key, waker: Waker) -> Option<Waker> {
        match &mut self.slab[key.index()].wake {
            Wake::Task(slot) => slot.replace(waker),
            Wake::Thread(_) => unreachable!("a thread has no waker"),
        }
    }

    /// Whom nobody will wake any more: to be dropped without the lock.
    pub(crate) fn take_wakers(&mut self) -> Vec<Waker> {
        let wakes = self.slab.iter_mut().map(|(_, waiter)| &mut waiter.wake);
        wakes
            .filter_map(|wake| match wake {
                Wake::Thread(_) => None,
                Wake::Task(waker) => waker.take(),
            })
            .collect()
    }

    /// The condition variables of all waiting threads: for a clock that is moved by hand.
    pub(crate) fn threads(&self) -> Vec<Arc<Condvar>> {
        let wakes = self.slab.iter().map(|(_, waiter)| &waiter.wake);
        wakes
            .filter_map(|wake| match wake {
                Wake::Thread(condvar) => Some(condvar.clone()),
                Wake::Task(_) => None,
            })
            .collect()
    }
}

impl Queue {
    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.again.len() + self.list.len()
    }
    pub(crate) fn is_empty(&self) -> bool {
        self.again.is_empty() && self.list.is_empty()
    }
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_is_served_first_and_only_once() {
        let (mut waiters, mut queue) = (Waiters::default(), Queue::default());
        let keys: Vec<_> = (0..3).map(|_| waiters.enqueue_thread(&mut queue)).collect();
        assert_eq!(queue.len(), 3);
        for outcome in ["a", "b"] {
            waiters.resolve_front(&mut queue, outcome).wake();
        }
        assert_eq!(waiters.take(keys[2]), None);
        assert_eq!(waiters.take(keys[1]), Some("b"));
        assert_eq!(waiters.take(keys[0]), Some("a"));
        assert_eq!((queue.len(), waiters.len()), (1, 1));
    }

    #[test]
    fn who_gives_up_after_being_served_passes_it_on() {
        let (mut waiters, mut queue) = (Waiters::default(), Queue::default());
        let (a, b) = (waiters.enqueue_task(&mut queue), waiters.enqueue_task(&mut queue));
        drop(waiters.resolve_front(&mut queue, 1));
        assert_eq!(waiters.cancel(&mut queue, a).0, Some(1));
        assert_eq!(waiters.cancel(&mut queue, b).0, None);
        assert!(queue.is_empty() && waiters.len() == 0);
    }

    /// In whatever order they come back, with none that was handed anything.
    #[test]
    fn who_was_woken_in_vain_comes_before_the_others() {
        let (mut waiters, mut queue) = (Waiters::default(), Queue::default());
        let keys: Vec<_> = (0..5).map(|_| waiters.enqueue_task(&mut queue)).collect();
        let tickets: Vec<_> = keys.iter().map(|key| waiters.ticket(*key)).collect();
        assert!(tickets.is_sorted_by(|a, b| a < b), "no two are the same: {tickets:?}");
        for key in &keys[..3] {
            drop(waiters.resolve_front(&mut queue, "try"));
            assert_eq!(waiters.take(*key), Some("try"));
        }
        let again = [1, 2, 0].map(|nth| waiters.requeue(&mut queue, false, tickets[nth]));
        assert_eq!((queue.len(), waiters.front_ticket(&queue)), (5, Some(tickets[0])));
        assert_eq!(waiters.cancel(&mut queue, again[0]).0, None);
        for ticket in [0, 2, 3, 4].map(|nth| tickets[nth]) {
            assert_eq!(waiters.front_ticket(&queue), Some(ticket));
            drop(waiters.resolve_front(&mut queue, "served"));
        }
        assert!(queue.is_empty());
    }

    #[test]
    fn condition_variables_are_used_again() {
        let (mut waiters, mut queue) = (Waiters::<()>::default(), Queue::default());
        let first = waiters.enqueue_thread(&mut queue);
        let condvar = waiters.condvar(first);
        waiters.cancel(&mut queue, first);
        let second = waiters.enqueue_thread(&mut queue);
        assert!(Arc::ptr_eq(&condvar, &waiters.condvar(second)));
    }
}
