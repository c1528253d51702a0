//! Counters, gauges and histograms of a named pool, by the crate `metrics`. The module's head lists their names.

use metrics::{counter, gauge, histogram};
use std::sync::Arc;
use std::time::Duration;

pub(crate) fn lent(pool: &Arc<str>, after: Duration) {
    histogram!("cabrank.resource_pool.borrow.duration", "pool" => pool.clone()).record(after);
}
pub(crate) fn not_lent(pool: &Arc<str>, reason: &'static str) {
    let name = "cabrank.resource_pool.borrow.failures";
    counter!(name, "pool" => pool.clone(), "reason" => reason).increment(1);
}
pub(crate) fn returned(pool: &Arc<str>, lent_for: Duration) {
    histogram!("cabrank.resource_pool.loan.duration", "pool" => pool.clone()).record(lent_for);
}
pub(crate) fn created(pool: &Arc<str>, outcome: &'static str, took: Duration) {
    let name = "cabrank.resource_pool.create.duration";
    histogram!(name, "pool" => pool.clone(), "outcome" => outcome).record(took);
}
pub(crate) fn destroyed(pool: &Arc<str>) {
    counter!("cabrank.resource_pool.destroyed", "pool" => pool.clone()).increment(1);
}
pub(crate) fn reported(pool: &Arc<str>, event: &'static str) {
    let name = "cabrank.resource_pool.events";
    counter!(name, "pool" => pool.clone(), "event" => event).increment(1);
}

pub(crate) fn gauges(pool: &Arc<str>, [active, idle, total, waiting]: [f64; 4]) {
    gauge!("cabrank.resource_pool.active", "pool" => pool.clone()).set(active);
    gauge!("cabrank.resource_pool.idle", "pool" => pool.clone()).set(idle);
    gauge!("cabrank.resource_pool.total", "pool" => pool.clone()).set(total);
    gauge!("cabrank.resource_pool.waiting", "pool" => pool.clone()).set(waiting);
}
