//! How a thread waits for another: it steps aside for a moment, and then sleeps.
//!
//! To sleep and be woken takes longer than many keep what they borrow, and meanwhile what was handed over lies idle,
//! with everybody behind who waits for it. A thread that lets others run instead is there to take it. If
//! it takes longer after all, a few microseconds more are nothing beside the wait.
//!
//! But who steps aside is served last. Where others have much to do, they keep the processor for some
//! milliseconds, and what was handed over meanwhile lies idle as long, whereas a sleeper who is woken goes before
//! them. So where that has happened, the next waits sleep at once: more and more of them, if it happens again.

use super::native::Mutex;
use parking_lot::MutexGuard;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::time::{Duration, Instant};

/// parking_lot's condition variable, of which somebody who has not gone to sleep sees, too, that it was notified.
#[derive(Debug)]
pub(crate) struct Condvar {
    condvar: parking_lot::Condvar,
    /// Only a hint, cleared by who is about to look for it: what has happened is looked for under the lock.
    notified: AtomicBool,
}

impl Condvar {
    pub(crate) const fn new() -> Self {
        Condvar { condvar: parking_lot::Condvar::new(), notified: AtomicBool::new(false) }
    }
    pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        self.condvar.wait(guard);
    }
    pub(crate) fn wait_until<T>(&self, guard: &mut MutexGuard<'_, T>, deadline: Instant) {
        self.condvar.wait_until(guard, deadline);
    }
    pub(crate) fn notify_one(&self) {
        self.notified.store(true, Relaxed);
        self.condvar.notify_one();
    }
    pub(crate) fn notify_all(&self) {
        self.notified.store(true, Relaxed);
        self.condvar.notify_all();
    }
}

impl<T> Mutex<T> {
    /// Gives the lock up, lets others run for a moment, or until `condvar` is notified, and takes it again. Who
    /// then finds nothing goes to sleep.
    pub(crate) fn step_aside<'a>(
        &'a self,
        guard: MutexGuard<'a, T>,
        condvar: &Condvar,
    ) -> MutexGuard<'a, T> {
        condvar.notified.store(false, Relaxed);
        drop(guard);
        LATELY.note(step_aside_until(|| condvar.notified.load(Relaxed)));
        self.lock()
    }
}

/// Whether a thread that is about to sleep is to step aside before, if there is time for that.
pub(crate) fn may_step_aside(has_time: bool) -> bool {
    has_time && LATELY.was_worth_it()
}

/// Whether it took long.
fn step_aside_until(notified: impl Fn() -> bool) -> bool {
    let mut before = Instant::now();
    for _ in 0..TIMES {
        if notified() {
            break;
        }
        std::thread::yield_now();
        let now = Instant::now();
        if now - before > LONG {
            return true;
        }
        before = now;
    }
    false
}

/// How often others are let run in one wait.
const TIMES: u32 = 16;
/// Nobody who only passes something on keeps the processor for so long.
const LONG: Duration = Duration::from_micros(500);

/// What it was like to step aside, over all locks: that depends on what else the machine has to do. The counts
/// need not be exact.
static LATELY: Lately = Lately {
    sleep_at_once: AtomicU32::new(0),
    next_time: AtomicU32::new(FEWEST),
    good: AtomicU32::new(0),
};

struct Lately {
    /// So many waits sleep at once.
    sleep_at_once: AtomicU32,
    /// So many will, when it takes long again.
    next_time: AtomicU32,
    /// How many have stepped aside since then, and it did not take long.
    good: AtomicU32,
}

const FEWEST: u32 = 64;
const MOST: u32 = 1 << 16;
/// Whoever has not been bad for so long begins with the fewest again.
const FORGIVEN: u32 = 4096;

impl Lately {
    fn was_worth_it(&self) -> bool {
        let left = self.sleep_at_once.load(Relaxed);
        if left > 0 {
            self.sleep_at_once.store(left - 1, Relaxed);
        }
        left == 0
    }
    fn note(&self, took_long: bool) {
        let good = self.good.load(Relaxed);
        if !took_long {
            return self.good.store(good.saturating_add(1), Relaxed);
        }
        let again = good < FORGIVEN;
        let waits = if again { self.next_time.load(Relaxed) } else { FEWEST };
        self.sleep_at_once.store(waits, Relaxed);
        self.next_time.store((2 * waits).min(MOST), Relaxed);
        self.good.store(0, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lately() -> Lately {
        let [sleep_at_once, next_time, good] = [0, FEWEST, 0].map(AtomicU32::new);
        Lately { sleep_at_once, next_time, good }
    }
    /// How many waits sleep at once from now on.
    fn asleep(lately: &Lately) -> u32 {
        (0..).find(|_| lately.was_worth_it()).expect("some day")
    }

    #[test]
    fn whoever_has_not_waited_steps_aside() {
        assert_eq!(asleep(&lately()), 0);
    }
    #[test]
    fn after_a_bad_time_the_next_waits_sleep_and_twice_as_many_after_another() {
        let lately = lately();
        for waits in [64, 128, 256] {
            lately.note(true);
            assert_eq!(asleep(&lately), waits);
        }
        for _ in 0..20 {
            lately.note(true);
        }
        assert_eq!(asleep(&lately), MOST);
    }
    #[test]
    fn what_was_bad_is_forgotten_after_many_good_times() {
        let lately = lately();
        lately.note(true);
        lately.note(true);
        for _ in 0..FORGIVEN {
            lately.note(false);
        }
        lately.note(true);
        assert_eq!(asleep(&lately), FEWEST);
    }
    #[test]
    fn a_thread_steps_aside_until_it_is_told_or_so_often() {
        let looks_until = |told: u32| {
            let looks = std::cell::Cell::new(0);
            let took_long = step_aside_until(|| {
                looks.set(looks.get() + 1);
                looks.get() == told
            });
            // Others may have kept the processor.
            if took_long { None } else { Some(looks.get()) }
        };
        let seen = |told| (0..1000).find_map(|_| looks_until(told));
        assert_eq!(seen(3), Some(3));
        assert_eq!(seen(u32::MAX), Some(TIMES));
    }
    #[test]
    fn who_steps_aside_sees_that_it_is_notified_and_not_that_it_was() {
        let (lock, condvar) = (Mutex::new(()), Condvar::new());
        let notified = || condvar.notified.load(Relaxed);
        condvar.notify_one();
        assert!(notified());
        drop(lock.step_aside(lock.lock(), &condvar));
        assert!(!notified());
        condvar.notify_all();
        assert!(notified());
    }
}
