//! The pool's shared state, and how a call to borrow becomes a resource.
//!
//! One asynchronous procedure serves threads and tasks, and both forms of a factory. A thread polls it once:
//! with a blocking factory only the wait for a turn could be pending, and a thread sleeps within the poll.

use super::creation::{Begun, InCreation};
use super::effects::{Dead, Effects};
use super::error::{BorrowError, Denied, Refusal};
use super::event::Event;
use super::factory::{Creation, Form};
use super::guard::{Loan, Reserved};
use super::keys::Select;
use super::maintenance::Maintenance;
use super::options::Options;
use super::slot::{Content, Meta};
use super::state::{State, Step, ToCreate};
use super::waiting::deadline;
use crate::clock::{Clock, ClockListener};
use crate::collections::slab_list::Key;
use crate::handle::Close;
#[cfg(any(test, debug_assertions))]
use crate::section::Invariant;
use crate::section::{Guarded, Lock, Patience, now};
use crate::sync::has_failed;
use crate::user_code::{UserValue, contain, drop_contained};
use std::sync::{Arc, OnceLock, Weak};

pub(crate) type Listener<F> =
    Box<dyn Fn(&<F as Form>::Metadata, &Event<<F as Form>::Error>) + Send + Sync>;

/// The pool.
pub(crate) struct Inner<F: Form> {
    pub(super) factory: Arc<UserValue<F>>,
    pub(super) state: Lock<State<F>>,
    pub(super) options: Options,
    pub(super) listener: Option<UserValue<Listener<F>>>,
    pub(super) hasher: foldhash::fast::RandomState,
    pub(super) maintenance: OnceLock<Maintenance>,
    /// For a loan that outlives the reference it was borrowed by.
    pub(super) me: Weak<Self>,
}

impl<F: Form> Guarded for Inner<F> {
    type State = State<F>;
    type Effects = Effects<F>;
    #[cfg(any(test, debug_assertions))]
    const INVARIANTS: &'static [Invariant<State<F>>] = State::<F>::INVARIANTS;

    #[inline]
    fn lock(&self) -> &Lock<State<F>> {
        &self.state
    }
    #[inline]
    fn effects(&self) -> Effects<F> {
        Effects::new()
    }
    #[inline]
    fn settle(&self, state: &mut State<F>, fx: &mut Effects<F>) {
        state.watch_line(fx);
        // With maintenance, a signal that failed is sent again later.
        #[cfg(debug_assertions)]
        {
            let told = self.maintenance.get().is_some() || state.maintenance_knows_due_times();
            assert!(told, "the maintenance sleeps past a due time");
            assert!(state.below_minimum_is_known(), "a key below its minimum is not known");
        }
    }
    #[inline]
    fn run(&self, fx: &mut Effects<F>) {
        if !fx.is_empty() {
            fx.run(self);
        }
    }
}

impl<F: Form> Inner<F> {
    #[inline]
    pub(super) fn clock(&self) -> &Clock {
        self.state.clock()
    }

    /// Calls the listener.
    pub(super) fn report(&self, meta: &Meta<F>, event: Event<F::Error>) {
        if let Some(listener) = &self.listener {
            let _ = contain(|| listener(meta, &event));
        }
        drop_contained(event);
    }

    pub(super) fn dispose(&self, meta: &Meta<F>, resource: F::Resource) {
        if let Err(message) = contain(|| self.factory.destroy(meta, resource)) {
            self.report(meta, Event::DestroyPanicked(message));
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

    /// Borrows a resource of the selected key.
    ///
    /// A borrower that was served keeps its turn: if its resource fails, it gets the next idle one, and in the end a
    /// new one.
    #[inline]
    pub(super) async fn borrow(
        &self,
        key: impl Select<F>,
        patience: &Patience,
    ) -> Result<Box<Loan<F>>, Denied<F::Error>> {
        let mut step = key.select(self, |state, key, fx| state.begin(key, patience, fx));
        loop {
            let (mut reserved, first) = match step {
                Step::Take(loan) => (Reserved::of(self, loan), false),
                Step::Refused(refusal) => return Err(Denied::Refused(refusal)),
                Step::Wait(wait) => {
                    step = match self.turn(wait, *patience).await {
                        Ok(step) => step,
                        Err(()) => Step::Refused(Refusal::TooLate),
                    };
                    continue;
                }
                Step::Create(order) => {
                    let ToCreate { slot, meta, first, left, victim } = *order;
                    let reserved = Reserved::new(self, slot, meta);
                    let Some(creation) = left else {
                        if let Some(victim) = victim {
                            self.destroy(victim);
                        }
                        self.begin_creation_time(slot);
                        return self.make(reserved, first).await.map_err(Denied::failed);
                    };
                    match self.complete(reserved, creation, patience).await {
                        Ok(reserved) => (reserved, first),
                        Err(next) => {
                            step = next;
                            continue;
                        }
                    }
                }
            };
            match self.prepare(reserved.loan_mut()).await {
                Ok(()) => return Ok(self.hand_out(&mut reserved, first)),
                Err(event) => step = self.another(reserved, *event, patience),
            }
        }
    }

    /// Begins the loan; `first` if no other resource of its key was created before.
    #[inline]
    fn hand_out(&self, reserved: &mut Reserved<'_, F>, first: bool) -> Box<Loan<F>> {
        let loan = reserved.loan();
        if first || self.options.abandoned_after.is_some() {
            self.begin_loan(loan.slot, first);
        }
        loan
    }
    #[cold]
    fn begin_loan(&self, slot: Key, first: bool) {
        self.critical(|state, fx| {
            if first {
                state.note_first_created(slot, fx);
            }
            state.begin_loan(slot, fx);
        });
    }

    /// Reports that a resource could not be lent, destroys it, and gets another one if time is left.
    #[cold]
    fn another(
        &self,
        mut reserved: Reserved<'_, F>,
        event: Event<F::Error>,
        patience: &Patience,
    ) -> Step<F> {
        self.report(reserved.meta(), event);
        reserved.discard();
        if self.clock().has_passed(deadline(*patience)) {
            return Step::Refused(Refusal::TooLate);
        }
        let slot = reserved.into_slot();
        self.critical(|state, fx| state.another(slot, fx))
    }

    /// Creates a resource for its borrower.
    async fn make(
        &self,
        reserved: Reserved<'_, F>,
        first: bool,
    ) -> Result<Box<Loan<F>>, BorrowError<F::Error>> {
        let creation = self.creation(reserved.meta());
        let (mut reserved, made) = InCreation::new(reserved, creation, Begun::Here).await;
        let loan = reserved.made(made.map_err(BorrowError::Create)?);
        if self.options.test_on_create {
            if let Err(event) = self.test(loan).await {
                // The borrower's own error. It has no room for the message of a panic.
                if !matches!(*event, Event::Invalid) {
                    self.report(reserved.meta(), *event);
                }
                return Err(BorrowError::Invalid);
            }
        }
        let Loan { meta, resource, .. } = loan;
        self.factory.activate(meta, resource).await.map_err(BorrowError::Activate)?;
        Ok(self.hand_out(&mut reserved, first))
    }

    /// Completes a creation that another caller left. If it fails, that is not this borrower's error.
    async fn complete<'p>(
        &'p self,
        reserved: Reserved<'p, F>,
        creation: Creation<F>,
        patience: &Patience,
    ) -> Result<Reserved<'p, F>, Step<F>> {
        let (mut reserved, made) = InCreation::new(reserved, creation, Begun::ByOther).await;
        match made {
            Err(failure) => {
                self.report(reserved.meta(), Event::CreateFailed(failure));
                let slot = reserved.into_slot();
                Err(self.critical(|state, fx| state.recreate(slot, fx)))
            }
            Ok(resource) => {
                let loan = reserved.made(resource);
                if self.options.test_on_create {
                    if let Err(event) = self.test(loan).await {
                        return Err(self.another(reserved, *event, patience));
                    }
                }
                Ok(reserved)
            }
        }
    }

    /// Prepares an idle resource for its borrower: completes its return, activates it, and tests it.
    #[inline]
    async fn prepare(&self, loan: &mut Loan<F>) -> Result<(), Box<Event<F::Error>>> {
        if loan.unclean {
            self.clean(loan).await?;
        }
        let Loan { meta, resource, .. } = loan;
        self.factory
            .activate(meta, resource)
            .await
            .map_err(|why| Box::new(Event::ActivateFailed(why)))?;
        if self.options.test_on_borrow {
            self.test(loan).await?;
        }
        Ok(())
    }

    /// Tests and passivates a resource that its borrower returned.
    #[inline]
    async fn clean(&self, loan: &mut Loan<F>) -> Result<(), Box<Event<F::Error>>> {
        if self.options.test_on_return {
            self.test(loan).await?;
        }
        let Loan { meta, resource, .. } = loan;
        self.factory
            .passivate(meta, resource)
            .await
            .map_err(|why| Box::new(Event::PassivateFailed(why)))?;
        loan.unclean = false;
        Ok(())
    }

    pub(super) async fn test(&self, loan: &mut Loan<F>) -> Result<(), Box<Event<F::Error>>> {
        match self.factory.validate(&loan.meta, &mut loan.resource).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(Box::new(Event::Invalid)),
            Err(message) => Err(Box::new(Event::ValidatePanicked(message))),
        }
    }

    /// Notes the time of a creation that is about to begin, if the pool keeps times.
    pub(super) fn begin_creation_time(&self, slot: Key) {
        if self.options.keep_times() {
            self.critical(|state, _| state.begin_creation_time(slot));
        }
    }
    pub(super) fn creation(&self, meta: &Meta<F>) -> Creation<F> {
        F::create(self.factory.clone(), meta.clone())
    }

    /// A guard is dropped. Where the factory's futures have to be awaited, the next borrower awaits them.
    #[inline]
    pub(super) fn give_back(&self, mut loan: Box<Loan<F>>) {
        loan.unclean = true;
        match F::BLOCKS {
            true => now(self.put_back(loan)),
            false => self.become_idle(loan),
        }
    }

    /// Takes a resource back, after its test and its passivation.
    #[inline]
    pub(super) async fn put_back(&self, loan: Box<Loan<F>>) {
        // The time that the factory takes is not the borrower's.
        if self.options.abandoned_after.is_some() {
            self.critical(|state, _| state.end_borrowers_time(loan.slot));
        }
        let mut reserved = Reserved::of(self, loan);
        match self.clean(reserved.loan_mut()).await {
            Ok(()) => self.become_idle(reserved.loan()),
            // The reservation destroys it.
            Err(event) => self.report(reserved.meta(), *event),
        }
    }

    #[inline]
    fn become_idle(&self, loan: Box<Loan<F>>) {
        self.critical(|state, fx| state.give_back(loan.slot, Content::Ready(loan), fx));
    }

    pub(super) fn invalidate(&self, loan: Box<Loan<F>>) {
        self.critical(|state, fx| state.invalidate(loan.slot, Content::Ready(loan), fx));
    }
}

impl<F: Form> Close for Inner<F> {
    fn close(this: &Arc<Self>) {
        this.critical(|state, fx| state.close(fx));
    }
}

impl<F: Form> ClockListener for Inner<F> {
    fn advanced(&self) {
        self.state.clock_advanced(|state| state.waiters.threads());
    }
}

/// Destroys what was granted to futures that were leaked: they cannot pick it up any more.
impl<F: Form> Drop for Inner<F> {
    fn drop(&mut self) {
        if has_failed() {
            return;
        }
        let state = self.state.get_mut();
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
