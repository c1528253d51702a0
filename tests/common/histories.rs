//! How many random histories run, and how one is played.

use proptest::test_runner::{Config, TestCaseError};
use std::fmt::Display;

/// Runs `CABRANK_CASES` histories; shrinks a failing one for a quarter of a minute at most.
pub(crate) fn config() -> Config {
    let cases = match std::env::var("CABRANK_CASES") {
        Ok(text) => text.parse().expect("CABRANK_CASES is a number of histories"),
        Err(_) => 1_000,
    };
    Config {
        cases,
        max_shrink_iters: 20_000,
        max_shrink_time: 15_000,
        failure_persistence: None,
        ..Config::default()
    }
}

/// Carries out the operations up to the first difference, and reports it with the history that led
/// to it. A step returns what was done, if anything, and whether both sides agree.
pub(crate) fn play<Operation, Done: Display>(
    operations: &[Operation],
    mut step: impl FnMut(&Operation) -> (Option<Done>, Result<(), String>),
) -> Result<(), TestCaseError> {
    let mut history = String::new();
    for operation in operations {
        let (done, agree) = step(operation);
        if let Some(done) = done {
            history += &format!("\n  {done}");
        }
        if let Err(difference) = agree {
            return Err(TestCaseError::fail(format!("after{history}\n{difference}")));
        }
    }
    Ok(())
}
