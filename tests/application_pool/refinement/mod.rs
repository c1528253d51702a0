//! The real pool and its executable specification, side by side: random histories of the public API,
//! and the same observable state after each step.
//!
//! One thread plays all clients. A blocking call has a deadline that has already come, so it ends;
//! longer waits are futures, which are polled only when they are woken, or a thread with a time limit. `limits.rs` tells
//! the specification of the limits that it does not have. A group's options change while other gets wait, connect and spawn under
//! the old ones (PROP-OPTIONS).
//!
//! The test compares everything that is visible from outside: the snapshot, the spawns in flight,
//! the reloads and every event. It also compares how each get ended, and which processes were shut
//! down and why. The specification searches for the process to evict or to clean, the pool does not (E41).
//! proptest shrinks a failing history.
//!
//! With `CABRANK_CASES=10000`, `cargo test --test application_pool refinement` runs more histories
//! than the usual 1,000.

mod history;
mod limits;
mod observed;
mod real;
mod side_by_side;

use crate::common::histories;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use side_by_side::SideBySide;

proptest! {
    #![proptest_config(histories::config())]

    #[test]
    fn the_pool_does_what_the_specification_does(
        world in history::world(),
        operations in prop::collection::vec(history::operation(), 1..=200),
    ) {
        let mut both = SideBySide::new(&world);
        histories::play(&operations, |operation| (both.step(operation), both.compare()))?;
        both.end().map_err(TestCaseError::fail)?;
    }
}
