//! Runs the creations for the idle list: those that the pool orders, refills, and additions. Their slots are given back by
//! guards.

use super::creation::{InCreation, InPlace};
use super::inner::Inner;
use super::looking_up::Select;
use super::time_limits::limited;
use crate::kernel::section::{Guarded, Patience};
use crate::kernel::sync::has_failed;
use crate::resource_pool::api::error::{AddError, BorrowError, Failure};
use crate::resource_pool::api::event::Event;
use crate::resource_pool::api::factory::Form;
use crate::resource_pool::state::filling::NextFill;
use crate::resource_pool::state::loan::Loan;
use crate::resource_pool::state::names::{Meta, SlotKey};
use crate::resource_pool::state::refill::{Arrival, NextRefill, Vacancy};
use crate::resource_pool::state::waiting::WaitForDrop;

/// A slot reserved for a new idle resource. Unless it is `put`, its drop destroys the resource and frees the slot.
pub(crate) struct Refilling<'p, F: Form> {
    pool: &'p Inner<F>,
    slot: Option<SlotKey>,
    resource: Option<F::Resource>,
    meta: Meta<F>,
    reason: Reason,
}

/// Why a resource is created for the idle list.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// A caller adds it.
    Add,
    /// The maintenance refills the idle list, and polls the creation.
    Refill,
    /// The pool ordered it, and a task polls the creation. If the guard is dropped, the runtime has ended.
    Order,
}

/// A creation that failed, in its reserved slot.
pub(crate) struct Failed<'p, F: Form> {
    pub(crate) filling: Refilling<'p, F>,
    pub(crate) error: AddError<F::Error>,
}

impl<'p, F: Form> Refilling<'p, F> {
    pub(crate) fn new(pool: &'p Inner<F>, slot: SlotKey, meta: Meta<F>, reason: Reason) -> Self {
        Refilling { pool, slot: Some(slot), resource: None, meta, reason }
    }
    pub(crate) fn meta(&self) -> &Meta<F> {
        &self.meta
    }
    /// Notes the failure before a resource is destroyed or a listener notified: user code may call `maintain`.
    fn failed(self, error: AddError<F::Error>) -> Failed<'p, F> {
        if let Some(slot) = self.slot.filter(|_| self.reason != Reason::Add) {
            self.pool.critical(|state, _| state.note_refill(slot, false));
        }
        Failed { filling: self, error }
    }
    /// Ends a creation of the pool's that failed: its error is that of a waiter, or it is reported.
    pub(crate) async fn fail(mut self, error: AddError<F::Error>) {
        let error = match error {
            AddError::Create(failure) => BorrowError::Create(failure),
            AddError::Invalid => BorrowError::Invalid,
            // A refill, which the maintenance polls. The drop of its guard frees the slot.
            AddError::Passivate(failure) => {
                let (pool, meta) = (self.pool, self.meta.clone());
                drop(self);
                return pool.report(&meta, Event::PassivateFailed(failure));
            }
            AddError::Closed | AddError::Forked | AddError::Full => return,
        };
        if let Some(resource) = self.resource.take() {
            self.pool.dispose_in_time(&self.meta, resource).await;
        }
        let (slot, error) = (self.take_slot(), error.into());
        let left = self.pool.critical(|state, fx| state.order_failed(slot, error, fx));
        if let Some(error) = left {
            self.pool.report_failed(&self.meta, error.into());
        }
    }
    fn put(mut self) -> Arrival {
        let slot = self.take_slot();
        let resource = self.resource.take().expect("created before");
        let loan = Loan::new(slot, self.meta.clone(), resource);
        self.pool.critical(|state, fx| state.put(slot, loan, self.reason != Reason::Add, fx))
    }
    /// Takes the slot: from here on the caller frees it.
    fn take_slot(&mut self) -> SlotKey {
        self.slot.take().expect("taken only when `self` is consumed")
    }
}

impl<F: Form> InPlace<F> for Refilling<'_, F> {
    fn note_failure(&self, failure: &Failure<F::Error>) {
        if let Some(slot) = self.slot {
            self.pool.note_failure(slot, failure);
        }
    }
}

impl<F: Form> Drop for Refilling<'_, F> {
    fn drop(&mut self) {
        let Some(slot) = self.slot.take().filter(|_| !has_failed()) else { return };
        if let Some(resource) = self.resource.take() {
            self.pool.dispose(&self.meta, resource);
        }
        let ordered = self.reason == Reason::Order;
        if self.pool.critical(|state, fx| state.unfilled(slot, ordered, fx)) {
            self.pool.note_runtime_end();
        }
    }
}

impl<F: Form> Inner<F> {
    /// Refills all keys below `min_idle` (PROP-RP-REFILLED): by orders, or one resource after the other.
    pub(crate) async fn refill(&self) {
        loop {
            let vacancy = match self.critical(|state, fx| state.next_refill(fx)) {
                NextRefill::This(vacancy) => vacancy,
                NextRefill::Again => continue,
                NextRefill::Nothing => return,
            };
            let wait = WaitForDrop::new(vacancy.slot);
            self.complete(self.begin_fill(vacancy, Reason::Refill), wait, None).await;
        }
    }

    /// Reports the failure of a creation that is no borrower's error.
    pub(crate) fn report_failed(&self, meta: &Meta<F>, error: BorrowError<F::Error>) {
        match error {
            BorrowError::Create(failure) => self.report(meta, Event::CreateFailed(failure)),
            _ => self.report(meta, Event::Invalid),
        }
    }

    /// Begins to create a resource in a reserved slot.
    fn begin_fill(&self, vacancy: Vacancy<F>, reason: Reason) -> InCreation<F, Refilling<'_, F>> {
        let Vacancy { slot, meta } = vacancy;
        self.begin_creation_time(slot);
        let creation = self.creation(&meta);
        InCreation::new(creation, Refilling::new(self, slot, meta, reason))
    }

    /// Completes a creation for the idle list. Its lifetime may end before it is idle.
    ///
    /// A resource that was ordered is not passivated: no borrower has activated it.
    pub(crate) async fn finish<'p>(
        &'p self,
        creation: InCreation<F, Refilling<'p, F>>,
    ) -> Result<Arrival, Failed<'p, F>> {
        let (mut filling, made) = creation.await;
        let resource = match made {
            Ok(resource) => filling.resource.insert(resource),
            Err(failure) => return Err(filling.failed(AddError::Create(failure))),
        };
        if self.options.test_on_create {
            if let Err(event) = self.validate(&filling.meta, resource).await {
                let failed = filling.failed(AddError::Invalid);
                if !matches!(*event, Event::Invalid) {
                    self.report(&failed.filling.meta, *event);
                }
                return Err(failed);
            }
        }
        if filling.reason != Reason::Order {
            let passivation = self.factory.passivate(&filling.meta, resource);
            if let Err(failure) = limited!(self, passivate_timeout, passivation) {
                return Err(filling.failed(AddError::Passivate(*failure)));
            }
        }
        Ok(filling.put())
    }

    /// Creates a resource for the idle list.
    pub(crate) async fn add(&self, key: impl Select<F>) -> Result<(), AddError<F::Error>> {
        if self.origin.is_forked() {
            return Err(AddError::Forked);
        }
        let begun = key.select(self, |state, key, _| state.begin_add(key));
        self.add_to(begun?).await
    }

    /// Fills the idle list of a key up to this number.
    pub(crate) async fn prefill(
        &self,
        key: impl Select<F>,
        number: usize,
        patience: Patience,
    ) -> Result<(), AddError<F::Error>> {
        if self.origin.is_forked() {
            return Err(AddError::Forked);
        }
        let is_thread = patience.is_thread();
        loop {
            match key.select(self, |state, key, _| state.next_fill(key, number, is_thread))? {
                NextFill::Done => return Ok(()),
                NextFill::This(vacancy) => self.add_to(vacancy).await?,
                NextFill::Wait(wait) => drop(self.turn(wait, patience).await),
            }
        }
    }

    async fn add_to(&self, vacancy: Vacancy<F>) -> Result<(), AddError<F::Error>> {
        match self.finish(self.begin_fill(vacancy, Reason::Add)).await {
            Ok(Arrival::InTime | Arrival::Expired) => Ok(()),
            Ok(Arrival::Closed) => Err(AddError::Closed),
            Err(failed) => Err(failed.error),
        }
    }
}
