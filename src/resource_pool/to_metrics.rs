//! Counters, gauges and histograms of a named pool, by the crate `metrics`. The module's head lists their names.

use super::factory::Form;
use super::pool::Pool;
use crate::kernel::user_code::contain;
use metrics::{counter, gauge, histogram};
use std::sync::Arc;
use std::time::Duration;

pub(super) fn lent(pool: &Arc<str>, after: Duration) {
    histogram!("cabrank.resource_pool.borrow.duration", "pool" => pool.clone()).record(after);
}
pub(super) fn not_lent(pool: &Arc<str>, reason: &'static str) {
    let name = "cabrank.resource_pool.borrow.failures";
    counter!(name, "pool" => pool.clone(), "reason" => reason).increment(1);
}
pub(super) fn returned(pool: &Arc<str>, lent_for: Duration) {
    histogram!("cabrank.resource_pool.loan.duration", "pool" => pool.clone()).record(lent_for);
}
pub(super) fn created(pool: &Arc<str>, outcome: &'static str, took: Duration) {
    let name = "cabrank.resource_pool.create.duration";
    histogram!(name, "pool" => pool.clone(), "outcome" => outcome).record(took);
}
pub(super) fn destroyed(pool: &Arc<str>) {
    counter!("cabrank.resource_pool.destroyed", "pool" => pool.clone()).increment(1);
}
pub(super) fn reported(pool: &Arc<str>, event: &'static str) {
    let name = "cabrank.resource_pool.events";
    counter!(name, "pool" => pool.clone(), "event" => event).increment(1);
}

impl<F: Form, K> Pool<F, K> {
    /// Sets the gauges of a [named](super::Builder::name) pool: see [observation](super#observation). A program calls
    /// this before each scrape, or every few seconds. Requires the feature `metrics`.
    pub fn record_gauges(&self) {
        let Some(name) = self.inner().observed.name() else { return };
        let numbers = self.inner().state.look(|state| {
            [state.active, state.idle, state.total, state.waiting].map(|number| number as f64)
        });
        let _ = contain(|| {
            let [active, idle, total, waiting] = numbers;
            gauge!("cabrank.resource_pool.active", "pool" => name.clone()).set(active);
            gauge!("cabrank.resource_pool.idle", "pool" => name.clone()).set(idle);
            gauge!("cabrank.resource_pool.total", "pool" => name.clone()).set(total);
            gauge!("cabrank.resource_pool.waiting", "pool" => name.clone()).set(waiting);
        });
    }
}
