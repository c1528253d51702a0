//! No section searches the groups or processes of the pool (erratum E41).
//!
//! These tests count steps from one element of a list or heap to another, within the sections alone: without the
//! invariants, which look at everything.

use super::effects::Effects;
use super::state::State;
use crate::in_memory::InMemorySpawner;
use crate::kernel::steps::counted;
use crate::{ApplicationPool, ManualClock, PoolOptions};
use std::mem::ManuallyDrop;
use std::time::Duration;

type Section = fn(&mut State<InMemorySpawner>, &mut Effects<InMemorySpawner>);

const IDLE: Duration = Duration::from_secs(300);

/// Returns the steps of a section in a pool of so many groups, whose idle processes their minimum protects for longer
/// than they may be idle. One younger process is not protected.
fn steps_in_a_pool_of(groups: usize, section: Section) -> usize {
    let clock = ManualClock::new();
    let builder = ApplicationPool::builder(InMemorySpawner::with_clock(clock.clock()));
    let builder = builder.clock(clock.clock()).max(groups + 1).max_idle_time(IDLE).cleaner(false);
    let pool = ManuallyDrop::new(builder.build().expect("a valid pool"));
    for nth in 0..groups {
        let options = PoolOptions::new(format!("/{nth}")).with_min_processes(1);
        drop(pool.get(&options).expect("a session"));
    }
    clock.advance(IDLE);
    drop(pool.get(&PoolOptions::new("/last")).expect("a session"));
    let mut fx = Effects::new(false);
    let ((), steps) = pool.inner().state.break_state(|state| counted(|| section(state, &mut fx)));
    // These effects do not run, so the pool is not used again.
    std::mem::forget(fx);
    steps
}

#[test] // E41
fn no_section_costs_more_in_a_pool_of_many_groups() {
    let sections: [(&str, Section); 4] = [
        ("a get with new options", |state, fx| {
            state.group_of(&PoolOptions::new("/last").with_max_requests(7), None);
            state.settle(fx);
        }),
        ("the cleaner's pass", |state, fx| state.clean(fx)),
        ("the next due time", |state, _| {
            state.next_due();
        }),
        ("a look for an idle process", |state, _| {
            state.longest_idle().expect("the process that is not protected");
        }),
    ];
    for (name, section) in sections {
        assert_eq!(steps_in_a_pool_of(200, section), steps_in_a_pool_of(2, section), "{name}");
    }
}

/// A heap orders the groups that have lost the protection of their minimum.
#[test] // E41
fn the_loss_of_a_minimum_costs_at_most_the_logarithm_of_the_groups() {
    let all_lose: Section = |state, fx| {
        for nth in (0..200).rev() {
            state.group_of(&PoolOptions::new(format!("/{nth}")), None);
            state.settle(fx);
        }
    };
    let steps = steps_in_a_pool_of(200, all_lose);
    assert!(steps <= 200 * 8, "{steps} steps for 200 groups");
}
