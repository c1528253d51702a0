//! When the cleaner reaps idle processes (E30). That it sleeps between is in
//! `tests/process/real_clock.rs`: only a process of its own can measure it.

use crate::common::{Rig, SECOND, app};
use cabrank::application_pool::DetachReason;
use std::time::Duration;

/// The pseudocode sleeps whole periods, so a process may idle for twice the limit (PROP-IDLE-BOUND).
#[test] // E30
fn a_process_is_reaped_when_it_is_due_and_not_before() {
    let rig = Rig::without_cleaner(|b| b.max_idle_time(10 * SECOND));
    let [first, second] = [rig.get(&app("x")), rig.get(&app("x"))];
    drop(first);
    rig.clock.advance(4 * SECOND);
    drop(second);
    rig.clock.advance(6 * SECOND - Duration::from_millis(1));
    rig.pool.clean();
    assert_eq!(rig.counts(), (0, 2));
    rig.clock.advance(Duration::from_millis(1));
    rig.pool.clean();
    assert_eq!(rig.pids(&app("x")), [2]);
    rig.clock.advance(4 * SECOND);
    rig.pool.clean();
    assert_eq!(rig.counts(), (0, 0));
    assert_eq!(rig.next_detached(), (1, DetachReason::Idle));
    assert_eq!(rig.next_detached(), (2, DetachReason::Idle));
}

#[test] // E30
fn the_cleaners_thread_reaps_each_when_it_is_due() {
    let rig = Rig::new(|b| b.max_idle_time(10 * SECOND));
    let [first, second] = [rig.get(&app("x")), rig.get(&app("x"))];
    drop(first);
    rig.clock.advance(4 * SECOND);
    drop(second);
    rig.clock.advance(6 * SECOND);
    rig.eventually(|c| c.count == 1);
    assert_eq!(rig.pids(&app("x")), [2]);
    rig.clock.advance(4 * SECOND);
    rig.eventually(|c| c.count == 0);
}

/// The process used last is reaped last (INV-INACTIVE-ORDER).
#[test] // E30
fn use_restarts_the_idle_time() {
    let rig = Rig::without_cleaner(|b| b.max_idle_time(10 * SECOND));
    rig.idle(&app("x"), 1);
    rig.clock.advance(9 * SECOND);
    rig.idle(&app("x"), 1);
    rig.clock.advance(9 * SECOND);
    rig.pool.clean();
    assert_eq!(rig.counts(), (0, 1));
    let busy = rig.get(&app("x"));
    rig.clock.advance(1000 * SECOND);
    rig.pool.clean();
    assert_eq!(rig.counts(), (1, 1), "busy processes are not idle");
    drop(busy);
}

#[test] // E30
fn without_a_limit_idle_processes_stay() {
    let rig = Rig::without_cleaner(|b| b.max_idle_time(None));
    rig.idle(&app("x"), 1);
    rig.clock.advance(1_000_000 * SECOND);
    rig.pool.clean();
    assert_eq!(rig.counts(), (0, 1));
}
