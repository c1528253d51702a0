//! The parts that thread and task share: the settings, the interval, and the pause after a call.
//!
//! One lock, `ending`, guards what only opens, ends and joins touch. A run ends under it: the state word
//! changes, the target is put back, each join gets the outcome, and the run leaves the registry. So a join
//! that finds a run waits for its end, and an open that finds no run finds the target.

use super::exit::Exits;
use super::outcome::{Ended, Flow, Joined, Verdict};
use super::registry::Registry;
use super::signal::{MaySleep, Signal};
use crate::kernel::clock::{Clock, ClockListener, Deadline};
use crate::kernel::collections::wait_queue::{Queue, Waiters};
use crate::kernel::effects::{Effects, OnWaiter};
#[cfg(any(test, debug_assertions))]
use crate::kernel::section::Invariant;
use crate::kernel::section::{Guarded, Lock};
use crate::kernel::user_code::UserValue;
use std::mem::take;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::task::Waker;
use std::time::Duration;

/// The choices of an executor's builder.
#[derive(Clone)]
pub(super) struct Settings {
    pub(super) name: Arc<str>,
    pub(super) interval: Option<Duration>,
    pub(super) min_interval: Duration,
    pub(super) clock: Clock,
    pub(super) registered: Registered,
}

/// The registry that an executor is in while it is open.
#[derive(Clone)]
pub(super) enum Registered {
    WithTheProcess,
    With(Registry),
    Nowhere,
}

impl Registered {
    /// Returns the registry, for an open: a process that was forked since the build has a registry of its own.
    pub(super) fn registry(&self) -> Option<Registry> {
        match self {
            Registered::WithTheProcess => Some(Registry::of_the_process()),
            Registered::With(registry) => Some(registry.clone()),
            Registered::Nowhere => None,
        }
    }
}

/// An executor. `T` is its target.
pub(super) struct Core<T> {
    pub(super) signal: Signal,
    pub(super) settings: Settings,
    /// The current interval, in nanoseconds; `u64::MAX`: until a wake.
    interval: AtomicU64,
    /// The process in which the run is, if there is one.
    process: AtomicU32,
    ending: Lock<Ending<T>>,
}

/// The state that opens, ends and joins share.
pub(super) struct Ending<T> {
    /// `None` while a run owns it.
    pub(super) target: Option<UserValue<T>>,
    /// How the last run ended.
    pub(super) last: Ended,
    pub(super) joining: Waiters<Ended>,
    pub(super) queue: Queue,
    /// The threads of former runs.
    pub(super) exits: Exits,
}

fn nanoseconds(d: Option<Duration>) -> u64 {
    d.and_then(|d| u64::try_from(d.as_nanos()).ok()).unwrap_or(u64::MAX)
}

impl<T: Send + 'static> Core<T> {
    pub(super) fn new(settings: Settings, target: T) -> Arc<Self> {
        let ending = Ending {
            target: Some(UserValue::new(target)),
            last: Ended::Joined(Joined::NeverOpened),
            joining: Waiters::default(),
            queue: Queue::default(),
            exits: Exits::default(),
        };
        let core = Arc::new(Core {
            signal: Signal::new(),
            interval: AtomicU64::new(nanoseconds(settings.interval)),
            process: AtomicU32::new(std::process::id()),
            ending: Lock::new(ending, settings.clock.clone()),
            settings,
        });
        let weak: Weak<Self> = Arc::downgrade(&core);
        core.settings.clock.add_listener(weak as Weak<dyn ClockListener>);
        core
    }

    /// Notes that the run is in this process.
    pub(super) fn is_in_this_process(&self) {
        // Relaxed: in one process all notes are the same, and a forked child sees its parent's memory.
        self.process.store(std::process::id(), Relaxed);
    }
    /// Returns whether the run is in another process, from which this one was forked.
    ///
    /// That run's thread does not exist here. It may have held the lock at the fork, so callers look here first.
    pub(super) fn is_forked(&self) -> bool {
        self.process.load(Relaxed) != std::process::id() && self.signal.is_running()
    }

    pub(super) fn update_interval(&self, interval: Option<Duration>) {
        // Relaxed: the number stands alone, no other memory is read by it.
        self.interval.store(nanoseconds(interval), Relaxed);
    }
    fn interval(&self) -> Option<Duration> {
        match self.interval.load(Relaxed) {
            u64::MAX => None,
            nanoseconds => Some(Duration::from_nanos(nanoseconds)),
        }
    }

    /// Returns what follows a call of the target: a pause, or the end of the run.
    pub(super) fn after(&self, verdict: Result<Verdict, String>) -> After {
        let (clock, min) = (&self.settings.clock, self.settings.min_interval);
        let after = |pause: Duration| clock.deadline(pause.max(min));
        let due = match verdict {
            Err(message) => return After::End(Ended::Panicked(message.into())),
            Ok(Verdict::Gone) => return After::End(Ended::Joined(Joined::TargetGone)),
            Ok(Verdict::Flow(Flow::Stop)) => return After::End(Ended::Joined(Joined::Finished)),
            Ok(Verdict::Flow(Flow::Continue)) => self.interval().map_or(Deadline::Never, after),
            Ok(Verdict::Flow(Flow::After(pause))) => after(pause),
            Ok(Verdict::Flow(Flow::Idle)) => Deadline::Never,
            Ok(Verdict::Until(due)) => due,
        };
        After::Pause(Pause { due, earliest: clock.deadline(min), begins: true })
    }

    /// Returns the deadline until which a pausing run has to sleep now, or `None` if the pause has ended.
    ///
    /// A signal that may end the sleep earlier wakes `waker`; the run then calls this again.
    pub(super) fn sleep(&self, pause: &mut Pause, waker: &Waker) -> Option<Deadline> {
        let begins = take(&mut pause.begins);
        let limit = match self.signal.prepare_to_sleep(waker, begins) {
            MaySleep::No => return None,
            MaySleep::UntilEarliest => pause.earliest,
            MaySleep::UntilDue => pause.due,
        };
        // Look at the clock only once the run is marked asleep: an earlier advance of a manual clock did not wake it.
        (!self.settings.clock.has_passed(limit)).then_some(limit)
    }
}

/// The sequel of a call of the target.
pub(super) enum After {
    Pause(Pause),
    End(Ended),
}

/// The time between two calls.
pub(super) struct Pause {
    /// When the next call is due.
    due: Deadline,
    /// The earliest time to which a wake brings it forward.
    earliest: Deadline,
    /// Whether the run has not slept in it yet.
    begins: bool,
}

impl<T: Send + 'static> ClockListener for Core<T> {
    fn advanced(&self) {
        if !self.signal.clock_advanced() {
            return;
        }
        self.ending.clock_advanced(|ending| ending.joining.threads());
    }
}

impl<T: Send + 'static> Guarded for Core<T> {
    type State = Ending<T>;
    type Effects = Effects<OnWaiter>;
    /// Those of a run's end also need its state word: `Run::try_to_end` asserts them.
    #[cfg(any(test, debug_assertions))]
    const INVARIANTS: &'static [Invariant<Ending<T>>] = &[];

    fn lock(&self) -> &Lock<Ending<T>> {
        &self.ending
    }
    fn effects(&self) -> Effects<OnWaiter> {
        Effects::new()
    }
    fn settle(&self, _: &mut Ending<T>, _: &mut Effects<OnWaiter>) {}
    fn is_empty(fx: &Effects<OnWaiter>) -> bool {
        fx.is_empty()
    }
    fn run(&self, fx: &mut Effects<OnWaiter>) {
        fx.run(OnWaiter::run);
    }
}
