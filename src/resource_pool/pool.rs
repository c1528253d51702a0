//! What all handles share, and how a borrower gets from its question to its resource.
//!
//! One asynchronous procedure serves threads and tasks, and both forms of a factory: a thread polls it
//! once, for with a synchronous factory nothing in it is ever pending but the wait, and a thread waits
//! within that one poll.

use super::effects::{Dead, Effects};
use super::error::BorrowError;
use super::event::PoolEvent;
use super::factory::{Creation, Failure, Form, Handled};
use super::guard::{Borrowed, Loan, Reserved};
use super::maintenance::Maintenance;
use super::making::{Begun, Making};
use super::options::Options;
use super::slot::{Content, Meta};
use super::state::{Asker, Outcome, Refusal, State, Step};
use crate::clock::{Clock, ClockListener, Deadline};
use crate::collections::slab_list::Key;
use crate::collections::wait_queue::Queue;
use crate::sync::{Mutex, MutexGuard, has_failed};
use crate::user_code::{UserValue, contain, drop_contained};
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

pub(crate) type Listener<F> =
    Box<dyn Fn(&<F as Form>::Metadata, &PoolEvent<<F as Form>::Error>) + Send + Sync>;

/// The pool.
pub(crate) struct Inner<F: Form> {
    pub(super) factory: Arc<UserValue<F>>,
    pub(super) state: Mutex<State<F>>,
    pub(super) clock: Clock,
    pub(super) options: Options,
    pub(super) listener: Option<UserValue<Listener<F>>>,
    pub(super) hasher: foldhash::fast::RandomState,
    pub(super) maintenance: OnceLock<Maintenance>,
    /// For a loan that outlives the reference it was borrowed by.
    pub(super) me: Weak<Self>,
}

impl<F: Form> Inner<F> {
    /// Runs `section` under the lock, asserts every invariant, releases the lock, and carries out
    /// what the section left to be done.
    #[inline]
    pub(crate) fn critical<R>(
        &self,
        section: impl FnOnce(&mut State<F>, &mut Effects<F>) -> R,
    ) -> R {
        self.section(self.state.lock(), section)
    }

    /// Takes the lock, for who looks at what there is: everything is in its place.
    #[inline]
    pub(super) fn lock(&self) -> MutexGuard<'_, State<F>> {
        let mut state = self.state.lock();
        state.put_away();
        state
    }

    /// The same, when it has been locked already.
    #[inline]
    pub(super) fn section<R>(
        &self,
        mut state: MutexGuard<'_, State<F>>,
        section: impl FnOnce(&mut State<F>, &mut Effects<F>) -> R,
    ) -> R {
        state.put_away();
        let mut fx = Effects::new();
        let result = section(&mut state, &mut fx);
        state.watch_line(&mut fx);
        state.end_section();
        // Where it can be had: one that could not be begun is told again.
        #[cfg(debug_assertions)]
        if self.maintenance.get().is_none() {
            assert!(state.has_told_what_is_due(), "something is due, and nobody was told");
        }
        drop(state);
        fx.run(self);
        std::mem::forget(fx);
        result
    }

    pub(super) fn tell(&self, meta: &Meta<F>, event: PoolEvent<F::Error>) {
        if let Some(listener) = &self.listener {
            let _ = contain(|| listener(meta, &event));
        }
        drop_contained(event);
    }

    /// Destroys a resource.
    pub(super) fn dispose(&self, meta: &Meta<F>, resource: F::Resource) {
        if let Err(message) = contain(|| self.factory.dispose(meta, resource)) {
            self.tell(meta, PoolEvent::DestroyPanicked(message));
        }
    }

    pub(super) fn destroy(&self, dead: Dead<F>) {
        match dead.content {
            Content::Ready(loan) => self.dispose(&dead.meta, loan.resource),
            Content::Unfinished(creation) => drop_contained(creation),
            Content::Nothing => {}
        }
        if let Some(slot) = dead.slot {
            self.critical(|state, fx| state.destroyed(slot, fx));
        }
    }

    /// A guard is dropped.
    #[inline]
    pub(super) fn give_back(&self, mut loan: Box<Loan<F>>) {
        self.has_come_back(loan.slot);
        let test = self.options.test_on_return;
        let Loan { meta, resource, .. } = &mut *loan;
        loan.unclean = match self.factory.clean(meta, resource, test) {
            Handled::Yes => false,
            Handled::NotYet => true,
            Handled::No(event) => {
                self.tell(meta, event);
                return self.invalidate(loan);
            }
        };
        self.stock(loan);
    }

    /// The borrower has done its part: what the factory does from now on is not its time, as what it did before the
    /// loan was not.
    #[inline]
    fn has_come_back(&self, slot: Key) {
        if self.options.abandoned_after.is_some() {
            self.note_return(slot);
        }
    }
    #[cold]
    #[inline(never)]
    fn note_return(&self, slot: Key) {
        self.critical(|state, _| state.end_borrowers_time(slot));
    }

    /// Another in the place of one that could not be lent, if there is time left.
    #[cold]
    pub(super) fn another(&self, mut reserved: Reserved<'_, F>, patience: &Patience) -> Step<F> {
        reserved.discard();
        if self.clock.has_passed(patience.deadline) {
            return Step::Refused(Refusal::TooLate);
        }
        let slot = reserved.into_slot();
        self.critical(|state, fx| state.another(slot, fx))
    }

    pub(super) fn invalidate(&self, loan: Box<Loan<F>>) {
        self.critical(|state, fx| state.invalidate(loan.slot, Content::Ready(loan), fx));
    }

    pub(super) async fn put_back(&self, loan: Box<Loan<F>>) {
        self.has_come_back(loan.slot);
        let mut reserved = Reserved::of(self, loan);
        // If it fails, the reservation destroys it.
        if self.cleaned(&mut reserved).await {
            let mut loan = reserved.loan();
            loan.unclean = false;
            self.critical(|state, fx| state.give_back(loan.slot, Content::Ready(loan), fx));
        }
    }

    /// What a return comes with: test, then passivation.
    async fn cleaned(&self, reserved: &mut Reserved<'_, F>) -> bool {
        if self.options.test_on_return && !self.tested(reserved, Stocked::Yes).await {
            return false;
        }
        let (metadata, resource) = reserved.parts();
        let passivated = self.factory.lay_down(metadata, resource).await;
        self.told(reserved.meta(), passivated, PoolEvent::PassivateFailed)
    }

    /// Whether it passes its test. That what was made for its borrower does not is that borrower's error, and
    /// told to nobody else; what a panic said is.
    async fn tested(&self, reserved: &mut Reserved<'_, F>, stocked: Stocked) -> bool {
        let (metadata, resource) = reserved.parts();
        match self.factory.test(metadata, resource).await {
            Ok(true) => true,
            Ok(false) => {
                if stocked == Stocked::Yes {
                    self.tell(reserved.meta(), PoolEvent::Invalid);
                }
                false
            }
            Err(message) => {
                self.tell(reserved.meta(), PoolEvent::ValidatePanicked(message));
                false
            }
        }
    }

    fn told(
        &self,
        meta: &Meta<F>,
        result: Result<(), Failure<F::Error>>,
        event: impl FnOnce(Failure<F::Error>) -> PoolEvent<F::Error>,
    ) -> bool {
        match result {
            Ok(()) => true,
            Err(failure) => {
                self.tell(meta, event(failure));
                false
            }
        }
    }

    /// What a loan comes with: activation, then test.
    #[inline]
    pub(super) async fn prepared(&self, reserved: &mut Reserved<'_, F>) -> bool {
        match F::prepare(self, reserved.loan_mut()).await {
            Ok(()) => true,
            Err(event) => {
                self.tell(reserved.meta(), event);
                false
            }
        }
    }

    /// From what the pool said to the resource. Who has been served keeps its turn: if a resource
    /// fails, it gets the next one in stock, and in the end one that is made for it.
    pub(super) async fn lend<'p>(
        &'p self,
        key: Key,
        mut step: Step<F>,
        patience: Patience,
    ) -> Result<Borrowed<'p, F>, BorrowError<F::Error>> {
        loop {
            let failed = match step {
                Step::Refused(refusal) => return Err(refusal.into()),
                Step::Wait(waiter) => {
                    step = Turn { pool: self, key, waiter: Some(waiter), patience: &patience }
                        .await
                        .ok_or(BorrowError::TimedOut)?;
                    continue;
                }
                Step::Take(loan) => {
                    let mut reserved = Reserved::of(self, loan);
                    if self.prepared(&mut reserved).await {
                        return Ok(self.hand_out(&mut reserved, false));
                    }
                    reserved
                }
                Step::Complete { slot, creation, meta, first } => {
                    let reserved = Reserved::new(self, slot, meta);
                    let (mut reserved, made) =
                        Making::new(reserved, creation, Begun::ByAnother).await;
                    match made {
                        Ok(resource) => reserved.made(resource),
                        Err(failure) => {
                            // Not this borrower's failure: it makes one itself.
                            self.tell(reserved.meta(), PoolEvent::CreateFailed(failure));
                            let slot = reserved.into_slot();
                            step = self.critical(|state, fx| state.anew(slot, fx));
                            continue;
                        }
                    }
                    if self.completed(&mut reserved).await {
                        return Ok(self.hand_out(&mut reserved, first));
                    }
                    reserved
                }
                Step::Create { slot, victim, meta, first } => {
                    let reserved = Reserved::new(self, slot, meta);
                    if let Some(victim) = victim {
                        self.destroy(victim);
                    }
                    self.begins(slot);
                    return self.make(reserved, first).await;
                }
            };
            step = self.another(failed, &patience);
        }
    }

    /// The borrower's from now on; `first` if it is the first of its key that was made.
    #[inline]
    fn hand_out<'p>(&self, reserved: &mut Reserved<'p, F>, first: bool) -> Borrowed<'p, F> {
        self.begin_loan(reserved.loan_mut().slot, first);
        reserved.lend()
    }
    #[inline]
    pub(super) fn begin_loan(&self, slot: Key, first: bool) {
        if first || self.options.abandoned_after.is_some() {
            self.note_loan(slot, first);
        }
    }
    #[cold]
    #[inline(never)]
    fn note_loan(&self, slot: Key, first: bool) {
        self.critical(|state, fx| {
            if first {
                state.was_made(slot, fx);
            }
            state.begin_loan(slot, fx);
        });
    }

    async fn make<'p>(
        &'p self,
        reserved: Reserved<'p, F>,
        first: bool,
    ) -> Result<Borrowed<'p, F>, BorrowError<F::Error>> {
        let creation = self.creation(reserved.meta());
        let (mut reserved, made) = Making::new(reserved, creation, Begun::Here).await;
        reserved.made(made.map_err(BorrowError::Create)?);
        if self.options.test_on_create && !self.tested(&mut reserved, Stocked::No).await {
            return Err(BorrowError::Invalid);
        }
        let (metadata, resource) = reserved.parts();
        self.factory.wake_up(metadata, resource).await.map_err(BorrowError::Activate)?;
        Ok(self.hand_out(&mut reserved, first))
    }

    /// What another had begun is stock, and prepared as such, once it has passed the test of what is new.
    async fn completed(&self, reserved: &mut Reserved<'_, F>) -> bool {
        let test = self.options.test_on_create;
        let passed = !test || self.tested(reserved, Stocked::Yes).await;
        passed && self.prepared(reserved).await
    }

    /// Ahead of a creation. What keeps no times has nothing to note.
    pub(super) fn begins(&self, slot: Key) {
        if self.options.keep_times() {
            self.critical(|state, _| state.begins(slot));
        }
    }
    pub(super) fn creation(&self, meta: &Meta<F>) -> Creation<F> {
        F::creation(self.factory.clone(), meta.clone())
    }

    pub(super) fn close(&self) {
        self.critical(|state, fx| state.close(fx));
    }

    /// Waits until a closed pool has nothing left.
    pub(super) fn wait_closed(&self, deadline: Deadline) -> bool {
        let mut state = self.lock();
        if state.is_over() {
            return true;
        }
        let State { waiters, closing, .. } = &mut *state;
        let waiter = waiters.enqueue_thread(closing);
        let condvar = state.waiters.condvar(waiter);
        loop {
            if state.waiters.take(waiter).is_some() {
                return true;
            }
            if self.clock.has_passed(deadline) {
                let State { waiters, closing, .. } = &mut *state;
                waiters.cancel(closing, waiter);
                return false;
            }
            self.clock.wait(&condvar, &mut state, deadline);
        }
    }

    /// A thread waits for its turn; none: in vain.
    fn wait(&self, key: Key, waiter: Key, deadline: Deadline) -> Option<Step<F>> {
        let mut fx = Effects::new();
        let step = {
            let mut state = self.state.lock();
            let condvar = state.waiters.condvar(waiter);
            let step = loop {
                state.put_away();
                if let Some(step) = state.turn(key, waiter, Asker::Thread, &mut fx) {
                    break Some(step);
                }
                if self.clock.has_passed(deadline) {
                    state.give_up(key, waiter, &mut fx);
                    break None;
                }
                self.clock.wait(&condvar, &mut state, deadline);
            };
            state.watch_line(&mut fx);
            state.end_section();
            step
        };
        fx.run(self);
        std::mem::forget(fx);
        step
    }
}

impl<F: Form> State<F> {
    /// What every critical section ends with.
    #[inline]
    pub(super) fn end_section(&mut self) {
        self.look_whether_kept();
        debug_assert!(self.at_hand.is_none(), "it was put away when the section began");
        self.end_short_section();
    }
    /// The same of the short way.
    #[inline]
    pub(super) fn end_short_section(&mut self) {
        #[cfg(debug_assertions)]
        self.assert_invariants();
    }

    /// Whether the waiter has come to its turn, and what it then meets.
    fn turn(
        &mut self,
        key: Key,
        waiter: Key,
        asker: Asker,
        fx: &mut Effects<F>,
    ) -> Option<Step<F>> {
        let ticket = self.waiters.ticket(waiter);
        Some(match self.waiters.take(waiter)? {
            // It comes for it after the close: nothing is made or lent by then.
            Outcome::Granted(grant) if self.closed => {
                self.return_grant(grant, fx);
                Step::Refused(Refusal::Closed)
            }
            Outcome::Granted(grant) => self.come_for(grant, fx),
            Outcome::Retry => self.retry(key, ticket, asker, fx),
            Outcome::Closed => Step::Refused(Refusal::Closed),
        })
    }
}

impl<F: Form> ClockListener for Inner<F> {
    fn advanced(&self) {
        // Under the lock: a thread that has looked at the clock and not yet gone to sleep holds it. (No clock but
        // one that is moved by hand does this.)
        let threads = self.state.lock().waiters.threads();
        for condvar in threads {
            condvar.notify_one();
        }
    }
}

/// Nobody has the pool any more, and a future that was forgotten cannot come for what it was served: that is
/// destroyed, and its panics are contained, as those of anything that leaves.
impl<F: Form> Drop for Inner<F> {
    fn drop(&mut self) {
        if has_failed() {
            return;
        }
        let state = self.state.get_mut();
        debug_assert!(state.at_hand.is_none(), "it was put away when the pool was closed");
        let slots = std::mem::take(&mut state.slots);
        let left = slots.into_iter().map(|(_, slot)| {
            let meta = state.subs[slot.key.index()].metadata.clone();
            Dead { slot: None, content: slot.content, meta }
        });
        let left: Vec<_> = left.collect();
        let wakers = state.waiters.take_wakers();
        left.into_iter().for_each(|dead| self.destroy(dead));
        wakers.into_iter().for_each(drop_contained);
    }
}

/// Whether a resource is out of stock, or made for the borrower that has it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stocked {
    Yes,
    No,
}

/// Who waits, and until when.
pub(crate) struct Patience {
    is_thread: bool,
    deadline: Deadline,
}

impl Patience {
    /// The time begins with the call: also that of tests that fail is the borrower's.
    #[inline]
    pub(super) fn of_a_thread(clock: &Clock, timeout: Option<Duration>) -> Self {
        let deadline = timeout.map_or(Deadline::Never, |timeout| clock.deadline(timeout));
        Patience { is_thread: true, deadline }
    }
    #[inline]
    pub(super) fn of_a_task() -> Self {
        Patience { is_thread: false, deadline: Deadline::Never }
    }
}

/// A place in the queue. None: the time is up.
struct Turn<'a, F: Form> {
    pool: &'a Inner<F>,
    key: Key,
    /// Absent once the outcome has been taken.
    waiter: Option<Key>,
    patience: &'a Patience,
}

impl<F: Form> Future for Turn<'_, F> {
    type Output = Option<Step<F>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Step<F>>> {
        let mut waiter = self.waiter.expect("not polled after completion");
        let key = self.key;
        if self.patience.is_thread {
            self.waiter = None;
            let pool = self.pool;
            return Poll::Ready(pool.wait(key, waiter, self.patience.deadline));
        }
        // Cloned before the lock and dropped after it: both are foreign code.
        let mut waker = Some(cx.waker().clone());
        let (step, former) = self.pool.critical(|state, fx| {
            let step = match state.turn(key, waiter, Asker::Task, fx) {
                Some(Step::Wait(again)) => {
                    waiter = again;
                    None
                }
                step => step,
            };
            let former = match (&step, waker.take_if(|_| step.is_none())) {
                (None, Some(waker)) => state.waiters.set_waker(waiter, waker),
                _ => None,
            };
            (step, former)
        });
        drop_contained(former);
        drop_contained(waker);
        self.waiter = step.is_none().then_some(waiter);
        match step {
            Some(step) => Poll::Ready(Some(step)),
            None => Poll::Pending,
        }
    }
}

impl<F: Form> Drop for Turn<'_, F> {
    fn drop(&mut self) {
        if let Some(waiter) = self.waiter.take().filter(|_| !has_failed()) {
            self.pool.critical(|state, fx| state.give_up(self.key, waiter, fx));
        }
    }
}

/// What a future comes to that is never pending.
#[inline]
pub(super) fn now<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => unreachable!("a synchronous factory is never pending"),
    }
}

/// A task waits until a closed pool has nothing left.
pub(super) struct Closing<'a, F: Form> {
    pub(super) pool: &'a Inner<F>,
    pub(super) waiter: Option<Key>,
}

impl<F: Form> Future for Closing<'_, F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut waker = Some(cx.waker().clone());
        let waiter = self.waiter;
        let (waits, former) = self.pool.critical(|state, _| {
            let waiter = match waiter {
                Some(waiter) if state.waiters.take(waiter).is_some() => return (None, None),
                Some(waiter) => waiter,
                None if state.is_over() => return (None, None),
                None => state.waiters.enqueue_task(&mut state.closing),
            };
            let waker = waker.take().expect("taken only here");
            (Some(waiter), state.waiters.set_waker(waiter, waker))
        });
        drop_contained(former);
        drop_contained(waker);
        self.waiter = waits;
        if waits.is_some() { Poll::Pending } else { Poll::Ready(()) }
    }
}

impl<F: Form> Drop for Closing<'_, F> {
    fn drop(&mut self) {
        if let Some(waiter) = self.waiter.take().filter(|_| !has_failed()) {
            let left = self.pool.critical(|state, _| {
                let queue: &mut Queue = &mut state.closing;
                state.waiters.cancel(queue, waiter)
            });
            drop_contained(left.1);
        }
    }
}
