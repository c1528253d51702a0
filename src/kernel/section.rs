//! Critical sections: the one way in which a pool or an interlock touches its state.
//!
//! A [`Guarded`] owner keeps its state in a [`Lock`]. Only this module takes the lock.
//!
//! # No user code under a lock
//! A section only changes the state. It puts wakers, callbacks and drops of the user's values into its list of
//! effects. [`Guarded::critical`] runs the section and [settles](Guarded::settle) the state. With debug assertions
//! it then asserts each invariant. Last, it releases the lock and runs the effects. User code therefore runs
//! without the lock, and may call the owner again.
//!
//! # No wake-up is lost
//! A caller that cannot go on joins a queue of the state and waits by a [`Turn`]:
//! 1. The section that finds that the caller must wait also puts it into the queue.
//! 2. The section that grants an outcome stores it in the state, and wakes the waiter afterwards.
//! 3. A waiter looks for its outcome under the lock. A thread releases the lock only by going to sleep
//!    on its condition variable; a task stores its waker before the lock is released. A look that has effects ends
//!    as a section does: the thread runs them, and looks again.
//! 4. A waiter gives up in a section of its own. If an outcome was granted meanwhile, [`Wait::give_up`] gives it
//!    back, and another waiter may get it.
//!
//! By step 1 each grant finds the waiter in the queue. A grant before the waiter's look is found by that look. A
//! grant after it wakes the waiter, because by step 3 the waiter already sleeps or has stored its waker. The
//! models in `models/section/` check these four steps in every interleaving.

use crate::kernel::clock::{Clock, Deadline};
use crate::kernel::collections::wait_queue::Wake;
use crate::kernel::sync::{Condvar, Mutex, MutexGuard, has_failed, unlock_fairly};
use crate::kernel::user_code::drop_contained;
use std::future::Future;
use std::mem;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// A state that is reached by critical sections alone, and the clock of its waits.
pub(crate) struct Lock<T> {
    state: Mutex<T>,
    clock: Clock,
    /// Counts the ends of sections. It changes under the lock, and no model looks at it.
    #[cfg(debug_assertions)]
    sections: std::sync::atomic::AtomicUsize,
}

/// A state with as many entries is small: all of its invariants are asserted in each section.
#[cfg(debug_assertions)]
const FEW_ENTRIES: usize = 32;
/// In a larger one all are asserted in one of so many sections, and in each those of the entries that it has touched.
#[cfg(debug_assertions)]
const ALL_EVERY: usize = 64;

impl<T> Lock<T> {
    pub(crate) fn new(state: T, clock: Clock) -> Self {
        Lock {
            state: Mutex::new(state),
            clock,
            #[cfg(debug_assertions)]
            sections: Default::default(),
        }
    }
    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }
    /// Reads the state under the lock, without settling it.
    pub(crate) fn look<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        look(&self.state.lock())
    }
    /// Reads the state as [`look`](Self::look) does, and leaves the lock to a thread that waits for it. So a caller
    /// that looks again and again holds up each other thread for one look.
    pub(crate) fn look_fairly<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        let state = self.state.lock();
        let result = look(&state);
        unlock_fairly(state);
        result
    }
    /// Changes something that no invariant and no waiter depends on, without a section's end.
    pub(crate) fn amend<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        change(&mut self.state.lock())
    }
    /// Returns the state of an owner that only its caller still has.
    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.state.get_mut()
    }
    /// Wakes the waiting threads, which then read the advanced manual clock. `threads` lists them under the lock.
    ///
    /// A thread holds the lock from its look at the clock until it sleeps. So the list contains each thread that
    /// has seen the old time.
    pub(crate) fn clock_advanced(&self, threads: impl FnOnce(&T) -> Vec<Arc<Condvar>>) {
        for condvar in self.look(threads) {
            condvar.notify_all();
        }
    }
    /// For tests that break the state on purpose.
    #[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
    pub(crate) fn break_state<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        f(&mut self.state.lock())
    }
}

/// The owner of a state behind a [`Lock`].
pub(crate) trait Guarded {
    type State: 'static;
    /// The list of effects of one section.
    type Effects;
    /// Hold at the end of each section.
    #[cfg(any(test, debug_assertions))]
    const INVARIANTS: &'static [Invariant<Self::State>];
    /// Returns the number of entries of the state. All invariants of a small state are asserted in each section.
    #[cfg(any(test, debug_assertions))]
    fn entries(_: &Self::State) -> usize {
        0
    }
    /// Narrows the invariants of entries to those that the section has touched, or widens them again, for the next section.
    #[cfg(any(test, debug_assertions))]
    fn narrow(_: &mut Self::State, _to_touched: bool) {}

    fn lock(&self) -> &Lock<Self::State>;
    /// Returns an empty list.
    fn effects(&self) -> Self::Effects;
    /// Ends each section, under the lock: grants what has become free.
    fn settle(&self, state: &mut Self::State, fx: &mut Self::Effects);
    /// Returns whether the list holds no effect, and owns no memory.
    fn is_empty(fx: &Self::Effects) -> bool;
    /// Runs the effects, without the lock. If one panics, the others still run.
    ///
    /// Leaves the list empty, because the caller then forgets it ([`mem::forget`]). So a section without effects costs
    /// one comparison, and runs no destructor.
    fn run(&self, fx: &mut Self::Effects);

    /// Runs `section` under the lock, and its effects after it.
    #[inline]
    fn critical<R>(&self, section: impl FnOnce(&mut Self::State, &mut Self::Effects) -> R) -> R {
        let mut fx = self.effects();
        let mut state = self.lock().state.lock();
        let result = section(&mut state, &mut fx);
        end_section(self, state, &mut fx);
        mem::forget(fx);
        result
    }

    /// Returns a future that waits for the outcome of `wait`. `patience` says how it waits.
    ///
    /// # Cancel safety
    /// Dropping the future gives the wait up.
    fn turn<W: Wait<Self>>(&self, wait: W, patience: Patience) -> Turn<'_, Self, W> {
        Turn { owner: self, wait: Some(wait), patience }
    }
}

/// Settles the state, asserts the invariants, releases the lock and runs the effects.
///
/// The list of effects is passed by reference: by value, each call would copy it, even an empty one.
// Always inlined: as a call, it costs a loan 5 %.
#[inline(always)]
fn end_section<G: Guarded + ?Sized>(
    owner: &G,
    mut state: MutexGuard<'_, G::State>,
    fx: &mut G::Effects,
) {
    settle(owner, &mut state, fx);
    drop(state);
    if !G::is_empty(fx) {
        owner.run(fx);
    }
}

/// Settles the state, and asserts the invariants.
#[inline]
fn settle<G: Guarded + ?Sized>(owner: &G, state: &mut G::State, fx: &mut G::Effects) {
    owner.settle(state, fx);
    #[cfg(debug_assertions)]
    assert_invariants::<G>(owner.lock(), state);
}

/// Asserts the invariants: all of them, or in a large state, in most sections, those of the entries that the section has touched.
///
/// With the feature `full-invariants`, and in this crate's own tests and models, all are asserted in each section.
#[cfg(debug_assertions)]
fn assert_invariants<G: Guarded + ?Sized>(lock: &Lock<G::State>, state: &mut G::State) {
    let nth = lock.sections.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let all = cfg!(any(test, feature = "full-invariants")) || asserts_all(G::entries(state), nth);
    G::narrow(state, !all);
    let asserted = G::INVARIANTS.iter().filter(|invariant| all || invariant.of_entries);
    if let Some(broken) = broken(asserted, state).next() {
        panic!("{broken}");
    }
    G::narrow(state, false);
}

/// Returns whether all invariants are asserted at the end of the nth section.
#[cfg(debug_assertions)]
fn asserts_all(entries: usize, nth: usize) -> bool {
    entries <= FEW_ENTRIES || nth % ALL_EVERY == 0
}

/// One invariant of a state: its name (in `spec/`, if that has it), what it says, and whether it holds.
#[cfg(any(test, debug_assertions))]
pub(crate) struct Invariant<T> {
    pub(crate) name: &'static str,
    pub(crate) says: &'static str,
    pub(crate) holds: fn(&T) -> bool,
    /// Whether it says something of each entry alone, so that it can be narrowed to those that were touched.
    pub(crate) of_entries: bool,
}

/// Returns a message for each of these invariants that does not hold.
#[cfg(any(test, debug_assertions))]
pub(crate) fn broken<'a, T: 'a>(
    all: impl IntoIterator<Item = &'a Invariant<T>>,
    state: &T,
) -> impl Iterator<Item = String> {
    let broken = all.into_iter().filter(|invariant| !(invariant.holds)(state));
    broken.map(|i| format!("{} does not hold: {}", i.name, i.says))
}

/// Asserts that each break is reported by the name of its invariant, and that each invariant has a break.
///
/// `report` breaks a good state, and returns the messages.
#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
pub(crate) fn check_breaks<T, B>(
    all: &[Invariant<T>],
    breaks: impl IntoIterator<Item = (&'static str, B)>,
    report: impl Fn(B) -> Vec<String>,
) {
    let mut left: Vec<_> = all.iter().map(|invariant| invariant.name).collect();
    for (nth, (name, spoil)) in breaks.into_iter().enumerate() {
        let reported = report(spoil);
        let by_name = reported.iter().any(|line| line.starts_with(&format!("{name} ")));
        assert!(by_name, "{name} (break {nth}) was broken, and reported: {reported:#?}");
        left.retain(|other| *other != name);
    }
    assert!(left.is_empty(), "without a break: {left:?}");
}

/// A table of invariants: on each line a name, what it says, and a function of the state. `(each)` stands behind one that says
/// something of each entry alone.
#[cfg(any(test, debug_assertions))]
macro_rules! invariants {
    ($($name:literal $says:literal $holds:ident $(($each:ident))?;)*) => {
        &[$($crate::kernel::section::Invariant {
            name: $name,
            says: $says,
            holds: $holds,
            of_entries: matches!(stringify!($($each)?).len(), 1..),
        },)*]
    };
}
#[cfg(any(test, debug_assertions))]
pub(crate) use invariants;

/// How a caller waits.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Patience {
    /// It returns at once.
    None,
    /// The thread sleeps, until the deadline.
    Thread(Deadline),
    /// The future is pending. Deadlines are its runtime's business.
    Task,
}

impl Patience {
    /// Returns whether the caller is a thread that sleeps.
    pub(crate) fn is_thread(self) -> bool {
        matches!(self, Patience::Thread(_))
    }
    /// Returns when a caller with this patience gives up.
    pub(crate) fn deadline(self) -> Deadline {
        match self {
            Patience::Thread(deadline) => deadline,
            Patience::None | Patience::Task => Deadline::Never,
        }
    }
}

/// One place in a queue of the owner's state.
pub(crate) trait Wait<G: Guarded + ?Sized>: Unpin + Sized {
    type Outcome;
    /// The result of giving up.
    type GivenUp;

    /// Takes the outcome, if it was granted. Otherwise the first call may join the queue, and a call that was woken in
    /// vain may join it again; both may have effects. A repeated call changes nothing.
    fn take(&mut self, state: &mut G::State, fx: &mut G::Effects) -> Option<Self::Outcome>;
    /// Returns how this waiter is woken. Called only while it has no outcome.
    fn wake<'s>(&self, state: &'s mut G::State) -> &'s mut Wake;
    /// Leaves the queue, and gives back an outcome that was granted meanwhile.
    fn give_up(&mut self, state: &mut G::State, fx: &mut G::Effects) -> Self::GivenUp;
    /// Gives the wait up when its future is dropped.
    fn cancel(mut self, owner: &G) {
        owner.critical(|state, fx| {
            self.give_up(state, fx);
        });
    }
}

/// A wait, as a future. Its result is `Err` if the deadline has passed.
///
/// With [`Patience::Thread`] the first poll blocks until the wait has ended: see [`now`].
#[must_use = "a future does nothing unless it is polled"]
pub(crate) struct Turn<'a, G: Guarded + ?Sized, W: Wait<G>> {
    owner: &'a G,
    /// Absent once the wait has ended.
    wait: Option<W>,
    patience: Patience,
}

impl<G: Guarded + ?Sized, W: Wait<G>> Future for Turn<'_, G, W> {
    type Output = Result<W::Outcome, W::GivenUp>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Turn { owner, wait: place, patience } = &mut *self;
        let wait = place.as_mut().expect("not polled after completion");
        if let Patience::Thread(deadline) = *patience {
            let outcome = block(*owner, wait, deadline);
            *place = None;
            return Poll::Ready(outcome);
        }
        // A waker is user code, so it is cloned before the lock is taken and dropped after its release. If the
        // clone panics, the panic reaches the caller of `poll`, and the wait is unchanged.
        let mut waker = Some(cx.waker().clone());
        let (outcome, former) = owner.critical(|state, fx| {
            let outcome = wait.take(state, fx);
            let former = match (&outcome, &mut waker) {
                (None, Some(_)) => mem::replace(wait.wake(state), Wake::Task(waker.take())),
                _ => Wake::Task(None),
            };
            (outcome, former)
        });
        drop_contained((former, waker));
        match outcome {
            Some(outcome) => {
                *place = None;
                Poll::Ready(Ok(outcome))
            }
            None => Poll::Pending,
        }
    }
}

impl<G: Guarded + ?Sized, W: Wait<G>> Drop for Turn<'_, G, W> {
    fn drop(&mut self) {
        if let Some(wait) = self.wait.take().filter(|_| !has_failed()) {
            wait.cancel(self.owner);
        }
    }
}

/// The calling thread sleeps until it has its outcome, or until the deadline.
fn block<G: Guarded + ?Sized, W: Wait<G>>(
    owner: &G,
    wait: &mut W,
    deadline: Deadline,
) -> Result<W::Outcome, W::GivenUp> {
    let Lock { state: lock, clock, .. } = owner.lock();
    let mut fx = owner.effects();
    let mut state = lock.lock();
    let outcome = loop {
        if let Some(outcome) = wait.take(&mut state, &mut fx) {
            break Ok(outcome);
        }
        if clock.has_passed(deadline) {
            break Err(wait.give_up(&mut state, &mut fx));
        }
        // The sleep releases the lock, so it ends a section: the wait may have joined a queue again, and have left what
        // is free to another waiter. That waiter's wake-up must not wait for this thread's.
        settle(owner, &mut state, &mut fx);
        if !G::is_empty(&fx) {
            drop(state);
            owner.run(&mut fx);
            state = lock.lock();
            continue;
        }
        let condvar = wait.wake(&mut state).thread().expect("a thread waits").clone();
        clock.wait(&condvar, &mut state, deadline);
    };
    end_section(owner, state, &mut fx);
    mem::forget(fx);
    outcome
}

/// Polls a future once. All its waits use [`Patience::Thread`] and block within the poll, so it is ready then.
// Always inlined: a call would copy the future, which was written just before. The copy waits for these writes.
#[inline(always)]
pub(crate) fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => unreachable!("a thread waits within the poll"),
    }
}

#[cfg(all(test, debug_assertions, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::asserts_all;

    #[test]
    fn a_large_state_is_looked_at_as_a_whole_in_one_of_many_sections() {
        let of = |entries| (0..640).filter(|&nth| asserts_all(entries, nth)).count();
        assert_eq!((of(0), of(32), of(33), of(100_000)), (640, 640, 10, 10));
    }
}
