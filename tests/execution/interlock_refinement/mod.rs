//! The real interlock beside the executable specification: random histories of two to five players, each on a
//! thread of its own, with the same observable state after each step. The test carries out one operation at a time,
//! and waits until each player waits for an order or is queued. So the histories are sequential, although the
//! players really block.
//!
//! The specification's machine was explored completely for small meetings; this test shows that the code follows it
//! in long ones. Each action of the code must be a step that the machine allows, and every property of the machine
//! must hold. The test compares:
//!
//! * the whole dump: each owner's state, its permit blocks and views (INV-ILK-ENTRY), and since when it waits;
//! * the generation;
//! * every answer: the grant or the reason of the refusal;
//! * whether an execution has its share (INV-ILK-SHARES), and whether a task was woken.
//!
//! The machine has no queue; [`machine`] restates the library's order. These histories have no concurrent branches of
//! one task and no executions that move to another thread. Only a reloader unloads in an execution of its own, and
//! drains afterwards, so that is not part of them either.
//!
//! `CABRANK_CASES=10000 cargo test --test execution refinement` runs more histories than the usual 1,000.

mod compare;
mod history;
mod machine;
mod player;
mod side_by_side;

use crate::common::histories;
use history::{Block, Operation};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use side_by_side::SideBySide;

fn play(players: usize, operations: &[Operation]) -> Result<(), TestCaseError> {
    let mut both = SideBySide::new(players);
    histories::play(operations, |operation| {
        let agree = both.step(operation);
        (both.said.take(), agree)
    })?;
    both.end().map_err(TestCaseError::fail)
}

/// The permit block of a task ends while another player loads, and its future is dropped there. The share comes back
/// once the other has loaded.
#[test]
fn a_dropped_end_of_a_permit_block_resumes() {
    let begin = |nth, block, task| Operation::Begin { nth, block, task };
    let end = |nth| Operation::End { nth, dropped: false };
    let history = [
        begin(0, Block::Run, false),
        begin(1, Block::Run, false),
        begin(0, Block::Permit, true),
        begin(1, Block::Load, false),
        end(0),
        Operation::Cancel { nth: 0 },
        begin(0, Block::Load, false),
        end(0),
    ];
    play(2, &history).expect("both sides agree");
}

proptest! {
    #![proptest_config(histories::config())]

    #[test]
    fn the_refinement_holds(players in 2..=5usize, operations in history::operations()) {
        play(players, &operations)?;
    }
}
