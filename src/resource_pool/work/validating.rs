//! Tests of idle resources in turns, and `retain`. `in_test.rs` says how a test begins and ends.

use super::inner::Inner;
use crate::kernel::section::Guarded;
use crate::kernel::sync::has_failed;
use crate::resource_pool::api::factory::Form;
use crate::resource_pool::state::loan::Loan;
use crate::resource_pool::state::names::{Meta, SlotKey};
use crate::resource_pool::state::state::State;

/// A resource under test. It is destroyed if the test is dropped or panics.
pub(crate) struct Testing<'p, F: Form> {
    pub(crate) pool: &'p Inner<F>,
    pub(crate) slot: SlotKey,
    pub(crate) loan: Option<Box<Loan<F>>>,
    pub(crate) meta: Meta<F>,
}

impl<F: Form> Testing<'_, F> {
    pub(crate) fn end(mut self, passed: bool) {
        self.put(passed);
    }
    fn put(&mut self, passed: bool) {
        if let Some(loan) = self.loan.take() {
            let slot = self.slot;
            self.pool.critical(|state, fx| state.end_test(slot, loan, passed, fx));
        }
    }
}

impl<F: Form> Drop for Testing<'_, F> {
    fn drop(&mut self) {
        if !has_failed() {
            self.put(false);
        }
    }
}

impl<F: Form> Inner<F> {
    pub(crate) async fn test_in_turns(&self) {
        if !self.options.test_while_idle {
            return;
        }
        for _ in 0..self.critical(|state, _| state.begin_tests()) {
            if let Some((slot, loan, meta)) = self.critical(|state, _| state.begin_test()) {
                self.test_idle(slot, loan, meta).await;
            }
        }
    }

    async fn test_idle(&self, slot: SlotKey, loan: Box<Loan<F>>, meta: Meta<F>) {
        let mut test = Testing { pool: self, slot, loan: Some(loan), meta };
        let loan = test.loan.as_mut().expect("put back below");
        let tested = self.validate(&test.meta, &mut loan.resource).await;
        let passed = tested.is_ok();
        if let Err(event) = tested {
            self.report(&test.meta, *event);
        }
        test.end(passed);
    }

    /// Destroys the idle resources that `keep` rejects. `keep` runs outside the lock.
    pub(crate) fn retain(&self, mut keep: impl FnMut(&F::Metadata, &mut F::Resource) -> bool) {
        for (slot, serial) in self.state.look(State::serials) {
            let taken = self.critical(|state, _| state.take_this(slot, serial));
            let Some((slot, loan, meta)) = taken else { continue };
            let mut test = Testing { pool: self, slot, loan: Some(loan), meta };
            let resource = &mut test.loan.as_mut().expect("put back below").resource;
            // A panic unwinds to the caller, and the guard destroys the resource.
            let kept = keep(&test.meta, resource);
            test.end(kept);
        }
    }
}
