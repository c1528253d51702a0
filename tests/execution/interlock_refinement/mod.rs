//! The real interlock beside the executable specification: random histories of two to five players, each on a
//! thread of its own, with the same observable state after each step. The test carries out one operation at a time,
//! and waits until each player waits for an order or is queued. So the histories are sequential, although the
//! players really block.
//!
//! The specification's machine was explored completely for small meetings; this test shows that the code follows it
//! in long ones. Each action of the code must be a step that the machine allows, and every property of the machine
//! must hold. The test compares:
//!
//! * the whole dump: what each owner has, accepts (INV-ILK-ENTRY) and waits for, and since when;
//! * the generation;
//! * every answer: the grant or the reason of the refusal. In the cycle of a deadlock each owner must wait for the
//!   next in the machine, too.
//!
//! The machine has no queue; [`machine`] restates the library's order.
//!
//! `CABRANK_CASES=10000 cargo test --test execution refinement` runs more histories than the usual 1,000.

mod compare;
mod doing;
mod forfeiting;
mod history;
mod machine;
mod observed;
mod people;
mod player;
mod program;
mod side_by_side;

use crate::common::histories;
use history::{Block, How, Operation};
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

/// A future is polled inside the poll of another, woken, and dropped. That does not wake the outer one. Regression:
/// the test took a player for woken that was not.
#[test]
fn a_task_is_not_woken_by_what_woke_another_inside_it() {
    let begin = |nth, block, how| Operation::Begin { nth, block, how };
    let end = |nth| Operation::End { nth, dropped: false };
    let history = [
        begin(0, Block::Run, How::Forever),
        begin(1, Block::Run, How::Forever),
        begin(1, Block::Permit, How::Task),
        begin(1, Block::Run, How::Forever),
        begin(1, Block::Load, How::Task),
        end(0),
        Operation::Cancel { nth: 0 },
        end(0),
        begin(0, Block::Load, How::Forever),
        end(1),
        end(0),
    ];
    play(2, &history).unwrap_or_else(|failed| panic!("{failed}"));
}

proptest! {
    #![proptest_config(histories::config())]

    #[test]
    fn the_interlock_does_what_the_specification_does(
        players in 2..=5usize,
        operations in history::operations(),
    ) {
        // The shrunk history may show another difference.
        play(players, &operations).inspect_err(|failed| eprintln!("{failed}\n"))?;
    }
}
