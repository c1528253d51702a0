//! Tests of idle resources in turns, and `retain`.
//!
//! A resource under test stays in the idle list but belongs to its tester: it is neither lent nor destroyed before the
//! test ends (PROP-RP-UNDER-TEST). A tester has one resource at a time.

use super::effects::Effects;
use super::factory::Form;
use super::inner::Inner;
use super::loan::Loan;
use super::maintenance_task::MaintenanceTask;
use super::slot::{Content, Meta, SlotKey, SlotState};
use super::state::State;
use crate::kernel::section::Guarded;
use crate::kernel::sync::has_failed;

impl<F: Form> State<F> {
    /// Begins a run, and returns how many tests it makes.
    fn begin_tests(&mut self) -> usize {
        let now = self.clock.now();
        let most = self.options.evictions_per_run.unwrap_or(usize::MAX);
        match !self.closed && self.begin_run(MaintenanceTask::Refill, now) {
            true => self.turns.len().min(most),
            false => 0,
        }
    }

    fn begin_test(&mut self) -> Option<(SlotKey, Box<Loan<F>>, Meta<F>)> {
        let slot = self.turns.front()?;
        self.turns.remove(&mut self.slots, slot);
        self.turns.push_back(&mut self.slots, slot);
        self.take_for_test(slot)
    }

    pub(super) fn take_for_test(
        &mut self,
        slot: SlotKey,
    ) -> Option<(SlotKey, Box<Loan<F>>, Meta<F>)> {
        let entry = &mut self.slots[slot];
        if entry.tested || !matches!(entry.content, Content::Ready(_)) {
            return None;
        }
        let Content::Ready(loan) = entry.content.take() else { return None };
        entry.tested = true;
        let sub = &mut self.subs[entry.key];
        sub.tested += 1;
        self.tested += 1;
        let meta = sub.metadata.clone();
        let key = self.slots[slot].key;
        self.update_line(key);
        self.watch_spare(key);
        Some((slot, loan, meta))
    }

    /// Ends a test: the resource can be lent again, or leaves.
    pub(super) fn end_test(
        &mut self,
        slot: SlotKey,
        loan: Box<Loan<F>>,
        passed: bool,
        fx: &mut Effects<F>,
    ) {
        let entry = &mut self.slots[slot];
        let key = entry.key;
        entry.tested = false;
        entry.content = Content::Ready(loan);
        let gone = !passed || entry.expired || entry.epoch != self.epoch;
        let sub = &mut self.subs[key];
        sub.tested -= 1;
        self.tested -= 1;
        let too_many = self.has_surplus(key);
        self.watch_spare(key);
        if gone || self.closed || too_many || self.has_too_many(key) {
            self.evict(slot, fx);
        } else {
            self.schedule_idle(key, fx);
        }
        self.counts_changed(key, fx);
    }
}

/// A resource under test. It is destroyed if the test is dropped or panics.
pub(super) struct Testing<'p, F: Form> {
    pub(super) pool: &'p Inner<F>,
    pub(super) slot: SlotKey,
    pub(super) loan: Option<Box<Loan<F>>>,
    pub(super) meta: Meta<F>,
}

impl<F: Form> Testing<'_, F> {
    pub(super) fn end(mut self, passed: bool) {
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
    pub(super) async fn test_in_turns(&self) {
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
    pub(super) fn retain(&self, mut keep: impl FnMut(&F::Metadata, &mut F::Resource) -> bool) {
        let serials: Vec<(SlotKey, u64)> = self
            .state
            .look(|state| state.by_age().map(|slot| (slot, state.slots[slot].serial)).collect());
        for (slot, serial) in serials {
            let taken = self.critical(|state, _| {
                let entry = state.slots.get(slot)?;
                let same = entry.serial == serial && entry.state == SlotState::Idle;
                if same { state.take_for_test(slot) } else { None }
            });
            let Some((slot, loan, meta)) = taken else { continue };
            let mut test = Testing { pool: self, slot, loan: Some(loan), meta };
            let resource = &mut test.loan.as_mut().expect("put back below").resource;
            // A panic unwinds to the caller, and the guard destroys the resource.
            let kept = keep(&test.meta, resource);
            test.end(kept);
        }
    }
}
