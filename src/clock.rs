//! Monotonic time, and a clock that is moved by hand.
//!
//! The pool reads the time on its hottest path, when a session is closed. It is content with a clock
//! that is a few milliseconds late (idle times are seconds), so [`Clock`] reads the coarse monotonic
//! clock of the system, at a quarter of the price of a precise one. Time-outs of waiting threads are
//! precise.
//!
//! Tests and models use a [`ManualClock`]: nothing sleeps to let time pass.

use crate::sync::{Condvar, MutexGuard};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

/// A point in time: ticks of 2⁻³² seconds since the clock's beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Time(u64);

impl Time {
    /// The end of a clock's time: what is due then, or later, never is.
    pub(crate) const END: Time = Time(u64::MAX);

    /// For what keeps it in an atomic.
    #[inline]
    pub(crate) const fn ticks(self) -> u64 {
        self.0
    }
    #[inline]
    pub(crate) const fn from_ticks(ticks: u64) -> Time {
        Time(ticks)
    }
    #[inline]
    pub(crate) fn plus_span(self, span: Span) -> Time {
        Time(self.0.saturating_add(span.0))
    }
    pub(crate) fn plus(self, d: Duration) -> Time {
        Time(self.0.saturating_add(ticks(d)))
    }
    /// How long after `earlier` this is; zero if it is not after it.
    pub(crate) fn since(self, earlier: Time) -> Duration {
        coarsetime::Duration::from_ticks(self.0.saturating_sub(earlier.0)).into()
    }
    /// How long it is until `later`: the shortest time that is not too short, after which it has come. Zero if
    /// it is not after this.
    pub(crate) fn until(self, later: Time) -> Duration {
        let ticks = later.0.saturating_sub(self.0);
        let (whole, part) = (ticks >> 32, ticks & u64::from(u32::MAX));
        // As many ticks as that are begun by the last of its nanoseconds.
        let nanos = part.checked_sub(1).map_or(0, |part| ((part * 1_000_000_000) >> 32) + 1);
        Duration::from_secs(whole) + Duration::from_nanos(nanos)
    }
}

/// A length of time in the same ticks: for what is added on a hot path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span(u64);

impl Span {
    pub(crate) fn new(d: Duration) -> Self {
        Span(ticks(d))
    }
    #[inline]
    pub(crate) fn is_zero(self) -> bool {
        self.0 == 0
    }
}

/// Rounded up, so that no more than the duration's own time is ever cut off a wait.
fn ticks(d: Duration) -> u64 {
    let whole = d.as_secs().min(u64::from(u32::MAX)) << 32;
    let part = (u64::from(d.subsec_nanos()) << 32).div_ceil(1_000_000_000);
    whole.saturating_add(part)
}

/// Where the pool gets its time from. Cheap to clone.
#[derive(Clone)]
pub struct Clock(Kind);

#[derive(Clone)]
enum Kind {
    Monotonic(coarsetime::Instant),
    Manual(Arc<Hands>),
}

/// When a wait ends at the latest.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Deadline {
    Never,
    Real(Instant),
    Hands(Time),
}

impl Deadline {
    /// When it comes by itself; none: never, or by hand.
    pub(crate) fn instant(self) -> Option<Instant> {
        match self {
            Deadline::Real(at) => Some(at),
            Deadline::Never | Deadline::Hands(_) => None,
        }
    }
}

impl Clock {
    /// The system's monotonic clock.
    pub fn monotonic() -> Self {
        Clock(Kind::Monotonic(coarsetime::Instant::now()))
    }

    #[inline]
    pub(crate) fn now(&self) -> Time {
        match &self.0 {
            Kind::Monotonic(origin) => {
                Time(coarsetime::Instant::now().duration_since(*origin).as_ticks())
            }
            Kind::Manual(hands) => hands.now(),
        }
    }

    /// The deadline of a wait that begins now.
    pub(crate) fn deadline(&self, timeout: Duration) -> Deadline {
        match &self.0 {
            // A time-out beyond what an `Instant` holds is none.
            Kind::Monotonic(_) => {
                Instant::now().checked_add(timeout).map_or(Deadline::Never, Deadline::Real)
            }
            Kind::Manual(hands) => Deadline::Hands(hands.now().plus(timeout)),
        }
    }

    /// The deadline of a wait for that time. The coarse clock lags: who wakes at the very moment would
    /// find that its time has not come.
    pub(crate) fn deadline_at(&self, time: Time) -> Deadline {
        const LAG: Duration = Duration::from_millis(5);
        match &self.0 {
            Kind::Monotonic(_) => match time.since(self.now()) {
                Duration::ZERO => self.deadline(Duration::ZERO),
                wait => self.deadline(wait + LAG),
            },
            Kind::Manual(_) => Deadline::Hands(time),
        }
    }

    pub(crate) fn has_passed(&self, deadline: Deadline) -> bool {
        match deadline {
            Deadline::Never => false,
            Deadline::Real(at) => Instant::now() >= at,
            Deadline::Hands(at) => self.now() >= at,
        }
    }

    /// Waits on `condvar` until it is notified or `deadline` comes; may return early. A clock that is
    /// moved by hand wakes nobody by itself: who waits on one is also a [`Tick`] of it.
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
            Deadline::Never | Deadline::Hands(_) => condvar.wait(guard),
        }
    }

    /// Whether a wait until then may begin with a step aside, which takes some milliseconds at times: not if they
    /// would make it late, nor if the clock is moved by hand, for whoever moves it waits for those who sleep.
    pub(crate) fn leaves_time_to_step_aside(&self, deadline: Deadline) -> bool {
        const ENOUGH: Duration = Duration::from_millis(20);
        match deadline {
            Deadline::Never => !self.is_manual(),
            Deadline::Real(at) => at.saturating_duration_since(Instant::now()) >= ENOUGH,
            Deadline::Hands(_) => false,
        }
    }

    /// Tells `tick` whenever the hands have been moved. A clock that runs by itself tells nobody.
    pub(crate) fn tell(&self, tick: Weak<dyn Tick>) {
        if let Kind::Manual(hands) = &self.0 {
            let mut ticks = hands.ticks();
            ticks.retain(|t| t.strong_count() > 0);
            ticks.push(tick);
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

/// Somebody who waits for a clock that is moved by hand.
pub(crate) trait Tick: Send + Sync {
    /// The hands have been moved: wake who waits for them.
    fn tick(&self);
}

/// A clock whose hands are moved by a test.
///
/// ```
/// use cabrank::ManualClock;
/// use std::time::Duration;
/// let hands = ManualClock::new();
/// let clock = hands.clock(); // for `Builder::clock`
/// hands.advance(Duration::from_secs(300));
/// # drop(clock);
/// ```
#[derive(Clone, Default)]
pub struct ManualClock(Arc<Hands>);

#[derive(Default)]
struct Hands {
    ticks_since_beginning: AtomicU64,
    listeners: Mutex<Vec<Weak<dyn Tick>>>,
}

impl Hands {
    fn now(&self) -> Time {
        Time(self.ticks_since_beginning.load(Ordering::SeqCst))
    }
    fn ticks(&self) -> std::sync::MutexGuard<'_, Vec<Weak<dyn Tick>>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ManualClock {
    /// A clock that stands at its beginning.
    pub fn new() -> Self {
        ManualClock::default()
    }
    /// The clock, to be given to a pool.
    pub fn clock(&self) -> Clock {
        Clock(Kind::Manual(self.0.clone()))
    }
    /// Moves the hands, and wakes who waited for that. They stop just before the end of the clock's time, some 136
    /// years after its beginning: what is due then, or later, never is.
    pub fn advance(&self, by: Duration) {
        let later = |now: u64| Some(now.saturating_add(ticks(by)).min(u64::MAX - 1));
        let _ =
            self.0.ticks_since_beginning.fetch_update(Ordering::SeqCst, Ordering::SeqCst, later);
        let listeners: Vec<_> = self.0.ticks().iter().filter_map(Weak::upgrade).collect();
        for listener in listeners {
            listener.tick();
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

    /// Whoever is told how long it is until a time, and lets as much pass, is there, and not a nanosecond late.
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

    /// They came round to the beginning once.
    #[test]
    fn hands_stop_at_the_end_of_time() {
        let hands = ManualClock::new();
        let clock = hands.clock();
        hands.advance(Duration::from_secs(1));
        hands.advance(Duration::MAX);
        let end = clock.now();
        hands.advance(Duration::from_secs(1));
        assert_eq!(clock.now(), end);
        assert!(end.plus(Duration::from_secs(1)) > end, "what is due later never is");
    }

    #[test]
    fn hands_move_only_by_hand() {
        let hands = ManualClock::new();
        let clock = hands.clock();
        let before = clock.now();
        let deadline = clock.deadline(Duration::from_secs(5));
        assert!(!clock.has_passed(deadline));
        hands.advance(Duration::from_secs(5));
        assert!(clock.has_passed(deadline));
        assert_eq!(clock.now().since(before).as_secs(), 5);
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
