//! How a call to borrow becomes a resource, and how the resource is returned.
//!
//! One asynchronous procedure serves threads and tasks, and both forms of a factory. A thread polls it once:
//! with a blocking factory only the wait for a turn could be pending, and a thread sleeps within the poll.

use super::borrowers_time::BorrowersTime;
use super::creation::InCreation;
use super::inner::Inner;
use super::looking_up::Select;
use super::reserved::{ReservedLoan, ReservedPlace};
use super::time_limits::limited;
use crate::kernel::section::{Guarded, Patience, now};
use crate::resource_pool::api::error::{BorrowError, Denied, Failure};
use crate::resource_pool::api::event::Event;
use crate::resource_pool::api::factory::Form;
use crate::resource_pool::api::guard::Borrowed;
use crate::resource_pool::state::began::Began;
use crate::resource_pool::state::loan::Loan;
use crate::resource_pool::state::names::SlotKey;
use crate::resource_pool::state::refusal::Refusal;
use crate::resource_pool::state::slot::Content;
use crate::resource_pool::state::state::{Step, ToCreate};
use std::future::Future;
use std::panic::Location;
use std::pin::{Pin, pin};
use std::time::Duration;

impl<F: Form> Inner<F> {
    /// Borrows a resource of the selected key, as a guard, on a thread.
    #[inline]
    pub(crate) fn lend(
        &self,
        key: impl Select<F>,
        mut time: BorrowersTime,
        caller: &'static Location<'static>,
    ) -> Result<Borrowed<'_, F>, BorrowError<F::Error>> {
        let began = self.observed.begin();
        let ended = now(self.borrow(key, &mut time, caller));
        self.end_borrow(key, began, ended)
    }

    /// The same in a task. In a pool with a runtime, the borrow ends after `max_wait`.
    // No `async fn`: that would have room for its arguments twice.
    pub(crate) fn lend_async(
        &self,
        key: impl Select<F>,
        patience: Patience,
        caller: &'static Location<'static>,
    ) -> impl Future<Output = Result<Borrowed<'_, F>, BorrowError<F::Error>>> {
        let mut time = BorrowersTime::Begun(patience);
        async move {
            let began = self.observed.begin();
            let limit = self.options.max_wait.filter(|_| self.runtime.get().is_some());
            // At the end of the block the borrow is dropped, which is its end, before its error looks at the key.
            let ended = {
                let borrow = pin!(self.borrow(key, &mut time, caller));
                self.in_time(limit, borrow).await
            };
            self.end_borrow(key, began, ended.unwrap_or(Err(Denied::Refused(Refusal::TooLate))))
        }
    }

    #[inline]
    fn end_borrow(
        &self,
        key: impl Select<F>,
        began: Began,
        ended: Result<Box<Loan<F>>, Denied<F::Error>>,
    ) -> Result<Borrowed<'_, F>, BorrowError<F::Error>> {
        match ended {
            Ok(mut loan) => {
                loan.began = self.observed.lent(began);
                Ok(Borrowed::new(self, loan))
            }
            Err(denied) => Err(self.not_lent(key, denied)),
        }
    }
    #[cold]
    fn not_lent(&self, key: impl Select<F>, denied: Denied<F::Error>) -> BorrowError<F::Error> {
        let error = denied.into_error(|| self.shortage(key));
        self.observed.not_lent(&error);
        error
    }

    /// Returns the time of a thread, which begins with the call.
    pub(crate) fn time_of(&self, limit: Duration) -> BorrowersTime {
        BorrowersTime::Begun(Patience::Thread(self.clock().deadline(limit)))
    }

    /// Borrows a resource of the selected key.
    ///
    /// A borrower that was served keeps its turn: if its resource fails, it gets the next idle one, and in the end a
    /// new one.
    #[inline]
    pub(crate) async fn borrow(
        &self,
        key: impl Select<F>,
        // By reference: a copy would wait until its parts, which were written just before, are in the cache.
        time: &mut BorrowersTime,
        caller: &'static Location<'static>,
    ) -> Result<Box<Loan<F>>, Denied<F::Error>> {
        if self.origin.is_forked() {
            return Err(Denied::Refused(Refusal::Forked));
        }
        let mut step = key.select(self, |state, key, fx| state.begin(key, time.patience(), fx));
        loop {
            let mut reserved = match step {
                Step::Take(loan) => ReservedLoan::new(self, loan),
                Step::Refused(refusal) => return Err(Denied::Refused(refusal)),
                Step::Failed(failed) => return Err(Denied::failed(failed.error.into())),
                Step::Wait(wait) => {
                    self.ask_runtime();
                    time.begin(self.options.max_wait, self.clock());
                    step = match self.turn(wait, *time.patience()).await {
                        Ok(step) => step,
                        Err(()) => Step::Refused(Refusal::TooLate),
                    };
                    continue;
                }
                Step::Create(order) => {
                    let ToCreate { slot, meta, first, victim } = *order;
                    let place = ReservedPlace::new(self, slot, meta);
                    if let Some(victim) = victim {
                        self.destroy(victim);
                    }
                    self.ask_runtime();
                    self.begin_creation_time(slot);
                    let creation = self.creation(place.meta());
                    let (place, made) = InCreation::<F, _>::new(creation, place).await;
                    let used = self.begin_use(place, made, first, caller).await;
                    return used.map_err(Denied::failed);
                }
            };
            if reserved.loan_mut().fresh {
                return self.begin_fresh(reserved, caller).await.map_err(Denied::failed);
            }
            if self.options.test_on_borrow {
                time.begin(self.options.max_wait, self.clock());
            }
            match self.activate_and_validate(reserved.loan_mut()).await {
                Ok(()) => return Ok(self.lent(&mut reserved, false, caller)),
                Err(event) => {
                    time.begin(self.options.max_wait, self.clock());
                    step = self.another(reserved, *event, *time.patience()).await;
                }
            }
        }
    }

    /// Begins the loan; `first` if no other resource of its key was created before.
    #[inline]
    fn lent(
        &self,
        reserved: &mut ReservedLoan<'_, F>,
        first: bool,
        caller: &'static Location<'static>,
    ) -> Box<Loan<F>> {
        let loan = reserved.take();
        if first || self.options.abandoned_after.is_some() {
            self.begin_loan(loan.slot, first, caller);
        }
        loan
    }
    #[cold]
    fn begin_loan(&self, slot: SlotKey, first: bool, caller: &'static Location<'static>) {
        self.critical(|state, fx| {
            if first {
                state.note_first_created(slot);
            }
            state.begin_loan(slot, caller, fx);
        });
    }

    /// Reports that a resource could not be lent, destroys it, and gets another one if time is left.
    ///
    /// Boxed, and a function of its own: each borrow would otherwise have room for it, and the caller would not be inlined.
    #[cold]
    #[inline(never)]
    fn another<'p>(
        &'p self,
        mut reserved: ReservedLoan<'p, F>,
        event: Event<F::Error>,
        patience: Patience,
    ) -> Pin<Box<dyn Future<Output = Step<F>> + Send + 'p>> {
        Box::pin(async move {
            self.report(&reserved.loan_mut().meta, event);
            let ticket = reserved.loan_mut().ticket;
            let place = reserved.discard().await;
            if self.clock().has_passed(patience.deadline()) {
                return Step::Refused(Refusal::TooLate);
            }
            let slot = place.into_slot();
            self.critical(|state, fx| state.another(slot, ticket, patience.is_thread(), fx))
        })
    }

    /// Tests and activates a resource that was created for its borrower.
    async fn begin_use(
        &self,
        place: ReservedPlace<'_, F>,
        made: Result<F::Resource, Failure<F::Error>>,
        first: bool,
        caller: &'static Location<'static>,
    ) -> Result<Box<Loan<F>>, BorrowError<F::Error>> {
        let mut reserved = place.fill(made.map_err(BorrowError::Create)?);
        let loan = reserved.loan_mut();
        if self.options.test_on_create {
            if let Err(event) = self.validate(&loan.meta, &mut loan.resource).await {
                // The borrower's own error. It does not say why the test did not end.
                if !matches!(*event, Event::Invalid) {
                    self.report(&loan.meta, *event);
                }
                return Err(BorrowError::Invalid);
            }
        }
        let Loan { meta, resource, .. } = loan;
        let activated = limited!(self, activate_timeout, self.factory.activate(meta, resource));
        activated.map_err(|why| BorrowError::Activate(*why))?;
        Ok(self.lent(&mut reserved, first, caller))
    }

    /// Activates a resource that was ordered, and that no other borrower has had. A failure is the borrower's: another new
    /// one would fail as well (PROP-RP-FIRST-USE).
    #[cold]
    async fn begin_fresh(
        &self,
        mut reserved: ReservedLoan<'_, F>,
        caller: &'static Location<'static>,
    ) -> Result<Box<Loan<F>>, BorrowError<F::Error>> {
        let loan = reserved.loan_mut();
        loan.fresh = false;
        let Loan { meta, resource, .. } = loan;
        let activated = limited!(self, activate_timeout, self.factory.activate(meta, resource));
        activated.map_err(|why| BorrowError::Activate(*why))?;
        Ok(self.lent(&mut reserved, false, caller))
    }

    /// Prepares an idle resource for its borrower: completes its return, activates it, and tests it.
    #[inline]
    async fn activate_and_validate(&self, loan: &mut Loan<F>) -> Result<(), Box<Event<F::Error>>> {
        if loan.unclean {
            self.clean(loan).await?;
        }
        let Loan { meta, resource, .. } = loan;
        let activated = limited!(self, activate_timeout, self.factory.activate(meta, resource));
        activated.map_err(|why| Box::new(Event::ActivateFailed(*why)))?;
        if self.options.test_on_borrow {
            self.validate(&loan.meta, &mut loan.resource).await?;
        }
        Ok(())
    }

    /// Tests and passivates a resource that its borrower returned.
    #[inline]
    async fn clean(&self, loan: &mut Loan<F>) -> Result<(), Box<Event<F::Error>>> {
        if self.options.test_on_return {
            self.validate(&loan.meta, &mut loan.resource).await?;
        }
        let Loan { meta, resource, .. } = loan;
        let passivated = limited!(self, passivate_timeout, self.factory.passivate(meta, resource));
        passivated.map_err(|why| Box::new(Event::PassivateFailed(*why)))?;
        loan.unclean = false;
        Ok(())
    }

    /// Notes the time of a creation that is about to begin, if the pool keeps times.
    pub(crate) fn begin_creation_time(&self, slot: SlotKey) {
        if self.options.keep_times() {
            self.critical(|state, _| state.begin_creation_time(slot));
        }
    }

    /// A guard is dropped. Where the factory's futures have to be awaited, the next borrower awaits them.
    #[inline]
    pub(crate) fn give_back(&self, mut loan: Box<Loan<F>>) {
        if self.origin.is_forked() {
            return std::mem::forget(loan);
        }
        self.observed.returned(&mut loan.began);
        loan.unclean = true;
        match F::BLOCKS {
            true => now(self.take_back(loan)),
            false => self.become_idle(loan),
        }
    }

    /// A guard is put back.
    #[inline]
    pub(crate) async fn put_back(&self, mut loan: Box<Loan<F>>) {
        if self.origin.is_forked() {
            return std::mem::forget(loan);
        }
        self.observed.returned(&mut loan.began);
        self.take_back(loan).await;
    }

    /// Takes a resource back, after its test and its passivation.
    #[inline]
    async fn take_back(&self, loan: Box<Loan<F>>) {
        // The time that the factory takes is not the borrower's.
        if self.options.abandoned_after.is_some() {
            self.critical(|state, _| state.end_borrowers_time(loan.slot));
        }
        let mut reserved = ReservedLoan::new(self, loan);
        match self.clean(reserved.loan_mut()).await {
            Ok(()) => self.become_idle(reserved.take()),
            // The reservation destroys it.
            Err(event) => self.report(&reserved.loan_mut().meta, *event),
        }
    }

    #[inline]
    fn become_idle(&self, loan: Box<Loan<F>>) {
        self.critical(|state, fx| state.give_back(loan.slot, Content::Ready(loan), fx));
    }

    pub(crate) fn invalidate(&self, mut loan: Box<Loan<F>>) {
        if self.origin.is_forked() {
            return std::mem::forget(loan);
        }
        self.observed.returned(&mut loan.began);
        self.critical(|state, fx| state.invalidate(loan.slot, Content::Ready(loan), fx));
    }
}
