//! The short way: what is in stock is lent, and comes back to a pool in which nobody waits.
//!
//! In a pool without keys and minimum, tests of what is idle and reports of abandoned loans this is nearly every
//! borrow and return, and all that there is to do is to move one resource between its slot and its borrower. So that
//! is done here by itself, in one section each; whatever is not that simple is left to `state.rs` and `stock.rs`, in
//! the same section: they do the same and everything else. The invariants are asserted here as there.
//!
//! Unless the oldest is lent first, the resource that came back last stays *at hand*, and is lent next: so most
//! returns and the borrows after them move one address, and change no link and no count. For everybody else it is
//! in stock: every section but these begins with putting it there ([`State::put_away`]), so that nobody who looks for
//! something misses it. That takes as long as a return did. Until then its slot says that it is lent.
//!
//! What goes from hand to hand is one address, in a register: a result of several words that also the general
//! way may give is kept in memory, and reading there as a whole what was just written in parts costs more than
//! all the rest. The same holds of tasks: what an await may need is kept in memory whether it comes to that or not, and
//! written before the next lock is taken. So what need not be awaited is done without (`Form::prepare_at_once`).

use super::due::Duty;
use super::error::{BorrowError, Declined};
use super::event::PoolEvent;
use super::factory::{Form, Handled};
use super::guard::{Borrowed, InPreparation, Loan, Reserved};
use super::options::Options;
use super::pool::{Inner, Patience, now};
use super::slot::{Content, Place};
use super::state::{Asker, State, Step};
use crate::clock::{Span, Time};
use crate::collections::slab_list::Key;
use crate::sync::MutexGuard;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

/// The key of a pool that has none.
pub(super) const THE_KEY: Key = Key::FIRST;

impl<F: Form> State<F> {
    /// Whether what comes back may just be kept. Looked at when a section ends that may have changed that: those
    /// of the short way change none of it.
    #[inline]
    pub(super) fn look_whether_kept(&mut self) {
        let too_many = self.total - self.leaving > self.limits.max_total;
        self.just_keep = self.plain && !self.closed && self.waiting == 0 && !too_many;
    }

    /// Whether there is a short way: by the options, and by the only limit on which that depends.
    pub(super) fn look_at_options(&mut self) {
        let Options { test_while_idle, abandoned_after, .. } = self.options;
        let listed = self.keyed || test_while_idle || abandoned_after.is_some();
        self.plain = !listed && self.limits.min_idle == 0;
    }

    /// What is at hand joins the others in stock, as the newest.
    #[inline]
    pub(super) fn put_away(&mut self) {
        if let Some(loan) = self.at_hand.take() {
            self.put_into_stock(loan);
        }
    }

    /// What is at hand, else the next one in stock, if it is finished.
    #[inline(always)] // What is done under the lock is done without a call, where nothing but this is done.
    fn just_lend(&mut self) -> Option<Box<Loan<F>>> {
        match &self.at_hand {
            Some(_) if self.timed && !self.is_fresh() => None,
            Some(_) => self.at_hand.take(),
            None => self.just_lend_from_stock(),
        }
    }

    /// Whether what is at hand may still be lent, in a pool that keeps times.
    fn is_fresh(&self) -> bool {
        self.clock.now() < self.fresh_until
    }

    #[inline(never)]
    fn just_lend_from_stock(&mut self) -> Option<Box<Loan<F>>> {
        let sub = &self.subs[THE_KEY.index()];
        let turn = self.waiting == 0 || !self.options.fair;
        if !self.plain || self.closed || !turn || sub.active >= self.limits.max_active {
            return None;
        }
        let slot = if self.options.fifo { sub.idle.front() } else { sub.idle.back() }?;
        let entry = &self.slots[slot.index()];
        if !matches!(entry.content, Content::Ready(_)) || self.timed && self.is_stale(slot) {
            return None;
        }
        let entry = &mut self.slots[slot.index()];
        let Content::Ready(loan) = entry.content.take() else { return None };
        entry.place = Place::Lent;
        let links = entry.idle.leave();
        let sub = &mut self.subs[THE_KEY.index()];
        sub.idle.close_gap(&mut self.slots, links);
        sub.active += 1;
        self.active += 1;
        self.idle -= 1;
        Some(loan)
    }

    /// Keeps what comes back at hand, and puts what was there into stock; if no more than that need be done.
    #[inline(always)] // As above.
    fn just_stock(&mut self, loan: Box<Loan<F>>) -> Result<(), Box<Loan<F>>> {
        let simple = self.just_keep
            && self.idle + usize::from(self.at_hand.is_some()) < self.limits.max_idle()
            // Else what is at hand would be lent beyond a limit that was lowered.
            && self.active <= self.limits.max_active
            && self.slots[loan.slot.index()].epoch == self.epoch
            && (!self.timed || self.stays_fresh(loan.slot));
        if !simple {
            return Err(loan);
        }
        let older = match self.options.fifo {
            true => Some(loan), // It is the last to be lent.
            false => self.at_hand.replace(loan),
        };
        if let Some(older) = older {
            self.put_into_stock(older);
        }
        Ok(())
    }

    /// From now on it is idle: whether it may be lent again for a while, and whoever has it leave when that is over
    /// wakes by then, or is awake for each look at what is idle, where that is done at intervals (`is_idle_due`).
    fn stays_fresh(&mut self, slot: Key) -> bool {
        let now = self.clock.now();
        self.slots[slot.index()].since = now;
        // If its life was found to be over while it was lent, this finds it, too.
        let life = self.ends_at(slot);
        let first = |one: Option<Time>| one.into_iter().chain(life).min().unwrap_or(Time::END);
        let after = |time: Option<Span>| time.map(|time| now.plus_span(time));
        self.fresh_until = first(after(self.max_idle_time));
        let leaves = || after(self.soft_max_idle_time.or(self.max_idle_time));
        let due = first(self.next_run(Duty::Sweep).or_else(leaves));
        now < self.fresh_until && self.wakes_by(Duty::Sweep, due, now)
    }

    #[inline(never)]
    fn put_into_stock(&mut self, loan: Box<Loan<F>>) {
        let slot = loan.slot;
        let entry = &mut self.slots[slot.index()];
        let sub = &mut self.subs[THE_KEY.index()];
        entry.place = Place::Idle;
        // Nothing was in it: so there is nothing to drop.
        std::mem::forget(std::mem::replace(&mut entry.content, Content::Ready(loan)));
        entry.idle = sub.idle.links_at_back();
        sub.idle.have_at_back(&mut self.slots, slot);
        sub.active -= 1;
        self.active -= 1;
        self.idle += 1;
    }
}

/// What comes by the general way.
type Slowly<'p, F> = Result<Borrowed<'p, F>, Declined<<F as Form>::Error>>;

impl<F: Form> Inner<F> {
    /// Lends without keys, to a thread.
    #[inline(always)] // Else its result is copied, see above.
    pub(super) fn borrow<'p>(
        &'p self,
        asker: Asker,
        timeout: Option<Duration>,
    ) -> Result<Borrowed<'p, F>, BorrowError<F::Error>> {
        let patience = Patience::of_a_thread(&self.clock, timeout);
        let mut state = self.state.lock();
        let Some(loan) = state.just_lend() else {
            return self.borrow_slowly(state, asker, patience).map_err(BorrowError::from);
        };
        state.end_short_section();
        drop(state);
        self.hand_over(THE_KEY, loan, patience)
    }

    #[inline(never)]
    fn borrow_slowly(
        &self,
        state: MutexGuard<'_, State<F>>,
        asker: Asker,
        patience: Patience,
    ) -> Slowly<'_, F> {
        let step = self.section(state, |state, fx| state.begin(THE_KEY, asker, fx));
        self.lend_now(THE_KEY, step, patience).map_err(Declined::of)
    }

    /// What the pool said, to a thread.
    #[inline]
    pub(super) fn lend_now(
        &self,
        key: Key,
        step: Step<F>,
        patience: Patience,
    ) -> Result<Borrowed<'_, F>, BorrowError<F::Error>> {
        match step {
            Step::Take(loan) => self.hand_over(key, loan, patience),
            step => self.lend_slowly(key, step, patience).map_err(BorrowError::from),
        }
    }

    #[inline(always)] // As above.
    fn hand_over(
        &self,
        key: Key,
        mut loan: Box<Loan<F>>,
        patience: Patience,
    ) -> Result<Borrowed<'_, F>, BorrowError<F::Error>> {
        match now(F::prepare(self, &mut loan)) {
            Ok(()) => {
                self.begin_loan(loan.slot, false);
                Ok(Borrowed::new(self, loan))
            }
            Err(event) => {
                self.borrow_another(key, loan, event, patience).map_err(BorrowError::from)
            }
        }
    }

    #[cold]
    fn borrow_another(
        &self,
        key: Key,
        loan: Box<Loan<F>>,
        event: PoolEvent<F::Error>,
        patience: Patience,
    ) -> Slowly<'_, F> {
        let step = self.another_after(loan, event, &patience);
        self.lend_slowly(key, step, patience)
    }

    /// One that could not be lent is told of, and another taken in its place.
    #[cold]
    fn another_after(
        &self,
        loan: Box<Loan<F>>,
        event: PoolEvent<F::Error>,
        patience: &Patience,
    ) -> Step<F> {
        let reserved = Reserved::of(self, loan);
        self.tell(reserved.meta(), event);
        self.another(reserved, patience)
    }

    #[cold]
    fn lend_slowly(&self, key: Key, step: Step<F>, patience: Patience) -> Slowly<'_, F> {
        now(self.lend(key, step, patience)).map_err(Declined::of)
    }

    /// Lends without keys, to a task.
    #[inline]
    pub(super) async fn borrow_async<'p>(
        &'p self,
        asker: Asker,
    ) -> Result<Borrowed<'p, F>, BorrowError<F::Error>> {
        let step = match self.borrow_at_once(asker) {
            Ok(borrowed) => return Ok(borrowed),
            Err(NotAtOnce::Step(step)) => step,
            Err(NotAtOnce::Prepare(loan)) => {
                let mut preparing = InPreparation::of(self, loan);
                let prepared = F::prepare(self, preparing.loan_mut()).await;
                let loan = preparing.take();
                match prepared {
                    Ok(()) => return Ok(Borrowed::new(self, loan)),
                    Err(event) => self.another_after(loan, event, &Patience::of_a_task()),
                }
            }
        };
        let mut slow = pin!(self.lend(THE_KEY, step, Patience::of_a_task()));
        poll_fn(|cx| poll_slowly(slow.as_mut(), cx)).await
    }

    /// Without an await: else even what comes to none is kept for it in memory.
    #[inline(always)] // As above.
    fn borrow_at_once(&self, asker: Asker) -> Result<Borrowed<'_, F>, NotAtOnce<F>> {
        let mut state = self.state.lock();
        let Some(mut loan) = state.just_lend() else {
            return Err(NotAtOnce::Step(self.ask_slowly(state, asker)));
        };
        state.end_short_section();
        drop(state);
        match F::prepare_at_once(self, &mut loan) {
            Handled::Yes => Ok(Borrowed::new(self, loan)),
            Handled::NotYet => Err(NotAtOnce::Prepare(loan)),
            Handled::No(event) => {
                let step = self.another_after(loan, event, &Patience::of_a_task());
                Err(NotAtOnce::Step(step))
            }
        }
    }

    #[inline(never)]
    fn ask_slowly(&self, state: MutexGuard<'_, State<F>>, asker: Asker) -> Step<F> {
        self.section(state, |state, fx| state.begin(THE_KEY, asker, fx))
    }

    /// Takes back what is clean, or will be made so by its next borrower.
    #[inline]
    pub(super) fn stock(&self, loan: Box<Loan<F>>) {
        let mut state = self.state.lock();
        match state.just_stock(loan) {
            Ok(()) => state.end_short_section(),
            Err(loan) => self.stock_slowly(state, loan),
        }
    }

    #[inline(never)]
    fn stock_slowly(&self, state: MutexGuard<'_, State<F>>, loan: Box<Loan<F>>) {
        self.section(state, |state, fx| state.give_back(loan.slot, Content::Ready(loan), fx));
    }
}

/// What a task has to await.
enum NotAtOnce<F: Form> {
    /// It is the task's, and has to be made ready for it.
    Prepare(Box<Loan<F>>),
    Step(Step<F>),
}

/// Keeps what is seldom polled out of what is polled each time, which is small enough for its caller then.
#[cold]
#[inline(never)]
fn poll_slowly<T>(future: Pin<&mut impl Future<Output = T>>, cx: &mut Context<'_>) -> Poll<T> {
    future.poll(cx)
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::super::{Limit, ResourceFactory, ResourcePool, ResourcePoolBuilder};
    use super::*;
    use crate::ManualClock;

    struct Made;
    impl ResourceFactory for Made {
        type Resource = ();
        type Metadata = ();
        type Error = ();
        fn create(&self, (): &()) -> Result<(), ()> {
            Ok(())
        }
    }
    type Building = ResourcePoolBuilder<Made, ResourcePool<Made>>;

    const HOUR: Duration = Duration::from_secs(3600);

    /// What comes of the short way where something has come back.
    #[derive(Debug, PartialEq, Eq)]
    struct Goes {
        at_hand: bool,
        kept: bool,
        from_stock: bool,
    }

    fn goes(configure: fn(Building) -> Building) -> Goes {
        let builder = ResourcePool::builder(Made, ()).maintenance(false).max_total(1);
        let pool = configure(builder).build().expect("valid");
        // Of the first what is due is told.
        (0..2).for_each(|_| drop(pool.borrow().expect("made")));
        let mut state = pool.inner().state.lock();
        let at_hand = state.at_hand.is_some();
        let kept = state.just_lend().is_some_and(|loan| state.just_stock(loan).is_ok());
        state.put_away();
        Goes { at_hand, kept, from_stock: state.just_lend().is_some() }
    }

    /// Else all would come to the same, by the long way.
    #[test]
    fn it_is_taken_where_it_can_be() {
        let short: [fn(Building) -> Building; 7] = [
            |b| b,
            |b| b.fair(false),
            |b| b.max_active(Limit::None),
            |b| b.test_on_borrow(true).test_on_return(true),
            |b| b.max_idle_time(HOUR),
            |b| b.soft_max_idle_time(HOUR).max_lifetime(HOUR).eviction_interval(HOUR),
            |b| b.max_idle_time(HOUR / 60).eviction_interval(HOUR),
        ];
        for (number, configure) in short.into_iter().enumerate() {
            let expected = Goes { at_hand: true, kept: true, from_stock: true };
            assert_eq!(goes(configure), expected, "number {number}");
        }
        // The oldest is lent first, so none is kept at hand.
        let expected = Goes { at_hand: false, kept: true, from_stock: true };
        assert_eq!(goes(|b| b.fifo(true)), expected);
        assert_eq!(goes(|b| b.fifo(true).max_idle_time(HOUR)), expected);

        let long: [fn(Building) -> Building; 3] = [
            |b| b.min_idle(1),
            |b| b.test_while_idle(true).eviction_interval(HOUR),
            |b| b.abandoned_after(HOUR),
        ];
        for (number, configure) in long.into_iter().enumerate() {
            let expected = Goes { at_hand: false, kept: false, from_stock: false };
            assert_eq!(goes(configure), expected, "number {number}");
        }
    }

    /// A pass that finds everything lent sleeps until the first life ends. Where idle ones are looked at at
    /// intervals, whoever looks is then told of the next look by what comes back, though nothing is due by then.
    #[test]
    fn a_look_at_what_is_idle_is_told_of() {
        let (clock, sweep) = (ManualClock::new(), Duty::Sweep as usize);
        let builder = ResourcePool::builder(Made, ()).maintenance(false).clock(clock.clock());
        let builder = builder.max_lifetime(HOUR).max_idle_time(HOUR / 4);
        let pool = builder.eviction_interval(HOUR / 60).build().expect("valid");
        let lent = pool.borrow().expect("made");
        clock.advance(HOUR * 9 / 10);
        let told = || {
            let state = pool.inner().state.lock();
            let looks = state.next_run(Duty::Sweep).expect("at intervals");
            state.sleeps_until[sweep].is_some_and(|until| until <= looks)
        };
        pool.inner().critical(|state, fx| {
            while state.sweep(&mut None, fx) {}
            state.sleeps_until[sweep] = state.next_due(Duty::Sweep);
        });
        assert!(!told());
        drop(lent);
        assert!(told());
    }
}
