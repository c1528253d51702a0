//! What both flavours share: the settings, the target while nobody runs it, and who waits for the end of
//! a run.
//!
//! One lock, `ending`, for what only opens, ends and joins touch. A run ends under it: the step on the
//! word, the target's return, the outcome for all who wait, the leaving of the registry. So a join
//! that finds a run waits for its end, and an open that finds none finds the target.

use super::outcome::{Ended, Flow, JoinError, Joined, OpenError, Phase, Verdict};
use super::registry::{Member, Registry};
use super::signal::{MaySleep, Signal};
use crate::clock::{Clock, ClockListener, Deadline};
use crate::collections::slab_list::Key;
use crate::collections::wait_queue::{Queue, Waiters};
use crate::sync::{Mutex, has_failed};
use crate::user_code::{UserValue, contain, drop_contained};
use std::cell::RefCell;
use std::mem::take;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// What is chosen when an executor is built.
#[derive(Clone)]
pub(super) struct Settings {
    pub(super) name: Arc<str>,
    pub(super) interval: Duration,
    pub(super) min_interval: Duration,
    pub(super) clock: Clock,
    pub(super) registry: Option<Registry>,
}

/// `T` is the target.
pub(super) struct Core<T> {
    pub(super) signal: Signal,
    pub(super) settings: Settings,
    /// The interval that holds now, in nanoseconds.
    interval: AtomicU64,
    ending: Mutex<Ending<T>>,
}

struct Ending<T> {
    /// Absent while a run has it.
    target: Option<UserValue<T>>,
    last: Ended,
    joining: Waiters<Ended>,
    queue: Queue,
}

crate::sync::thread::thread_local! {
    /// The executors whose target this thread calls.
    // loom's macro takes no `const` block.
    #[allow(clippy::missing_const_for_thread_local)]
    static INSIDE: RefCell<Vec<usize>> = RefCell::new(Vec::new());
}

/// Says that this thread calls an executor's target, until it is dropped.
pub(super) struct Inside {
    entered: bool,
}

impl Inside {
    pub(super) fn of<T>(core: &Arc<Core<T>>) -> Self {
        // A thread that ends has no locals any more, and drops what it has.
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

fn nanoseconds(d: Duration) -> u64 {
    u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)
}

impl<T: Send + 'static> Core<T> {
    pub(super) fn new(settings: Settings, target: T) -> Arc<Self> {
        let core = Arc::new(Core {
            signal: Signal::new(),
            interval: AtomicU64::new(nanoseconds(settings.interval)),
            settings,
            ending: Mutex::new(Ending {
                target: Some(UserValue::new(target)),
                last: Ended::Joined(Joined::NeverOpened),
                joining: Waiters::default(),
                queue: Queue::default(),
            }),
        });
        let weak: Weak<Self> = Arc::downgrade(&core);
        core.settings.clock.add_listener(weak as Weak<dyn ClockListener>);
        core
    }

    pub(super) fn update_interval(&self, interval: Duration) {
        // Alone: nothing else is read by it.
        self.interval.store(nanoseconds(interval), Relaxed);
    }
    fn interval(&self) -> Duration {
        match self.interval.load(Relaxed) {
            u64::MAX => Duration::MAX,
            nanoseconds => Duration::from_nanos(nanoseconds),
        }
    }

    /// Opens; `start` has a run begun by a thread or task, or drops it.
    pub(super) fn open(
        self: &Arc<Self>,
        start: impl Fn(PendingRun<T>) -> Result<(), String>,
    ) -> Result<(), OpenError> {
        if self.signal.is_settled() {
            return Ok(());
        }
        let member = match &self.settings.registry {
            Some(registry) => {
                let me: Weak<Self> = Arc::downgrade(self);
                match registry.admit(me, || self.signal.open())? {
                    None => return Ok(()),
                    member => member,
                }
            }
            None if self.signal.open() => None,
            None => return Ok(()),
        };
        let mut run = Run::new(self.clone(), member);
        // Whoever opens meanwhile is told that it is open: one try more for all of them. (No third: they may come
        // again in each.)
        let mut may_try_again = true;
        loop {
            let unbegun = PendingRun::new(run);
            let Err(why) = start(unbegun.clone()) else { return Ok(()) };
            match unbegun.begin() {
                Some(back) => run = back,
                // Somebody has begun it all the same, and may have ended it.
                None if self.signal.is_running() => return Ok(()),
                None => return Err(OpenError::NotStarted(why)),
            }
            if !run.try_to_end(Ended::Joined(Joined::Abandoned), take(&mut may_try_again)) {
                return Err(OpenError::NotStarted(why));
            }
        }
    }

    /// What follows a call of the target that ended like this.
    pub(super) fn after(&self, verdict: Result<Verdict, String>) -> After {
        let (clock, min) = (&self.settings.clock, self.settings.min_interval);
        let after = |pause: Duration| clock.deadline(pause.max(min));
        let due = match verdict {
            Err(message) => return After::End(Ended::Panicked(message.into())),
            Ok(Verdict::Gone) => return After::End(Ended::Joined(Joined::TargetGone)),
            Ok(Verdict::Flow(Flow::Stop)) => return After::End(Ended::Joined(Joined::Finished)),
            Ok(Verdict::Flow(Flow::Continue)) => after(self.interval()),
            Ok(Verdict::Flow(Flow::After(pause))) => after(pause),
            Ok(Verdict::Flow(Flow::Idle)) => Deadline::Never,
            Ok(Verdict::Until(due)) => due,
        };
        After::Pause(Pause { due, earliest: clock.deadline(min), begins: true })
    }

    /// Until when a run that pauses has to sleep now; none: the pause is over. The waker is woken when
    /// this must be looked at again.
    pub(super) fn sleep(&self, pause: &mut Pause, waker: &Waker) -> Option<Deadline> {
        let begins = take(&mut pause.begins);
        let limit = match self.signal.prepare_to_sleep(waker, begins) {
            MaySleep::No => return None,
            MaySleep::UntilEarliest => pause.earliest,
            MaySleep::UntilDue => pause.due,
        };
        // After it lay down: hands that were moved before that have not roused it.
        (!self.settings.clock.has_passed(limit)).then_some(limit)
    }

    /// Waits for the end of the run, if there is one.
    pub(super) fn join(&self, deadline: Deadline) -> Result<Joined, JoinError> {
        if self.is_inside() {
            return Ok(Joined::Itself);
        }
        let mut guard = self.ending.lock();
        if !self.signal.announce_join() {
            return guard.last.clone().result();
        }
        let ending = &mut *guard;
        let waiter = ending.joining.enqueue_thread(&mut ending.queue);
        let condvar = ending.joining.condvar(waiter);
        loop {
            let ending = &mut *guard;
            if let Some(ended) = ending.joining.take(waiter) {
                return ended.result();
            }
            if self.settings.clock.has_passed(deadline) {
                ending.joining.cancel(&mut ending.queue, waiter);
                return Err(JoinError::TimedOut);
            }
            self.settings.clock.wait(&condvar, &mut guard, deadline);
        }
    }

    /// One poll of a task that joins; `waiter` is its place in the queue.
    pub(super) fn poll_join(
        &self,
        waiter: &mut Option<Key>,
        cx: &Context<'_>,
    ) -> Poll<Result<Joined, JoinError>> {
        if self.is_inside() {
            return Poll::Ready(Ok(Joined::Itself));
        }
        // Cloned and dropped without the lock: the waker is foreign.
        let mut waker = Some(cx.waker().clone());
        let mut former = None;
        let ended = {
            let mut guard = self.ending.lock();
            let ending = &mut *guard;
            let ended = match *waiter {
                Some(waiter) => ending.joining.take(waiter),
                None if !self.signal.is_running() => Some(ending.last.clone()),
                None => {
                    *waiter = Some(ending.joining.enqueue_task(&mut ending.queue));
                    None
                }
            };
            if ended.is_none()
                && let (Some(waiter), Some(waker)) = (*waiter, waker.take())
            {
                former = ending.joining.set_waker(waiter, waker);
            }
            ended
        };
        drop_contained((waker, former));
        match ended {
            Some(ended) => {
                *waiter = None;
                Poll::Ready(ended.result())
            }
            None => Poll::Pending,
        }
    }

    /// A task that joined gives up.
    pub(super) fn leave_join(&self, waiter: Key) {
        let (_, waker) = {
            let mut guard = self.ending.lock();
            let ending = &mut *guard;
            ending.joining.cancel(&mut ending.queue, waiter)
        };
        drop_contained(waker);
    }

    fn is_inside(&self) -> bool {
        let me = std::ptr::from_ref(self) as usize;
        INSIDE.try_with(|cores| cores.borrow().contains(&me)).unwrap_or(false)
    }
}

pub(super) enum After {
    Pause(Pause),
    End(Ended),
}

/// Between two calls: when the next one is due, and from when on a wake may bring it forward.
pub(super) struct Pause {
    due: Deadline,
    earliest: Deadline,
    /// It has not lain down in it yet.
    begins: bool,
}

/// One thread's or task's turn at the target, from its start to its end.
pub(super) struct Run<T: Send + 'static> {
    pub(super) core: Arc<Core<T>>,
    /// Absent once it is over.
    target: Option<UserValue<T>>,
    member: Option<usize>,
}

impl<T: Send + 'static> Run<T> {
    fn new(core: Arc<Core<T>>, member: Option<usize>) -> Self {
        let target = core.ending.lock().target.take();
        Run { core, target: Some(target.expect("no other run has it")), member }
    }
    pub(super) fn target(&mut self) -> &mut T {
        self.target.as_mut().expect("the run is not over")
    }

    /// Ends the run, and says so. Unless it was opened again meanwhile: then it goes on as a new one.
    pub(super) fn end(&mut self, ended: Ended) -> bool {
        self.try_to_end(ended, true)
    }

    fn try_to_end(&mut self, ended: Ended, can_go_on: bool) -> bool {
        let core = &*self.core;
        drop(core.signal.take_waker());
        let (goes_on, wakes) = {
            let mut guard = core.ending.lock();
            let ending = &mut *guard;
            let goes_on = core.signal.end(can_go_on);
            let mut wakes = Vec::new();
            // Who joins a run that goes on waits on; but a panic is told to those who are there.
            if !goes_on || matches!(ended, Ended::Panicked(_)) {
                wakes.reserve_exact(ending.queue.len());
                while !ending.queue.is_empty() {
                    wakes.push(ending.joining.resolve_front(&mut ending.queue, ended.clone()));
                }
            }
            if !goes_on {
                ending.last = ended;
                ending.target = self.target.take();
                if let (Some(registry), Some(member)) = (&core.settings.registry, self.member) {
                    registry.leave(member);
                }
                debug_assert!(
                    ending.target.is_some(),
                    "INV-TARGET: who ends brings the target back"
                );
                debug_assert!(ending.queue.is_empty(), "INV-JOINED: nobody waits for what is over");
            }
            (goes_on, wakes)
        };
        for wake in wakes {
            let _ = contain(|| wake.wake());
        }
        goes_on
    }
}

/// A run that is to be started. Its opener has it until somebody begins it, and so has it back if nobody
/// will; if both let go of it, it ends.
pub(super) struct PendingRun<T: Send + 'static>(
    /// Locked for as long as it takes to take it.
    Arc<std::sync::Mutex<Option<Run<T>>>>,
);

impl<T: Send + 'static> PendingRun<T> {
    fn new(run: Run<T>) -> Self {
        PendingRun(Arc::new(std::sync::Mutex::new(Some(run))))
    }
    /// The run, for the first who asks.
    pub(super) fn begin(&self) -> Option<Run<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl<T: Send + 'static> Clone for PendingRun<T> {
    fn clone(&self) -> Self {
        PendingRun(self.0.clone())
    }
}

impl<T: Send + 'static> Drop for Run<T> {
    fn drop(&mut self) {
        if self.target.is_some() && !has_failed() {
            self.try_to_end(Ended::Joined(Joined::Abandoned), false);
        }
    }
}

impl<T: Send + 'static> ClockListener for Core<T> {
    fn advanced(&self) {
        if !self.signal.clock_advanced() {
            return;
        }
        // Under the lock: a thread that has looked at the clock and not yet gone to sleep holds it.
        let threads = self.ending.lock().joining.threads();
        for condvar in threads {
            condvar.notify_one();
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
        !matches!(self.join(deadline), Err(JoinError::TimedOut))
    }
}

/// What all handles share: the last one to be dropped closes the executor.
pub(super) struct Handle<T: Send + 'static>(pub(super) Arc<Core<T>>);

impl<T: Send + 'static> Drop for Handle<T> {
    fn drop(&mut self) {
        if !has_failed() {
            self.0.signal.close();
        }
    }
}

impl<T: Send + 'static> Handle<T> {
    pub(super) fn fmt(&self, what: &str, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let phase: Phase = self.0.signal.phase();
        f.debug_struct(what)
            .field("name", &self.0.settings.name)
            .field("phase", &phase)
            .finish_non_exhaustive()
    }
}
