//! Queues of waiting threads and tasks: first come, first served, with a grant for each waiter.
//!
//! A queue is a plain data structure under its owner's lock. A section that makes something available
//! resolves the waiter at the front *under the same lock*. The outcome belongs to the waiter from that moment. So:
//! - No newcomer overtakes: it cannot take what was granted to a waiter (erratum E17).
//! - Wake-ups are exact: only a waiter that has its outcome is woken.
//! - No wake-up is lost (erratum E21): the outcome is stored before the lock is released, and a waiter
//!   looks for it under the lock before it sleeps.
//! - Giving up is one step: a waiter that was resolved meanwhile finds its outcome and passes it on.
//!
//! The owner runs each [`Wake`] after it has released the lock: a task's waker is user code.

use crate::kernel::clock::Time;
use crate::kernel::collections::arena::{Arena, Key};
use crate::kernel::collections::indexed_heap::{HeapIndex, IndexedHeap, in_heap};
use crate::kernel::collections::list::{Links, List, linked};
use crate::kernel::sync::Condvar;
use std::sync::Arc;
use std::task::Waker;

/// Names the waiters of an owner in the types of their keys.
#[derive(Debug)]
pub(crate) enum Waiting {}

/// The key of a waiter.
pub(crate) type WaiterKey = Key<Waiting>;

/// The waiters of one owner, in any number of queues. `Q` names a queue in which waiters have limits.
#[derive(Debug)]
pub(crate) struct Waiters<T, Q = ()> {
    arena: Arena<Waiter<T>, Waiting>,
    /// Condition variables of waiters that have left. They are used again, so waiting does not allocate after warm-up.
    spare: Vec<Arc<Condvar>>,
    /// The number of tickets given so far.
    tickets: u64,
    /// The waiters with a limit for their time in a queue, by its end; each with the name of its queue.
    limits: IndexedHeap<(Time, Q), Limited>,
}

/// One queue of waiters.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// Waiters that wait again, for the most part because they lost the race after a wake-up, by ticket. They are older than
    /// all others.
    ///
    /// A heap, O(log n) for each operation, because they come back in any order.
    retrying: IndexedHeap<u64, Retrying>,
    /// The other waiters, in order of arrival.
    list: List<InQueue>,
    /// A place in the list: its waiter, or `None` at the end.
    cursor: Option<WaiterKey>,
    /// How many waiters of the list are ahead of the cursor.
    ahead: usize,
}

#[derive(Debug)]
struct Waiter<T> {
    links: Links<Waiting>,
    retrying: HeapIndex,
    limited: HeapIndex,
    wake: Wake,
    outcome: Option<T>,
    /// The order of arrival over all queues.
    ticket: u64,
    /// How many races it has lost.
    lost: u32,
}

/// The arrival of a waiter, which it keeps when it waits again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) ticket: u64,
    /// How many races it has lost.
    pub(crate) lost: u32,
}

linked!(
    /// The list of one queue.
    InQueue: Waiting, Waiter<T: Sized>, links
);
in_heap!(
    /// The heap of one queue.
    Retrying: Waiting, Waiter<T: Sized>, retrying
);
in_heap!(
    /// The heap of limits.
    Limited: Waiting, Waiter<T: Sized>, limited
);

/// Wakes a waiter, once the lock is released.
#[derive(Debug)]
pub(crate) enum Wake {
    /// The thread that waits on this condition variable with the owner's lock.
    Thread(Arc<Condvar>),
    /// The task of this waker; `None` before its first poll.
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
    /// Returns the condition variable, if the waiter is a thread.
    pub(crate) fn thread(&self) -> Option<&Arc<Condvar>> {
        match self {
            Wake::Thread(condvar) => Some(condvar),
            Wake::Task(_) => None,
        }
    }
}

impl<T, Q: Copy + Ord> Default for Waiters<T, Q> {
    fn default() -> Self {
        let limits = IndexedHeap::default();
        Waiters { arena: Arena::new(), spare: Vec::new(), tickets: 0, limits }
    }
}

impl<T, Q: Copy + Ord> Waiters<T, Q> {
    /// Returns the number of waiters, including those with an outcome.
    #[cfg(any(test, debug_assertions))]
    pub(crate) fn len(&self) -> usize {
        self.arena.len()
    }

    /// Returns the outcomes that their waiters have not taken.
    #[cfg(any(test, debug_assertions))]
    pub(crate) fn outcomes(&self) -> impl Iterator<Item = &T> {
        self.arena.iter().filter_map(|(_, waiter)| waiter.outcome.as_ref())
    }

    /// Adds a thread, which then waits on its condition variable.
    pub(crate) fn enqueue_thread(&mut self, queue: &mut Queue) -> WaiterKey {
        let wake = self.thread();
        self.enqueue(queue, wake)
    }
    /// Adds a task, which then stores its waker in its [`Wake`](Self::wake_mut).
    pub(crate) fn enqueue_task(&mut self, queue: &mut Queue) -> WaiterKey {
        self.enqueue(queue, Wake::Task(None))
    }
    /// Adds a thread or a task.
    pub(crate) fn enqueue_caller(&mut self, queue: &mut Queue, is_thread: bool) -> WaiterKey {
        if is_thread { self.enqueue_thread(queue) } else { self.enqueue_task(queue) }
    }
    /// Queues a waiter again under its old ticket: it has lost the race for what woke it, or cannot use what it was granted.
    ///
    /// It waits in the order of the tickets.
    pub(crate) fn requeue(&mut self, queue: &mut Queue, is_thread: bool, ticket: u64) -> WaiterKey {
        let wake = if is_thread { self.thread() } else { Wake::Task(None) };
        let key = self.insert(wake, ticket);
        if queue.list.front().is_none_or(|front| ticket < self.ticket(front)) {
            queue.retrying.set(&mut self.arena, key, Some(ticket));
            return key;
        }
        // A newcomer that was served before waiters: it is among the last.
        let mut next = None;
        let mut before = queue.list.back();
        while let Some(other) = before.filter(|other| self.ticket(*other) > ticket) {
            before = List::<InQueue>::before(&self.arena, other);
            next = Some(other);
        }
        queue.list.push_before(&mut self.arena, key, next);
        if queue.cursor.is_none_or(|cursor| ticket < self.ticket(cursor)) {
            queue.ahead += 1;
        }
        key
    }
    /// Notes how many races a waiter has lost.
    pub(crate) fn set_lost(&mut self, key: WaiterKey, lost: u32) {
        self.arena[key].lost = lost;
    }
    fn thread(&mut self) -> Wake {
        Wake::Thread(self.spare.pop().unwrap_or_else(|| Arc::new(Condvar::new())))
    }
    /// Returns the next ticket, for a waiter that may be [requeued](Self::requeue) without having waited.
    pub(crate) fn new_ticket(&mut self) -> u64 {
        self.tickets += 1;
        self.tickets
    }
    /// Adds a task to no queue. Its owner finds it by its key, and [resolves](Self::resolve) it.
    pub(crate) fn add_task(&mut self) -> WaiterKey {
        let ticket = self.new_ticket();
        self.insert(Wake::Task(None), ticket)
    }
    fn enqueue(&mut self, queue: &mut Queue, wake: Wake) -> WaiterKey {
        let ticket = self.new_ticket();
        let key = self.insert(wake, ticket);
        queue.list.push_back(&mut self.arena, key);
        queue.cursor.get_or_insert(key);
        key
    }
    fn insert(&mut self, wake: Wake, ticket: u64) -> WaiterKey {
        let (links, retrying, limited) =
            (Links::default(), HeapIndex::default(), HeapIndex::default());
        let waiter = Waiter { links, retrying, limited, wake, outcome: None, ticket, lost: 0 };
        self.arena.insert(waiter)
    }

    pub(crate) fn ticket(&self, key: WaiterKey) -> u64 {
        self.arena[key].ticket
    }
    pub(crate) fn arrival(&self, key: WaiterKey) -> Arrival {
        let Waiter { ticket, lost, .. } = self.arena[key];
        Arrival { ticket, lost }
    }
    /// Returns the number of tickets given so far: later ones are higher.
    pub(crate) fn tickets(&self) -> u64 {
        self.tickets
    }
    /// Returns the ticket of the waiter that is next in a queue.
    pub(crate) fn front_ticket(&self, queue: &Queue) -> Option<u64> {
        let retrying = queue.retrying.first().map(|(ticket, _)| ticket);
        retrying.or_else(|| queue.list.front().map(|key| self.ticket(key)))
    }
    fn front(&self, queue: &Queue) -> Option<WaiterKey> {
        let retrying = queue.retrying.first().map(|(_, key)| key);
        retrying.or_else(|| queue.list.front())
    }
    /// Returns how many races the waiter has lost that is next in a queue.
    pub(crate) fn front_lost(&self, queue: &Queue) -> u32 {
        self.front(queue).map_or(0, |key| self.arena[key].lost)
    }
    /// Notes that a newcomer was served before the waiter that is next in a queue.
    pub(crate) fn overtake_front(&mut self, queue: &Queue) {
        if let Some(key) = self.front(queue) {
            let lost = &mut self.arena[key].lost;
            *lost = lost.saturating_add(1);
        }
    }

    /// Gives the next waiter of the queue its outcome. The caller runs the [`Wake`] after the lock.
    ///
    /// # Panics
    /// Panics if the queue is empty.
    pub(crate) fn resolve_front(&mut self, queue: &mut Queue, outcome: T) -> Wake {
        let key = self.front(queue).expect("the queue has a waiter");
        self.leave(queue, key);
        self.resolve(key, outcome)
    }

    /// Returns the ticket of the waiter behind `n` others of a queue.
    ///
    /// The cursor moves there from its last place, so a small change of `n` costs few steps. Among the waiters that wait
    /// again it returns the first.
    pub(crate) fn nth_ticket(&mut self, queue: &mut Queue, n: usize) -> Option<u64> {
        let Some(n) = n.checked_sub(queue.retrying.len()) else { return self.front_ticket(queue) };
        while queue.ahead > n {
            let behind = queue.cursor;
            let before = behind.map(|key| List::<InQueue>::before(&self.arena, key));
            queue.cursor = before.unwrap_or(queue.list.back());
            queue.ahead -= 1;
        }
        while queue.ahead < n {
            let key = queue.cursor?;
            queue.cursor = List::<InQueue>::after(&self.arena, key);
            queue.ahead += 1;
        }
        queue.cursor.map(|key| self.ticket(key))
    }
    /// Returns the same by counting.
    #[cfg(any(test, debug_assertions))]
    pub(crate) fn nth_ticket_counted(&self, queue: &Queue, n: usize) -> Option<u64> {
        match n.checked_sub(queue.retrying.len()) {
            None => self.front_ticket(queue),
            Some(n) => queue.list.iter(&self.arena).nth(n).map(|key| self.ticket(key)),
        }
    }

    /// Limits the time of a waiter in the queue of this name.
    pub(crate) fn set_limit(&mut self, key: WaiterKey, until: Time, queue: Q) {
        self.limits.set(&mut self.arena, key, Some((until, queue)));
    }
    /// Returns when the next limit ends, the name of the queue, and the waiter.
    pub(crate) fn next_limit(&self) -> Option<(Time, Q, WaiterKey)> {
        self.limits.first().map(|((until, queue), key)| (until, queue, key))
    }
    /// Gives a waiter of this queue its outcome, before its turn. The caller runs the [`Wake`] after the lock.
    pub(crate) fn resolve_early(&mut self, queue: &mut Queue, key: WaiterKey, outcome: T) -> Wake {
        self.leave(queue, key);
        self.resolve(key, outcome)
    }
    fn leave(&mut self, queue: &mut Queue, key: WaiterKey) {
        queue.retrying.set(&mut self.arena, key, None);
        if !self.arena[key].links.is_linked() {
            return;
        }
        match queue.cursor {
            Some(cursor) if cursor == key => {
                queue.cursor = List::<InQueue>::after(&self.arena, key);
            }
            // The list is in the order of the tickets.
            Some(cursor) if self.ticket(cursor) < self.ticket(key) => {}
            _ => queue.ahead -= 1,
        }
        queue.list.remove(&mut self.arena, key);
    }
    fn end_limit(&mut self, key: WaiterKey) {
        if !self.limits.is_empty() {
            self.limits.set(&mut self.arena, key, None);
        }
    }

    /// Gives a waiter that is in no queue its outcome. The caller runs the [`Wake`] after the lock.
    pub(crate) fn resolve(&mut self, key: WaiterKey, outcome: T) -> Wake {
        self.end_limit(key);
        let waiter = &mut self.arena[key];
        waiter.outcome = Some(outcome);
        match &mut waiter.wake {
            Wake::Thread(condvar) => Wake::Thread(condvar.clone()),
            Wake::Task(waker) => Wake::Task(waker.take()),
        }
    }

    /// Removes the waiter and returns its outcome, or returns `None` if it has no outcome yet.
    pub(crate) fn take(&mut self, key: WaiterKey) -> Option<T> {
        self.arena[key].outcome.as_ref()?;
        self.remove(key).0
    }

    /// Removes a waiter that gives up.
    ///
    /// Returns an outcome that it was granted meanwhile, for the caller to pass on, and its waker, for the caller
    /// to drop after the lock.
    pub(crate) fn cancel(
        &mut self,
        queue: &mut Queue,
        key: WaiterKey,
    ) -> (Option<T>, Option<Waker>) {
        self.leave(queue, key);
        self.remove(key)
    }

    fn remove(&mut self, key: WaiterKey) -> (Option<T>, Option<Waker>) {
        self.end_limit(key);
        let waiter = self.arena.remove(key);
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
    pub(crate) fn wake_mut(&mut self, key: WaiterKey) -> &mut Wake {
        &mut self.arena[key].wake
    }

    /// Takes the wakers of all tasks, when their owner is torn down. Drop them without the lock.
    pub(crate) fn take_wakers(&mut self) -> Vec<Waker> {
        let wakes = self.arena.values_mut().map(|waiter| &mut waiter.wake);
        wakes
            .filter_map(|wake| match wake {
                Wake::Thread(_) => None,
                Wake::Task(waker) => waker.take(),
            })
            .collect()
    }

    /// Returns the condition variables of all waiting threads, which an advanced manual clock notifies.
    pub(crate) fn threads(&self) -> Vec<Arc<Condvar>> {
        let wakes = self.arena.iter().map(|(_, waiter)| &waiter.wake);
        wakes
            .filter_map(|wake| match wake {
                Wake::Thread(condvar) => Some(condvar.clone()),
                Wake::Task(_) => None,
            })
            .collect()
    }
}

impl Queue {
    /// Returns the number of waiters in the queue.
    pub(crate) fn len(&self) -> usize {
        self.retrying.len() + self.list.len()
    }
    pub(crate) fn is_empty(&self) -> bool {
        self.retrying.is_empty() && self.list.is_empty()
    }
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_oldest_is_served_first_and_only_once() {
        let (mut waiters, mut queue) = (Waiters::<_>::default(), Queue::default());
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
    fn a_waiter_that_gives_up_after_a_grant_passes_it_on() {
        let (mut waiters, mut queue) = (Waiters::<_>::default(), Queue::default());
        let (a, b) = (waiters.enqueue_task(&mut queue), waiters.enqueue_task(&mut queue));
        drop(waiters.resolve_front(&mut queue, 1));
        assert_eq!(waiters.cancel(&mut queue, a).0, Some(1));
        assert_eq!(waiters.cancel(&mut queue, b).0, None);
        assert!(queue.is_empty() && waiters.len() == 0);
    }

    /// They come back in any order, and are served by ticket.
    #[test]
    fn waiters_that_lost_the_race_come_before_the_others() {
        let (mut waiters, mut queue) = (Waiters::<_>::default(), Queue::default());
        let keys: Vec<_> = (0..5).map(|_| waiters.enqueue_task(&mut queue)).collect();
        let tickets: Vec<_> = keys.iter().map(|key| waiters.ticket(*key)).collect();
        assert!(tickets.is_sorted_by(|a, b| a < b), "tickets differ and grow: {tickets:?}");
        for key in &keys[..3] {
            drop(waiters.resolve_front(&mut queue, "try"));
            assert_eq!(waiters.take(*key), Some("try"));
        }
        let retrying = [1, 2, 0].map(|nth| waiters.requeue(&mut queue, false, tickets[nth]));
        assert_eq!((queue.len(), waiters.front_ticket(&queue)), (5, Some(tickets[0])));
        assert_eq!(waiters.cancel(&mut queue, retrying[0]).0, None);
        for ticket in [0, 2, 3, 4].map(|nth| tickets[nth]) {
            assert_eq!(waiters.front_ticket(&queue), Some(ticket));
            drop(waiters.resolve_front(&mut queue, "served"));
        }
        assert!(queue.is_empty());
    }

    proptest! {
        /// The cursor finds the same waiter as a count, whichever waiters come, leave, are served and come back.
        #[test]
        fn the_cursor_is_where_a_count_ends(steps in prop::collection::vec((0..5_u8, 0..6_usize), 1..80)) {
            let (mut waiters, mut queue) = (Waiters::<()>::default(), Queue::default());
            let (mut waiting, mut served) = (Vec::new(), Vec::new());
            for (step, n) in steps {
                match step {
                    0 | 1 => waiting.push(waiters.enqueue_task(&mut queue)),
                    2 if !waiting.is_empty() => {
                        let key = waiting.remove(n % waiting.len());
                        waiters.cancel(&mut queue, key);
                    }
                    3 if !waiting.is_empty() => {
                        let first = waiters.front(&queue).expect("a waiter");
                        served.push(waiters.ticket(first));
                        drop(waiters.resolve_front(&mut queue, ()));
                        prop_assert_eq!(waiters.take(first), Some(()));
                        waiting.retain(|key| *key != first);
                    }
                    4 if !served.is_empty() => {
                        let ticket = served.swap_remove(n % served.len());
                        waiting.push(waiters.requeue(&mut queue, false, ticket));
                    }
                    // A newcomer that was served at once waits after all.
                    4 => {
                        let ticket = waiters.new_ticket();
                        waiting.push(waiters.enqueue_task(&mut queue));
                        waiting.push(waiters.requeue(&mut queue, false, ticket));
                    }
                    _ => {}
                }
                let counted = waiters.nth_ticket_counted(&queue, n);
                prop_assert_eq!(waiters.nth_ticket(&mut queue, n), counted);
                let mut tickets: Vec<_> = waiting.iter().map(|key| waiters.ticket(*key)).collect();
                tickets.sort_unstable();
                prop_assert_eq!(waiters.front_ticket(&queue), tickets.first().copied());
                prop_assert_eq!(queue.len(), tickets.len());
                if n >= queue.retrying.len() {
                    prop_assert_eq!(counted, tickets.get(n).copied());
                }
            }
        }
    }

    /// A waiter that came back is next, though another one waits in the list.
    #[test]
    fn a_waiter_that_lost_the_race_is_overtaken_again() {
        let (mut waiters, mut queue) = (Waiters::<_>::default(), Queue::default());
        let first = waiters.enqueue_task(&mut queue);
        let ticket = waiters.ticket(first);
        drop(waiters.resolve_front(&mut queue, "try"));
        assert_eq!(waiters.take(first), Some("try"));
        let (first, second) =
            (waiters.requeue(&mut queue, false, ticket), waiters.enqueue_task(&mut queue));
        waiters.overtake_front(&queue);
        assert_eq!(waiters.front_lost(&queue), 1);
        assert_eq!([first, second].map(|key| waiters.arrival(key).lost), [1, 0]);
    }

    #[test]
    fn condition_variables_are_used_again() {
        let (mut waiters, mut queue) = (Waiters::<()>::default(), Queue::default());
        let first = waiters.enqueue_thread(&mut queue);
        let condvar = waiters.wake_mut(first).thread().cloned();
        waiters.cancel(&mut queue, first);
        let second = waiters.enqueue_thread(&mut queue);
        let again = waiters.wake_mut(second).thread().cloned();
        assert_eq!(condvar.as_ref().map(Arc::as_ptr), again.as_ref().map(Arc::as_ptr));
    }
}
