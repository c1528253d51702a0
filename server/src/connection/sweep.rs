//! Coarse time-outs: one timer for all connections of a core.
//!
//! A connection that waits notes in its [`Watch`] when it wants to be woken. The sweep runs at most once a
//! second, and wakes the connections whose time has come. A request therefore sets no timer of the runtime.
//! The connection compares the times itself: a wake-up only makes it look.
//!
//! The clock counts sweeps. A sweep that comes late, because the server was stopped or had no processor, moves it by one
//! pause as any other. So the time in which the server did not run counts against neither clients nor processes. Before
//! each sweep the runtime looks at the sockets: bytes that came in that time are read before the clock is.
//!
//! The table also lists the idle connections, the oldest first: they close first when descriptors run out. A connection
//! that owes the head of a request closes before one that has finished a request. Before both closes a connection that
//! has its last answer, and whose client need not send anything more.

use atomic_waker::AtomicWaker;
use cabrank_spawner::connections::Connections;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Context;
use std::time::Duration;
use tokio::sync::Notify;

const NEVER: u64 = u64::MAX;
const NONE: usize = usize::MAX;

/// A point in time, in milliseconds of sweeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Tick(u64);

impl Tick {
    /// Returns the time since `earlier`.
    pub(crate) fn since(self, earlier: Tick) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

/// The connections of one core, and the time.
#[derive(Debug)]
pub(crate) struct Sweep {
    /// The time of the last sweep.
    now: AtomicU64,
    pause: Duration,
    is_closing: AtomicBool,
    table: Mutex<Table>,
    filled: Notify,
}

#[derive(Debug)]
struct Table {
    entries: Vec<Entry>,
    free: Vec<usize>,
    /// The idle connections of each kind: lists through `entries`.
    idle: [List; 3],
}

/// The ends of a list.
#[derive(Clone, Copy, Debug)]
struct List {
    oldest: usize,
    newest: usize,
}

/// The kind of an idle connection, in the order in which they close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Idle {
    /// It has its answer, and the server reads the rest of the input only to throw it away.
    Answered,
    /// It has sent no request yet, or a part of the head.
    Owing,
    /// It has finished a request.
    Between,
}

#[derive(Debug)]
struct Entry {
    slot: Option<Arc<Slot>>,
    idle: Option<Idle>,
    before: usize,
    after: usize,
}

#[derive(Debug)]
struct Slot {
    deadline: AtomicU64,
    is_evicted: AtomicBool,
    waker: AtomicWaker,
}

impl Sweep {
    /// Creates a sweep that runs every `pause`.
    pub(crate) fn new(pause: Duration) -> Self {
        let idle = [List { oldest: NONE, newest: NONE }; 3];
        let table = Table { entries: Vec::new(), free: Vec::new(), idle };
        Sweep {
            now: AtomicU64::new(0),
            pause,
            is_closing: AtomicBool::new(false),
            table: Mutex::new(table),
            filled: Notify::new(),
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // Code under this lock does not panic, so a poisoned lock still guards a valid table.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes connections whose time has come. Sleeps while there is no connection.
    pub(crate) async fn run(&self) {
        loop {
            if self.table().is_empty() {
                self.filled.notified().await;
            }
            tokio::time::sleep(self.pause).await;
            // The runtime asks the kernel about the sockets, and polls the tasks that it has found ready. A runtime that
            // was stopped looks at its timers first.
            tokio::task::yield_now().await;
            self.turn();
        }
    }

    fn turn(&self) {
        let pause = u64::try_from(self.pause.as_millis()).unwrap_or(NEVER);
        // Only the sweep moves the clock.
        let now = self.now.load(Ordering::Relaxed).saturating_add(pause);
        self.now.store(now, Ordering::Relaxed);
        self.wake_due(now);
    }

    fn wake_due(&self, now: u64) {
        let due: Vec<Arc<Slot>> = {
            let table = self.table();
            let slots = table.entries.iter().filter_map(|entry| entry.slot.as_ref());
            slots.filter(|slot| slot.is_due(now)).cloned().collect()
        };
        // A waker is code of the runtime, so it runs without the lock.
        due.iter().for_each(|slot| slot.waker.wake());
    }

    /// Sets the time of the last sweep, for tests.
    #[cfg(test)]
    pub(crate) fn set_now(&self, now: Duration) {
        self.now.store(now.as_millis() as u64, Ordering::Relaxed);
        self.wake_due(now.as_millis() as u64);
    }

    /// Tells all connections that the server stops.
    pub(crate) fn close(&self) {
        self.is_closing.store(true, Ordering::Release);
        let all: Vec<Arc<Slot>> =
            self.table().entries.iter().filter_map(|entry| entry.slot.clone()).collect();
        all.iter().for_each(|slot| slot.waker.wake());
    }

    /// Wakes the connections that carry requests whenever a process is gone, so that they look at theirs.
    pub(crate) async fn follow(&self, processes: &Connections) {
        loop {
            let changed = processes.changed();
            self.wake_busy();
            changed.await;
        }
    }

    fn wake_busy(&self) {
        let busy: Vec<Arc<Slot>> = {
            let table = self.table();
            let busy = table.entries.iter().filter(|entry| entry.idle.is_none());
            busy.filter_map(|entry| entry.slot.clone()).collect()
        };
        busy.iter().for_each(|slot| slot.waker.wake());
    }

    /// Adds a connection.
    pub(crate) fn watch(self: &Arc<Self>) -> Watch {
        let slot = Arc::new(Slot {
            deadline: AtomicU64::new(NEVER),
            is_evicted: AtomicBool::new(false),
            waker: AtomicWaker::new(),
        });
        let mut table = self.table();
        let was_empty = table.is_empty();
        let index = table.add(Arc::clone(&slot));
        drop(table);
        if was_empty {
            self.filled.notify_one();
        }
        Watch { sweep: Arc::clone(self), slot, index }
    }

    /// Asks the oldest idle connection of a kind to close. Returns false if there is none.
    pub(crate) fn evict_oldest(&self, kind: Idle) -> bool {
        let mut table = self.table();
        let index = table.idle[kind as usize].oldest;
        if index == NONE {
            return false;
        }
        table.unlink(index);
        let slot = table.entries[index].slot.clone();
        drop(table);
        if let Some(slot) = slot {
            slot.is_evicted.store(true, Ordering::Release);
            slot.waker.wake();
        }
        true
    }
}

impl Slot {
    fn is_due(&self, now: u64) -> bool {
        // Relaxed: the task that set the deadline looks at the time itself.
        self.deadline.load(Ordering::Relaxed) <= now && {
            self.deadline.store(NEVER, Ordering::Relaxed);
            true
        }
    }
}

impl Table {
    fn is_empty(&self) -> bool {
        self.free.len() == self.entries.len()
    }

    fn add(&mut self, slot: Arc<Slot>) -> usize {
        let entry = Entry { slot: Some(slot), idle: None, before: NONE, after: NONE };
        match self.free.pop() {
            Some(index) => {
                self.entries[index] = entry;
                index
            }
            None => {
                self.entries.push(entry);
                self.entries.len() - 1
            }
        }
    }

    fn link(&mut self, index: usize, kind: Idle) {
        if self.entries[index].idle == Some(kind) {
            return;
        }
        self.unlink(index);
        let list = &mut self.idle[kind as usize];
        let newest = std::mem::replace(&mut list.newest, index);
        let entry = &mut self.entries[index];
        (entry.idle, entry.before, entry.after) = (Some(kind), newest, NONE);
        match newest {
            NONE => list.oldest = index,
            newest => self.entries[newest].after = index,
        }
    }

    fn unlink(&mut self, index: usize) {
        let entry = &mut self.entries[index];
        let Some(kind) = entry.idle.take() else { return };
        let list = &mut self.idle[kind as usize];
        let (before, after) = (entry.before, entry.after);
        match before {
            NONE => list.oldest = after,
            before => self.entries[before].after = after,
        }
        match after {
            NONE => list.newest = before,
            after => self.entries[after].before = before,
        }
    }
}

/// One connection's place in the sweep. Dropping it leaves the sweep.
#[derive(Debug)]
pub(crate) struct Watch {
    sweep: Arc<Sweep>,
    slot: Arc<Slot>,
    index: usize,
}

impl Watch {
    /// Returns the time of the last sweep.
    pub(crate) fn now(&self) -> Tick {
        Tick(self.sweep.now.load(Ordering::Relaxed))
    }

    /// Asks for a wake-up once `limit` has passed since `since`. Returns whether it has passed already.
    ///
    /// An earlier wish stays. The task looks again after each wake-up, so an early one is harmless.
    pub(crate) fn has_passed(&self, limit: Duration, since: Tick) -> bool {
        // `since` may lie up to one pause before the true beginning.
        let limit = limit.saturating_add(self.sweep.pause).as_millis();
        let at = since.0.saturating_add(u64::try_from(limit).unwrap_or(NEVER)).min(NEVER - 1);
        if self.now().0 >= at {
            return true;
        }
        self.slot.deadline.fetch_min(at, Ordering::Relaxed);
        false
    }

    /// Makes wake-ups of the sweep reach the current task. Look at the state after this call.
    pub(crate) fn register(&self, cx: &Context<'_>) {
        self.slot.waker.register(cx.waker());
    }

    /// Returns whether the connection gives its descriptor to another one.
    pub(crate) fn is_evicted(&self) -> bool {
        self.slot.is_evicted.load(Ordering::Acquire)
    }

    /// Returns whether the server stops.
    pub(crate) fn is_closing(&self) -> bool {
        self.sweep.is_closing.load(Ordering::Acquire)
    }

    /// Lists the connection as idle, unless it is listed so already.
    pub(crate) fn set_idle(&self, kind: Idle) {
        self.sweep.table().link(self.index, kind);
    }

    /// Removes the connection from the idle ones.
    pub(crate) fn set_busy(&self) {
        self.sweep.table().unlink(self.index);
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut table = self.sweep.table();
        table.unlink(self.index);
        let slot = table.entries[self.index].slot.take();
        table.free.push(self.index);
        drop(table);
        drop(slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_idle_connection_is_evicted_first() {
        let sweep = Arc::new(Sweep::new(Duration::from_secs(1)));
        let [one, two, three, busy] = [(); 4].map(|()| sweep.watch());
        for watch in [&one, &two, &three] {
            watch.set_idle(Idle::Between);
        }
        one.set_busy();
        one.set_idle(Idle::Between);
        drop(three);
        assert!(!sweep.evict_oldest(Idle::Owing));
        assert!(sweep.evict_oldest(Idle::Between));
        assert!(two.is_evicted() && !one.is_evicted());
        assert!(sweep.evict_oldest(Idle::Between) && one.is_evicted());
        assert!(!sweep.evict_oldest(Idle::Between) && !busy.is_evicted());
    }

    #[test]
    fn a_time_passes_only_after_it_has_passed_in_full() {
        let sweep = Arc::new(Sweep::new(Duration::from_millis(10)));
        let watch = sweep.watch();
        let begun = watch.now();
        assert!(!watch.has_passed(Duration::from_millis(30), begun));
        sweep.now.store(begun.0 + 39, Ordering::Relaxed);
        assert!(!watch.has_passed(Duration::from_millis(30), begun));
        sweep.now.store(begun.0 + 40, Ordering::Relaxed);
        assert!(watch.has_passed(Duration::from_millis(30), begun));
    }

    /// The server was stopped by SIGSTOP for longer than all of its limits.
    #[tokio::test(start_paused = true)]
    async fn a_sweep_that_comes_late_moves_the_clock_by_one_pause() {
        let sweep = Arc::new(Sweep::new(Duration::from_secs(1)));
        let watch = sweep.watch();
        let begun = watch.now();
        let running = Arc::clone(&sweep);
        tokio::spawn(async move { running.run().await });
        tokio::task::yield_now().await;
        tokio::time::advance(Duration::from_secs(3600)).await;
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert_eq!(watch.now().since(begun), Duration::from_secs(1));
        assert!(!watch.has_passed(Duration::from_secs(1), begun));
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(watch.now().since(begun), Duration::from_secs(2));
        assert!(watch.has_passed(Duration::from_secs(1), begun));
    }
}
