//! The native signals without a lock: atomics, and the operating system's parking.

use super::orderings::{FLAGS_READ, FLAGS_UPDATE, GUESS};
use atomic_waker::AtomicWaker;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::task::{Wake, Waker};
use std::thread::Thread;
use std::time::Instant;

/// A few flags in one atomic word, which change together.
#[derive(Debug)]
pub(crate) struct Flags(AtomicU32);

impl Flags {
    pub(crate) const fn new(value: u32) -> Self {
        Flags(AtomicU32::new(value))
    }
    #[inline]
    pub(crate) fn read(&self) -> u32 {
        self.0.load(FLAGS_READ)
    }
    /// Changes the word and returns its former value. Takes no lock and does not allocate.
    #[inline]
    pub(crate) fn update(&self, change: impl Fn(u32) -> u32) -> u32 {
        let mut before = self.0.load(GUESS);
        loop {
            // Writes also where the value stays the same: the next update sees what this thread wrote before.
            match self.0.compare_exchange_weak(before, change(before), FLAGS_UPDATE, GUESS) {
                Ok(_) => return before,
                Err(now) => before = now,
            }
        }
    }
}

/// Holds the waker of one sleeper.
///
/// Its operations do not wait for each other. A thread that meets another one taking the waker knows that the
/// sleeper is being woken; a sleeper that is disturbed while it stores its waker wakes itself.
#[derive(Debug, Default)]
pub(crate) struct WakerSlot(AtomicWaker);

impl WakerSlot {
    /// Stores the sleeper's waker. Only the sleeper calls this.
    ///
    /// The waker is the library's own, for a panic of its clone or of the former waker's drop would leave the slot
    /// occupied for ever.
    pub(crate) fn show(&self, waker: &Waker) {
        self.0.register(waker);
    }
    pub(crate) fn take(&self) -> Option<Waker> {
        self.0.take()
    }
}

/// Parks one thread. Unparking takes no lock and does not allocate.
pub(crate) struct Parker(Waker);

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl Parker {
    pub(crate) fn of_this_thread() -> Self {
        Parker(Waker::from(Arc::new(Unpark(std::thread::current()))))
    }
    pub(crate) fn waker(&self) -> &Waker {
        &self.0
    }
    /// Sleeps until the waker wakes it or `at` comes; may return early.
    pub(crate) fn park_until(&self, at: Option<Instant>) {
        match at {
            None => std::thread::park(),
            Some(at) => std::thread::park_timeout(at.saturating_duration_since(Instant::now())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Returning early is allowed, but a thread that always returns at once keeps a core busy.
    #[test]
    fn a_parked_thread_sleeps() {
        let (parker, until) =
            (Parker::of_this_thread(), Instant::now() + Duration::from_millis(20));
        let mut woken = 0;
        while Instant::now() < until {
            parker.park_until(Some(until));
            woken += 1;
        }
        assert!(woken < 100, "woken {woken} times in 20 ms");
        assert!(until.elapsed() < Duration::from_millis(900), "it sleeps for too long");
    }

    /// Without a deadline, too.
    #[test]
    fn a_thread_that_is_parked_without_a_deadline_sleeps_until_it_is_woken() {
        use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
        let (parker, is_over) = (Parker::of_this_thread(), Arc::new(AtomicBool::new(false)));
        let (waker, theirs) = (parker.waker().clone(), is_over.clone());
        let wakes = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(100));
            theirs.store(true, SeqCst);
            waker.wake();
        });
        let mut woken = 0;
        while !is_over.load(SeqCst) {
            parker.park_until(None);
            woken += 1;
        }
        assert!(woken < 10, "woken {woken} times in 100 ms");
        wakes.join().expect("no panic");
    }

    /// Another thread changes the word between the look and the exchange. Here the same thread does, each time.
    #[test]
    fn a_contended_update_tries_again() {
        let (flags, contended) = (Flags::new(0), std::cell::Cell::new(0));
        let before = flags.update(|word| {
            if contended.get() < 3 {
                contended.set(contended.get() + 1);
                assert_eq!(flags.update(|word| word + 0x10), word);
            }
            word | 1
        });
        assert_eq!((before, flags.read()), (0x30, 0x31));
    }

    #[test]
    fn threads_that_update_a_word_lose_no_change() {
        let flags = Flags::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..10_000).for_each(|_| _ = flags.update(|word| word + 1)));
            }
        });
        assert_eq!(flags.read(), 40_000);
    }
}
