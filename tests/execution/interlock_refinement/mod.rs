//! The real interlock and the executable specification, side by side: random histories of two to five
//! players, each on a thread of its own, and after each step the same observable state. One thing is done
//! at a time, and the next only when everybody has come to rest: a player waits for its next order, or its
//! owner is in a queue. So the histories are sequential, though all who block really do.
//!
//! The machine in `spec/` was explored to the last state for small meetings; this shows that the code does what
//! the machine does in long ones. Each thing that the code does must be a step that the machine allows, and
//! none of the machine's properties may break on the way. What is compared is the whole dump (who has what,
//! lets in whom (INV-ILK-ENTRY), waits for whom, and how long), the generation, and every answer: granted,
//! refused and why, and of a deadlock its circle, each of whose members must wait for the next in the machine,
//! too.
//!
//! The machine has no queue, and the code has: [`machine`] restates its ruling.
//!
//! `CABRANK_CASES=10000 cargo test --test interlock_refinement` for more histories than the usual 1,000.

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

/// A future is polled inside the poll of another; it is woken, and dropped. The other is not woken by that:
/// once a player was taken for woken here that was not.
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
        // What is left when it has been made shorter may be another difference.
        play(players, &operations).inspect_err(|failed| eprintln!("{failed}\n"))?;
    }
}
