//! Monotonic time, and a clock that a test advances.
//!
//! The pool reads the time on its hottest path, when a session is closed. Idle times are seconds, so a
//! clock that lags by a few milliseconds is good enough there. Therefore [`Clock`] reads the system's coarse
//! monotonic clock, at a quarter of the price of a precise one. Timeouts of waiting threads are precise.
//!
//! Tests and models use a [`ManualClock`] and need no sleep to let time pass.

use crate::kernel::sync::{Condvar, MutexGuard};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

/// A point in time: ticks of 2⁻³² seconds since the clock's beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Time(u64);

impl Time {
    /// The end of a clock's time. A clock never reaches it, so what is due then never happens.
    pub(crate) const END: Time = Time(u64::MAX);

    #[inline]
    pub(crate) fn plus_span(self, span: Span) -> Time {
        Time(self.0.saturating_add(span.0))
    }
    pub(crate) fn plus(self, d: Duration) -> Time {
        Time(self.0.saturating_add(ticks(d)))
    }
    /// Returns the time from `earlier` to `self`, or zero if `earlier` is not earlier.
    pub(crate) fn since(self, earlier: Time) -> Duration {
        coarsetime::Duration::from_ticks(self.0.saturating_sub(earlier.0)).into()
    }
    /// Returns the time from `self` to `later`, or zero if `later` is not later.
    ///
    /// Rounded up to a nanosecond: `self.plus(self.until(later)) >= later`.
    pub(crate) fn until(self, later: Time) -> Duration {
        let ticks = later.0.saturating_sub(self.0);
        let (whole, part) = (ticks >> 32, ticks & u64::from(u32::MAX));
        // The inverse of `ticks`, which rounds up: `nanos` is the least number that it maps to `part` or more.
        let nanos = part.checked_sub(1).map_or(0, |part| ((part * 1_000_000_000) >> 32) + 1);
        Duration::from_secs(whole) + Duration::from_nanos(nanos)
    }
}

/// A length of time in the same ticks, so that a hot path adds it without a conversion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span(u64);

impl Span {
    pub(crate) fn new(d: Duration) -> Self {
        Span(ticks(d))
    }
}

/// Converts to ticks. Rounded up, so that a wait is never shorter than its duration.
fn ticks(d: Duration) -> u64 {
    let whole = d.as_secs().min(u64::from(u32::MAX)) << 32;
    let part = (u64::from(d.subsec_nanos()) << 32).div_ceil(1_000_000_000);
    whole.saturating_add(part)
}

/// The source of a pool's time. Cheap to clone.
///
/// ```
/// # use cabrank::{ApplicationPool, Clock, ManualClock, in_memory::InMemorySpawner};
/// let time = ManualClock::new();
/// for clock in [Clock::monotonic(), time.clock()] {
///     let pool = ApplicationPool::builder(InMemorySpawner::new()).clock(clock).build()?;
/// #   drop(pool);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Clock(Kind);

#[derive(Clone)]
enum Kind {
    Monotonic(coarsetime::Instant),
    Manual(Arc<ManualTime>),
}

/// The latest end of a wait.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Deadline {
    Never,
    Real(Instant),
    Manual(Time),
}

impl Deadline {
    /// Returns the deadline if it comes by itself, and `None` for a manual clock or no deadline.
    pub(crate) fn instant(self) -> Option<Instant> {
        match self {
            Deadline::Real(at) => Some(at),
            Deadline::Never | Deadline::Manual(_) => None,
        }
    }
}

impl Clock {
    /// Returns the system's monotonic clock.
    pub fn monotonic() -> Self {
        Clock(Kind::Monotonic(coarsetime::Instant::now()))
    }

    #[inline]
    pub(crate) fn now(&self) -> Time {
        match &self.0 {
            Kind::Monotonic(origin) => {
                Time(coarsetime::Instant::now().duration_since(*origin).as_ticks())
            }
            Kind::Manual(time) => time.now(),
        }
    }

    /// Returns the deadline of a wait that begins now.
    pub(crate) fn deadline(&self, timeout: Duration) -> Deadline {
        match &self.0 {
            // A timeout that no `Instant` can hold means no deadline.
            Kind::Monotonic(_) => {
                Instant::now().checked_add(timeout).map_or(Deadline::Never, Deadline::Real)
            }
            Kind::Manual(time) => Deadline::Manual(time.now().plus(timeout)),
        }
    }

    /// Returns the deadline of a wait for `time`.
    ///
    /// The coarse clock lags. A waiter that wakes exactly at `time` would read an earlier one, so the
    /// deadline adds the lag.
    pub(crate) fn deadline_at(&self, time: Time) -> Deadline {
        const LAG: Duration = Duration::from_millis(5);
        match &self.0 {
            Kind::Monotonic(_) => match time.since(self.now()) {
                Duration::ZERO => self.deadline(Duration::ZERO),
                wait => self.deadline(wait + LAG),
            },
            Kind::Manual(_) => Deadline::Manual(time),
        }
    }

    pub(crate) fn has_passed(&self, deadline: Deadline) -> bool {
        match deadline {
            Deadline::Never => false,
            Deadline::Real(at) => Instant::now() >= at,
            Deadline::Manual(at) => self.now() >= at,
        }
    }

    /// Waits on `condvar` until it is notified or `deadline` comes; may return early.
    ///
    /// A manual clock does not end the wait. Its waiter registers a [`ClockListener`] that notifies `condvar`.
    pub(crate) fn wait<T>(
        &self,
        condvar: &Condvar,
        guard: &mut MutexGuard<'_, T>,
        deadline: Deadline,
    ) {
        match deadline {
            Deadline::Real(at) => {
                condvar.wait_until(guard, at);
            }
            Deadline::Never | Deadline::Manual(_) => condvar.wait(guard),
        }
    }

    /// Registers `listener` with a manual clock, which then calls it after each advance.
    ///
    /// Does nothing for a monotonic clock. The clock drops listeners that are gone.
    pub(crate) fn add_listener(&self, listener: Weak<dyn ClockListener>) {
        if let Kind::Manual(time) = &self.0 {
            let mut listeners = time.listeners();
            listeners.retain(|listener| listener.strong_count() > 0);
            listeners.push(listener);
        }
    }

    pub(crate) fn is_manual(&self) -> bool {
        matches!(self.0, Kind::Manual(_))
    }
}

impl Default for Clock {
    fn default() -> Self {
        Clock::monotonic()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_manual() { "Clock(manual)" } else { "Clock(monotonic)" })
    }
}

/// Wakes waiters whose deadline a manual clock may have passed.
pub(crate) trait ClockListener: Send + Sync {
    /// Called after each advance, without a lock of the clock's.
    fn advanced(&self);
}

/// A clock that stands still until a test advances it. Clones are the same clock.
///
/// ```
/// use cabrank::ManualClock;
/// use std::time::Duration;
/// let time = ManualClock::new();
/// let clock = time.clock(); // for `Builder::clock`
/// time.advance(Duration::from_secs(300));
/// # drop(clock);
/// ```
#[derive(Clone, Default)]
pub struct ManualClock(Arc<ManualTime>);

#[derive(Default)]
struct ManualTime {
    ticks_since_start: AtomicU64,
    listeners: Mutex<Vec<Weak<dyn ClockListener>>>,
}

impl ManualTime {
    fn now(&self) -> Time {
        Time(self.ticks_since_start.load(Ordering::SeqCst))
    }
    fn listeners(&self) -> std::sync::MutexGuard<'_, Vec<Weak<dyn ClockListener>>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ManualClock {
    /// Returns a clock that stands at its start.
    pub fn new() -> Self {
        ManualClock::default()
    }
    /// Returns the clock to pass to a builder.
    pub fn clock(&self) -> Clock {
        Clock(Kind::Manual(self.0.clone()))
    }
    /// Advances the clock, and wakes each waiter whose deadline may have come.
    ///
    /// The clock stops some 136 years after its start, just before the end of its time.
    ///
    /// ```
    /// # use cabrank::{ApplicationPool, ManualClock, PoolOptions, in_memory::InMemorySpawner};
    /// # use std::time::Duration;
    /// let time = ManualClock::new();
    /// let builder = ApplicationPool::builder(InMemorySpawner::new()).clock(time.clock());
    /// let pool = builder.build()?;
    /// drop(pool.get(&PoolOptions::new("/srv/shop"))?);
    /// time.advance(Duration::from_secs(7));
    /// assert_eq!(pool.snapshot().groups[0].processes[0].age, Duration::from_secs(7));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn advance(&self, by: Duration) {
        let later = |now: u64| Some(now.saturating_add(ticks(by)).min(u64::MAX - 1));
        let _ = self.0.ticks_since_start.fetch_update(Ordering::SeqCst, Ordering::SeqCst, later);
        let listeners: Vec<_> = self.0.listeners().iter().filter_map(Weak::upgrade).collect();
        for listener in listeners {
            listener.advanced();
        }
    }
}

impl fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ManualClock({:?})", self.0.now().since(Time::default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_counted_to_the_millisecond_and_never_cut_short() {
        let start = Time::default();
        for ms in [1, 5, 999, 1000, 1001, 300_000] {
            let d = Duration::from_millis(ms);
            assert_eq!(start.plus(d).since(start).as_millis(), u128::from(ms));
            assert!(start.plus(d) > start);
        }
        assert_eq!(start.since(start.plus(Duration::from_secs(1))), Duration::ZERO);
        assert!(start.plus(Duration::MAX) > start.plus(Duration::from_secs(1 << 30)));
    }

    /// A waiter that sleeps for `until` reaches the time, and would not with a nanosecond less.
    #[test]
    fn until_a_time_is_never_too_short() {
        let begin = Time::default().plus(Duration::from_millis(300));
        for ticks in (0..20).chain([u64::from(u32::MAX) - 1, 1 << 32, (1 << 32) + 1, 123 << 25]) {
            let end = Time(begin.0 + ticks);
            let wait = begin.until(end);
            assert!(begin.plus(wait) >= end, "{ticks}");
            let shorter = wait.checked_sub(Duration::from_nanos(1));
            assert!(shorter.is_none_or(|shorter| begin.plus(shorter) < end), "{ticks}");
        }
        for ms in [1, 5, 999, 1000, 1001, 300_000] {
            let wait = Duration::from_millis(ms);
            assert_eq!(begin.until(begin.plus(wait)), wait);
        }
        assert_eq!(begin.until(Time::default()), Duration::ZERO);
    }

    /// The sum does not wrap around to the clock's start.
    #[test]
    fn a_manual_clock_stops_at_the_end_of_time() {
        let time = ManualClock::new();
        let clock = time.clock();
        time.advance(Duration::from_secs(1));
        time.advance(Duration::MAX);
        let end = clock.now();
        time.advance(Duration::from_secs(1));
        assert_eq!(clock.now(), end);
        assert!(end.plus(Duration::from_secs(1)) > end, "no clock reaches what is due later");
    }

    #[test]
    fn a_manual_clock_moves_only_when_advanced() {
        let time = ManualClock::new();
        let clock = time.clock();
        let before = clock.now();
        let deadline = clock.deadline(Duration::from_secs(5));
        assert!(!clock.has_passed(deadline));
        time.advance(Duration::from_secs(5));
        assert!(clock.has_passed(deadline));
        assert_eq!(clock.now().since(before).as_secs(), 5);
    }

    /// The coarse clock lags by at most some milliseconds. The deadline is later than the time by more than that.
    #[test]
    fn a_deadline_at_a_time_allows_for_the_clocks_lag() {
        let (clock, second) = (Clock::monotonic(), Duration::from_secs(1));
        loop {
            let (now, before) = (clock.now(), Instant::now());
            let at = clock.deadline_at(now.plus(second)).instant().expect("it comes by itself");
            if clock.now() == now {
                assert!(at >= before + second + Duration::from_millis(4));
                break;
            }
        }
        let past = clock.deadline_at(Time::default());
        assert!(clock.has_passed(past), "a time that has come needs no wait");
        assert!(!clock.has_passed(clock.deadline_at(Time::END)));
    }

    #[test]
    fn each_length_of_time_has_a_deadline() {
        let (time, beyond) = (ManualClock::new(), Duration::from_secs(1 << 32));
        for clock in [Clock::monotonic(), time.clock()] {
            for long in [beyond, Duration::MAX] {
                assert!(!clock.has_passed(clock.deadline(long)), "{clock:?}, {long:?}");
                let at = clock.now().plus(long);
                assert!(!clock.has_passed(clock.deadline_at(at)), "{clock:?}, {long:?}");
                assert!(at >= clock.now().plus_span(Span::new(Duration::from_secs(1 << 31))));
            }
        }
        let start = Time::default();
        assert!(start.plus(Duration::from_nanos(1)) > start, "no length of time is lost");
        assert_eq!(start.plus(Duration::ZERO), start);
    }

    /// A process may build any number of executors and pools on one clock.
    #[test]
    fn listeners_that_are_gone_are_forgotten() {
        struct Counts(AtomicU64);
        impl ClockListener for Counts {
            fn advanced(&self) {
                self.0.fetch_add(1, Ordering::SeqCst);
            }
        }
        let time = ManualClock::new();
        let add = || {
            let listener = Arc::new(Counts(AtomicU64::new(0)));
            let weak: Weak<Counts> = Arc::downgrade(&listener);
            time.clock().add_listener(weak);
            listener
        };
        let kept = [add(), add()];
        (0..100).for_each(|_| drop(add()));
        assert!(time.0.listeners().len() <= 3);
        time.advance(Duration::from_secs(1));
        assert_eq!(kept.map(|listener| listener.0.load(Ordering::SeqCst)), [1, 1]);
    }

    /// A wait may return early, but one that always does keeps a core busy.
    #[cfg(not(any(feature = "loom", feature = "shuttle")))]
    #[test]
    fn a_timed_wait_sleeps_and_ends_in_time() {
        let (clock, begun) = (Clock::monotonic(), Instant::now());
        let timeout = Duration::from_millis(20);
        let (mutex, condvar) = (crate::kernel::sync::Mutex::new(()), Condvar::new());
        let (mut guard, deadline) = (mutex.lock(), clock.deadline(timeout));
        let mut woken = 0;
        while !clock.has_passed(deadline) {
            clock.wait(&condvar, &mut guard, deadline);
            woken += 1;
        }
        assert!(begun.elapsed() >= timeout);
        assert!(begun.elapsed() < Duration::from_millis(900), "it sleeps for too long");
        assert!(woken < 100, "woken {woken} times in 20 ms");
    }

    #[test]
    fn the_monotonic_clock_runs() {
        let clock = Clock::monotonic();
        assert!(clock.now() <= clock.now());
        assert!(!clock.has_passed(clock.deadline(Duration::from_secs(3600))));
        assert!(clock.has_passed(clock.deadline(Duration::ZERO)));
        assert!(!clock.has_passed(clock.deadline(Duration::MAX)));
    }
}
