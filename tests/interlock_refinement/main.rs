//! The real interlock and the executable specification, side by side: random histories of two to five
//! players, each on a thread of its own, and after each step the same observable state. One thing is done
//! at a time, and the next only when everybody has come to rest: a player waits for its next order, or its
//! owner is in a queue. So the histories are sequential, though all who block really do.
//!
//! The machine in `spec/` was explored to the last state for small meetings; this shows that the code does
//! what the machine does in long ones. Each thing that the code does must be a step that the machine allows,
//! and none of the machine's properties may break on the way. What is compared is the whole dump (who has
//! what, lets in whom, waits for whom, and how long), the generation, and every answer: granted, refused and
//! why, and of a deadlock its circle, each of whose members must wait for the next in the machine, too.
//!
//! The machine has no queue, and the code has: [`machine`] restates its ruling.
//!
//! `CABRANK_CASES=10000 cargo test --test interlock_refinement` for more histories than the usual 1,000.

mod compare;
mod doing;
mod history;
mod machine;
mod observed;
mod people;
mod player;
mod program;
mod side_by_side;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError};
use side_by_side::SideBySide;

fn cases() -> u32 {
    match std::env::var("CABRANK_CASES") {
        Ok(text) => text.parse().expect("CABRANK_CASES is a number of histories"),
        Err(_) => 1_000,
    }
}

proptest! {
    #![proptest_config(Config {
        cases: cases(),
        max_shrink_iters: 20_000,
        max_shrink_time: 60_000,
        failure_persistence: None,
        ..Config::default()
    })]

    #[test]
    fn the_interlock_does_what_the_specification_does(
        players in 2..=5usize,
        operations in history::operations(),
    ) {
        let mut both = SideBySide::new(players);
        let mut done = Vec::new();
        for operation in &operations {
            let step = both.step(operation);
            done.extend(both.said.take());
            if let Err(difference) = step {
                let history: String = done.iter().map(|step| format!("\n  {step}")).collect();
                let failed = format!("after{history}\n{difference}");
                // What is left when it has been made shorter may be another difference.
                eprintln!("{failed}\n");
                return Err(TestCaseError::fail(failed));
            }
        }
        both.end().map_err(TestCaseError::fail)?;
    }
}
