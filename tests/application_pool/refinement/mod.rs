//! The real pool and the executable specification, side by side: random histories of the public API, and
//! after each step the same observable state. Every operation that changes something is there; one that blocks ends at once or
//! at its deadline, which has come, for there is one thread to play all clients, and those that wait longer
//! are futures. The options of a group's gets change in the middle of a history, while others wait, connect
//! and spawn under the old ones (PROP-OPTIONS).
//!
//! `spec/` is a pure machine that was explored to the last state; this shows that the code does what the
//! machine does. What is compared is everything that can be seen from outside: the snapshot, which
//! processes were shut down and why, which spawns are in flight and with which the spawner was told to reload first, every event, and how each get ended. A failing
//! history is shrunk to the shortest that proptest finds.
//!
//! `CABRANK_CASES=10000 cargo test --test refinement` for more histories than the usual 1,000.

mod history;
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
