//! The guards of a borrow in progress: of a place without a resource, and of a resource that is not lent yet.

use super::creation::InPlace;
use super::inner::Inner;
use crate::kernel::section::Guarded;
use crate::kernel::sync::has_failed;
use crate::resource_pool::api::error::Failure;
use crate::resource_pool::api::factory::Form;
use crate::resource_pool::state::loan::Loan;
use crate::resource_pool::state::names::{Meta, SlotKey};

/// A place that is reserved for a resource that is being created. Its drop gives the place back: after an error, a
/// panic or a cancelled future.
pub(crate) struct ReservedPlace<'p, F: Form> {
    pool: &'p Inner<F>,
    /// Absent once the place is used or given back.
    place: Option<(SlotKey, Meta<F>)>,
}

impl<'p, F: Form> ReservedPlace<'p, F> {
    pub(crate) fn new(pool: &'p Inner<F>, slot: SlotKey, meta: Meta<F>) -> Self {
        ReservedPlace { pool, place: Some((slot, meta)) }
    }
    pub(crate) fn meta(&self) -> &Meta<F> {
        &self.place.as_ref().expect("not used yet").1
    }
    /// Puts the resource that was created into the place.
    pub(crate) fn fill(mut self, resource: F::Resource) -> ReservedLoan<'p, F> {
        let (slot, meta) = self.place.take().expect("not used yet");
        ReservedLoan::new(self.pool, Loan::new(slot, meta, resource))
    }
    /// Takes the slot: its caller now gives the place back.
    pub(crate) fn into_slot(mut self) -> SlotKey {
        self.place.take().expect("not used yet").0
    }
}

impl<F: Form> InPlace<F> for ReservedPlace<'_, F> {
    fn note_failure(&self, failure: &Failure<F::Error>) {
        if let Some((slot, _)) = &self.place {
            self.pool.note_failure(*slot, failure);
        }
    }
}

impl<F: Form> Drop for ReservedPlace<'_, F> {
    fn drop(&mut self) {
        if let Some((slot, _meta)) = self.place.take().filter(|_| !has_failed()) {
            self.pool.critical(|state, fx| state.give_back_place(slot, fx));
        }
    }
}

/// A resource that is tested, activated or passivated for its borrower. Its drop destroys the resource, which may be
/// half activated.
pub(crate) struct ReservedLoan<'p, F: Form> {
    pool: &'p Inner<F>,
    /// Absent once it is taken.
    loan: Option<Box<Loan<F>>>,
}

impl<'p, F: Form> ReservedLoan<'p, F> {
    #[inline]
    pub(crate) fn new(pool: &'p Inner<F>, loan: Box<Loan<F>>) -> Self {
        ReservedLoan { pool, loan: Some(loan) }
    }
    #[inline]
    pub(crate) fn loan_mut(&mut self) -> &mut Loan<F> {
        self.loan.as_mut().expect("not taken yet")
    }
    /// Takes the loan out. The drop then does nothing.
    #[inline]
    pub(crate) fn take(&mut self) -> Box<Loan<F>> {
        self.loan.take().expect("not taken yet")
    }
    /// Destroys the resource, and keeps its place.
    pub(crate) async fn discard(mut self) -> ReservedPlace<'p, F> {
        let Loan { slot, meta, resource, .. } = *self.take();
        let place = ReservedPlace::new(self.pool, slot, meta);
        self.pool.dispose_in_time(place.meta(), resource).await;
        place
    }
    #[cold]
    fn destroy(&mut self) {
        if let Some(loan) = self.loan.take().filter(|_| !has_failed()) {
            self.pool.invalidate(loan);
        }
    }
}

impl<F: Form> Drop for ReservedLoan<'_, F> {
    #[inline]
    fn drop(&mut self) {
        if self.loan.is_some() {
            self.destroy();
        }
    }
}
