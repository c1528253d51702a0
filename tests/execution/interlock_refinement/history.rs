//! The operations of a random history.
//!
//! An operation names its player by a small number, modulo the players that can do it at that moment. So every
//! prefix and every shrunk history is possible.

use proptest::prelude::*;

/// One operation of a player, or one that affects all.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    /// An idle player begins a block. Where that block cannot be, it begins an execution instead. `task`: as a future,
    /// which the test polls.
    Begin { nth: usize, block: Block, task: bool },
    /// A player ends its innermost block. `dropped`: it drops the future, or panics in a closure, and does not wait.
    End { nth: usize, dropped: bool },
    /// Polls a task.
    Poll { nth: usize },
    /// Drops a task's pending future, granted or not.
    Cancel { nth: usize },
    /// Lets time pass until the next time limit has passed.
    Deadline,
}

/// A block, which ends some time later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Block {
    /// An execution, or one more view of it.
    Run,
    Load,
    Unload,
    Permit,
}

/// Blocks of all kinds; or mostly loads beside permit blocks; or mostly unloads.
pub(crate) fn operations() -> impl Strategy<Value = Vec<Operation>> {
    prop_oneof![
        2 => prop::collection::vec(operation([4, 5, 3, 5]), 1..=60),
        1 => prop::collection::vec(operation([3, 8, 0, 5]), 1..=60),
        1 => prop::collection::vec(operation([3, 1, 8, 2]), 1..=60),
    ]
}

/// Returns an operation. The weights are those of the blocks.
fn operation(weights: [u32; 4]) -> impl Strategy<Value = Operation> {
    use Operation::*;
    let n = || 0..8usize;
    let [run, load, unload, permit] = weights;
    let block = prop_oneof![
        run => Just(Block::Run),
        load => Just(Block::Load),
        unload => Just(Block::Unload),
        permit => Just(Block::Permit),
    ];
    prop_oneof![
        24 => (n(), block, any::<bool>()).prop_map(|(nth, block, task)| Begin { nth, block, task }),
        14 => (n(), any::<bool>()).prop_map(|(nth, dropped)| End { nth, dropped }),
        8 => n().prop_map(|nth| Poll { nth }),
        3 => n().prop_map(|nth| Cancel { nth }),
        3 => Just(Deadline),
    ]
}
