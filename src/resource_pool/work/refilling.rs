//! Runs the creations for the idle list that `refill.rs` decides on. Their slots are given back by guards.

use super::creation::InCreation;
use super::inner::Inner;
use super::looking_up::Select;
use super::time_limits::{Limit, limited};
use crate::kernel::section::Guarded;
use crate::kernel::sync::has_failed;
use crate::kernel::user_code::drop_contained;
use crate::resource_pool::api::error::AddError;
use crate::resource_pool::api::event::Event;
use crate::resource_pool::api::factory::{Creation, Form};
use crate::resource_pool::state::loan::Loan;
use crate::resource_pool::state::names::{Meta, SlotKey, SubKey};
use crate::resource_pool::state::refill::{Arrival, NextRefill, Vacancy};
use crate::resource_pool::state::slot::Content;

/// A slot reserved for a new idle resource. Unless it is `put`, its drop destroys the resource and frees the slot.
pub(crate) struct Refilling<'p, F: Form> {
    pool: &'p Inner<F>,
    slot: Option<SlotKey>,
    resource: Option<F::Resource>,
    meta: Meta<F>,
    /// The key that is refilled, which notes the result; `None` for an `add`.
    refills: Option<SubKey>,
}

impl<'p, F: Form> Refilling<'p, F> {
    pub(crate) fn new(
        pool: &'p Inner<F>,
        slot: SlotKey,
        meta: Meta<F>,
        refills: Option<SubKey>,
    ) -> Self {
        Refilling { pool, slot: Some(slot), resource: None, meta, refills }
    }
    pub(crate) fn overdue_limit(&self) -> Option<Limit> {
        self.pool.overdue_limit()
    }
    /// Leaves the creation to the pool, or drops it before its place is given back.
    pub(crate) fn leave(mut self, creation: Creation<F>, overdue: Option<Limit>) {
        let (slot, drives) =
            (self.slot.expect("taken only when `self` is consumed"), self.pool.drives());
        match self.pool.critical(|state, fx| state.leave_addition(slot, drives, fx)) {
            true => {
                let slot = self.take_slot();
                self.pool.drive(slot, self.meta.clone(), creation, overdue);
            }
            false => drop_contained(creation),
        }
    }
    /// Notes the failure before a resource is destroyed or a listener notified: user code may call `maintain`.
    fn failed(&mut self, error: AddError<F::Error>) -> AddError<F::Error> {
        if let Some(key) = self.refills {
            self.pool.critical(|state, _| state.note_refill(key, false));
        }
        error
    }
    fn put(mut self) -> Arrival {
        let slot = self.take_slot();
        let resource = self.resource.take().expect("created before");
        let loan = Loan::new(slot, self.meta.clone(), resource);
        self.pool.critical(|state, fx| {
            let arrival = state.added(slot, Content::Ready(loan), fx);
            if let Some(key) = self.refills {
                state.note_refill(key, arrival == Arrival::InTime);
            }
            arrival
        })
    }
    /// Takes the slot: from here on the caller frees it.
    fn take_slot(&mut self) -> SlotKey {
        self.slot.take().expect("taken only when `self` is consumed")
    }
}

impl<F: Form> Drop for Refilling<'_, F> {
    fn drop(&mut self) {
        let Some(slot) = self.slot.take().filter(|_| !has_failed()) else { return };
        if let Some(resource) = self.resource.take() {
            self.pool.dispose(&self.meta, resource);
        }
        self.pool.critical(|state, fx| state.added(slot, Content::Nothing, fx));
    }
}

impl<F: Form> Inner<F> {
    /// Refills all keys below `min_idle`, one resource at a time (PROP-RP-REFILLED).
    pub(crate) async fn refill(&self) {
        loop {
            let vacancy = match self.critical(|state, _| state.next_refill()) {
                NextRefill::This(vacancy) => vacancy,
                NextRefill::Again => continue,
                NextRefill::Nothing => return,
            };
            let (slot, meta, key) = (vacancy.slot, vacancy.meta.clone(), vacancy.key);
            let creation = self.begin_fill(vacancy, Some(key));
            self.complete(slot, &meta, creation, self.overdue_limit()).await;
        }
    }

    /// Reports the failure of a creation for the idle list that no caller awaits.
    pub(crate) fn report_add(&self, meta: &Meta<F>, error: AddError<F::Error>) {
        match error {
            AddError::Create(failure) => self.report(meta, Event::CreateFailed(failure)),
            AddError::Passivate(failure) => self.report(meta, Event::PassivateFailed(failure)),
            AddError::Invalid => self.report(meta, Event::Invalid),
            AddError::Closed | AddError::Full => {}
        }
    }

    /// Begins to create a resource in a reserved slot.
    fn begin_fill(&self, vacancy: Vacancy<F>, refills: Option<SubKey>) -> InCreation<'_, F> {
        let Vacancy { slot, meta, .. } = vacancy;
        self.begin_creation_time(slot);
        let creation = self.creation(&meta);
        InCreation::new(Refilling::new(self, slot, meta, refills), creation, false)
    }

    /// Completes a creation for the idle list. Its lifetime may end before it is idle.
    pub(crate) async fn finish(
        &self,
        creation: InCreation<'_, F>,
    ) -> Result<(), AddError<F::Error>> {
        let (mut refilling, made) = creation.await;
        let metadata = &*refilling.meta;
        let resource = match made {
            Ok(resource) => refilling.resource.insert(resource),
            Err(failure) => return Err(refilling.failed(AddError::Create(failure))),
        };
        if self.options.test_on_create {
            if let Err(event) = self.validate(metadata, resource).await {
                let error = refilling.failed(AddError::Invalid);
                if !matches!(*event, Event::Invalid) {
                    self.report(&refilling.meta, *event);
                }
                return Err(error);
            }
        }
        let passivation = self.factory.passivate(metadata, resource);
        if let Err(failure) = limited!(self, passivate_timeout, passivation) {
            return Err(refilling.failed(AddError::Passivate(*failure)));
        }
        match refilling.put() {
            Arrival::InTime | Arrival::Expired => Ok(()),
            Arrival::Closed => Err(AddError::Closed),
        }
    }

    /// Creates a resource for the idle list.
    pub(crate) async fn add(&self, key: impl Select<F>) -> Result<(), AddError<F::Error>> {
        let begun = key.select(self, |state, key, _| state.begin_add(key));
        self.finish(self.begin_fill(begun?, None)).await
    }
}
