//! A runtime that polls only what was woken, each time by a new waker.
//!
//! A future may forget each waker but that of its last poll. So a wake-up by an earlier waker has no effect here, and a
//! wake-up that is lost stops its task, as it does on a user's runtime. The runtime's time passes when the test says so.

use super::waiting::before_long;
use cabrank::periodic_executor::{BoxFuture, Runtime};
use std::collections::BTreeMap;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The wake-ups of one task, whose polls have a waker each.
#[derive(Default)]
pub(crate) struct WakeUps(Mutex<Count>, Condvar);

#[derive(Default)]
struct Count {
    polls: usize,
    wakes: usize,
    /// The poll whose waker was woken last; 0 before the first poll.
    woken: usize,
}

struct OfPoll(Arc<WakeUps>, usize);

impl Wake for OfPoll {
    fn wake(self: Arc<Self>) {
        let OfPoll(wake_ups, poll) = &*self;
        let mut count = locked(&wake_ups.0);
        if count.polls == *poll {
            count.wakes += 1;
            count.woken = *poll;
            wake_ups.1.notify_all();
        }
    }
}

impl WakeUps {
    /// Returns the waker of the next poll. The earlier ones have no effect from now on.
    pub(crate) fn next_waker(self: &Arc<Self>) -> Waker {
        let mut count = locked(&self.0);
        count.polls += 1;
        Waker::from(Arc::new(OfPoll(self.clone(), count.polls)))
    }
    /// Returns how often a waker was woken while it was that of the last poll.
    pub(crate) fn wakes(&self) -> usize {
        locked(&self.0).wakes
    }
    /// Returns whether the task is to be polled: it is new, or was woken since its last poll.
    pub(crate) fn is_woken(&self) -> bool {
        let count = locked(&self.0);
        count.woken == count.polls
    }
    /// Waits until the task is to be polled, for at most `limit`.
    #[track_caller]
    pub(crate) fn wait(&self, limit: Duration) {
        let waits = |count: &mut Count| count.woken != count.polls;
        let (count, _) = self
            .1
            .wait_timeout_while(locked(&self.0), limit, waits)
            .unwrap_or_else(PoisonError::into_inner);
        assert!(count.woken == count.polls, "it is not woken");
    }
}

/// The runtime. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Woken(Arc<Shared>);

#[derive(Default)]
struct Shared {
    tasks: Mutex<Numbered<Spawned>>,
    timers: Mutex<Timers>,
    /// Each task is polled once more than it was woken.
    restless: AtomicBool,
    /// Each task is polled when it is spawned.
    eager: AtomicBool,
}

struct Spawned {
    future: BoxFuture<()>,
    wake_ups: Arc<WakeUps>,
}

impl Spawned {
    fn poll(&mut self) -> Poll<()> {
        let waker = self.wake_ups.next_waker();
        self.future.as_mut().poll(&mut Context::from_waker(&waker))
    }
}

#[derive(Default)]
struct Timers {
    /// How much time the test has let pass.
    passed: Duration,
    all: Numbered<Timer>,
}

struct Timer {
    /// How much time has passed then.
    due: Duration,
    waker: Option<Waker>,
}

/// Things by their number, the oldest first.
struct Numbered<T> {
    last: usize,
    all: BTreeMap<usize, T>,
}

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Numbered { last: 0, all: BTreeMap::new() }
    }
}

impl<T> Numbered<T> {
    fn add(&mut self, it: T) -> usize {
        self.last += 1;
        self.all.insert(self.last, it);
        self.last
    }
}

impl Runtime for Woken {
    type Sleep = Sleep;
    fn spawn(&self, future: BoxFuture<()>) {
        let number = locked(&self.0.tasks).add(Spawned { future, wake_ups: Arc::default() });
        if self.0.eager.load(SeqCst) {
            self.poll(number);
        }
    }
    fn sleep_until(&self, at: Instant) -> Sleep {
        let mut timers = locked(&self.0.timers);
        let due = timers.passed.saturating_add(at.saturating_duration_since(Instant::now()));
        let number = timers.all.add(Timer { due, waker: None });
        Sleep(self.0.clone(), number)
    }
}

/// A timer. It wakes the last waker that has polled it.
pub(crate) struct Sleep(Arc<Shared>, usize);

impl Future for Sleep {
    type Output = ();
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut timers = locked(&self.0.timers);
        let passed = timers.passed;
        let timer = timers.all.all.get_mut(&self.1).expect("it is there until it is dropped");
        if timer.due <= passed {
            return Poll::Ready(());
        }
        timer.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        let timer = locked(&self.0.timers).all.all.remove(&self.1);
        drop(timer);
    }
}

impl Woken {
    /// Returns a runtime that polls each task that is still pending once more, in vain, by another waker.
    pub(crate) fn restless() -> Self {
        let runtime = Woken::default();
        runtime.0.restless.store(true, SeqCst);
        runtime
    }
    /// Returns a runtime that polls each task when it is spawned, as one does whose worker is free.
    pub(crate) fn eager() -> Self {
        let runtime = Woken::default();
        runtime.0.eager.store(true, SeqCst);
        runtime
    }
    /// Polls the woken tasks, the oldest first, until all that are left wait. Returns how many are left.
    #[track_caller]
    pub(crate) fn run(&self) -> usize {
        for _ in 0..1000 {
            let woken = self.numbers_of_woken();
            if woken.is_empty() {
                return self.tasks();
            }
            for number in woken {
                self.poll(number);
            }
        }
        panic!("a task wakes itself again and again");
    }
    fn poll(&self, number: usize) {
        // Another task may have ended the runtime meanwhile.
        let task = locked(&self.0.tasks).all.remove(&number);
        let Some(mut task) = task else { return };
        let times = if self.0.restless.load(SeqCst) { 2 } else { 1 };
        if (0..times).all(|_| task.poll().is_pending()) {
            locked(&self.0.tasks).all.insert(number, task);
        }
    }
    /// [Runs](Self::run) the tasks, lets time pass, wakes the timers that are due, and runs the tasks again.
    #[track_caller]
    pub(crate) fn pass(&self, by: Duration) -> usize {
        self.run();
        let mut woken = Vec::new();
        let mut timers = locked(&self.0.timers);
        timers.passed = timers.passed.saturating_add(by);
        let passed = timers.passed;
        for timer in timers.all.all.values_mut().filter(|timer| timer.due <= passed) {
            woken.extend(timer.waker.take());
        }
        drop(timers);
        woken.into_iter().for_each(Waker::wake);
        self.run()
    }
    /// Runs a future on this thread, and the tasks while it waits.
    #[track_caller]
    pub(crate) fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        let (mut future, wake_ups) = (pin!(future), Arc::<WakeUps>::default());
        loop {
            if wake_ups.is_woken() {
                let waker = wake_ups.next_waker();
                if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                    return value;
                }
            }
            self.run();
            before_long(|| wake_ups.is_woken() || self.woken() > 0);
        }
    }
    /// Drops each task, as a runtime does that is shut down.
    pub(crate) fn forget_all(&self) {
        let tasks = std::mem::take(&mut locked(&self.0.tasks).all);
        drop(tasks);
    }
    /// Makes the youngest task the oldest one, and so on.
    pub(crate) fn reverse(&self) {
        let mut tasks = locked(&self.0.tasks);
        for task in std::mem::take(&mut tasks.all).into_values().rev() {
            tasks.add(task);
        }
    }
    /// Returns how many tasks there are.
    pub(crate) fn tasks(&self) -> usize {
        locked(&self.0.tasks).all.len()
    }
    /// Returns how many tasks are to be polled.
    pub(crate) fn woken(&self) -> usize {
        self.numbers_of_woken().len()
    }
    /// Returns how many timers there are.
    pub(crate) fn timers(&self) -> usize {
        locked(&self.0.timers).all.all.len()
    }

    fn numbers_of_woken(&self) -> Vec<usize> {
        let tasks = locked(&self.0.tasks);
        let woken = tasks.all.iter().filter(|(_, task)| task.wake_ups.is_woken());
        woken.map(|(number, _)| *number).collect()
    }
}
