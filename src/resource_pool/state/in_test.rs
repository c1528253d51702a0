//! Resources under test: how a test begins and ends, under the lock. `validating.rs` runs the tests.
//!
//! A resource under test stays in the idle list but belongs to its tester: it is neither lent nor destroyed before the
//! test ends (PROP-RP-UNDER-TEST). A tester has one resource at a time.

use super::effects::Effects;
use super::loan::Loan;
use super::maintenance_task::MaintenanceTask;
use super::names::{Meta, SlotKey};
use super::slot::{Content, SlotState};
use super::state::State;
use crate::resource_pool::api::factory::Form;

impl<F: Form> State<F> {
    /// Begins a run, and returns how many tests it makes.
    pub(crate) fn begin_tests(&mut self) -> usize {
        let now = self.clock.now();
        let most = self.options.evictions_per_run.unwrap_or(usize::MAX);
        match !self.closed && self.begin_run(MaintenanceTask::Refill, now) {
            true => self.turns.len().min(most),
            false => 0,
        }
    }

    pub(crate) fn begin_test(&mut self) -> Option<(SlotKey, Box<Loan<F>>, Meta<F>)> {
        let slot = self.turns.front()?;
        self.turns.remove(&mut self.slots, slot);
        self.turns.push_back(&mut self.slots, slot);
        self.take_for_test(slot)
    }

    fn take_for_test(&mut self, slot: SlotKey) -> Option<(SlotKey, Box<Loan<F>>, Meta<F>)> {
        let entry = &mut self.slots[slot];
        if entry.tested || !matches!(entry.content, Content::Ready(_)) {
            return None;
        }
        let Content::Ready(loan) = entry.content.take() else { return None };
        entry.tested = true;
        let sub = self.subs.touch(entry.key);
        sub.tested += 1;
        self.tested += 1;
        let meta = sub.metadata.clone();
        Some((slot, loan, meta))
    }

    /// Returns the idle resources, the oldest first, each with its number.
    pub(crate) fn serials(&self) -> Vec<(SlotKey, u64)> {
        self.by_age().map(|slot| (slot, self.slots[slot].serial)).collect()
    }

    /// Takes the resource of this number, if it is still idle.
    pub(crate) fn take_this(
        &mut self,
        slot: SlotKey,
        serial: u64,
    ) -> Option<(SlotKey, Box<Loan<F>>, Meta<F>)> {
        let entry = self.slots.get(slot)?;
        let same = entry.serial == serial && entry.state == SlotState::Idle;
        if same { self.take_for_test(slot) } else { None }
    }

    /// Ends a test: the resource can be lent again, or leaves.
    pub(crate) fn end_test(
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
        let sub = self.subs.touch(key);
        sub.tested -= 1;
        self.tested -= 1;
        if gone || self.closed || self.has_too_many(key) {
            self.evict(slot, fx);
        } else {
            self.note_came(slot, key);
        }
    }
}
