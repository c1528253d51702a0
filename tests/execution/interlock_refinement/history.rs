//! The operations of a random history.
//!
//! An operation names its player by a small number, modulo the players that can do it at that moment. So every
//! prefix and every shrunk history is possible.

use proptest::prelude::*;

/// One operation of a player, or one that affects all.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    /// An idle player begins a block. Outside any execution, a block that needs one begins an execution instead.
    Begin {
        nth: usize,
        block: Block,
        how: How,
    },
    /// A player outside any execution begins one as a child, with the token of another player.
    BeginChild {
        nth: usize,
        token: usize,
        how: How,
    },
    /// A player ends its innermost block. `dropped`: it drops a guard, or panics in a closure, and does not drain.
    End {
        nth: usize,
        dropped: bool,
    },
    /// Polls a task.
    Poll {
        nth: usize,
    },
    /// Drops a task's future, granted or not.
    Cancel {
        nth: usize,
    },
    /// A player makes a token for a child.
    Token {
        nth: usize,
    },
    DropToken {
        nth: usize,
    },
    /// Forfeits a player, whatever it does; or one that waits. The player goes on and finds out. A player that
    /// waits to enter cannot be forfeited.
    Forfeit {
        nth: usize,
        waits: bool,
    },
    /// Lets time pass until the next deadline has passed.
    Deadline,
}

/// A block, which ends some time later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Block {
    /// An execution, or one more share of it.
    Run,
    Load,
    Unload,
    /// An unload that is skipped if another owner has unloaded meanwhile.
    UnloadOnce,
    Permit,
    /// A declared wait for all children, with the share kept.
    Wait,
    /// A declared wait for all children in a permit block.
    PermitWait,
}

/// The limit of a wait, and its form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    Forever,
    Try,
    /// Until a deadline of its own.
    For,
    /// As a task, which the test polls.
    Task,
}

fn block() -> impl Strategy<Value = Block> {
    use Block::*;
    prop_oneof![
        6 => Just(Run),
        7 => Just(Load),
        3 => Just(Unload),
        2 => Just(UnloadOnce),
        5 => Just(Permit),
        4 => Just(Wait),
        3 => Just(PermitWait),
    ]
}

fn how() -> impl Strategy<Value = How> {
    use How::*;
    prop_oneof![5 => Just(Forever), 1 => Just(Try), 2 => Just(For), 4 => Just(Task)]
}

/// Blocks of all kinds; or only parents, children and waits, which deadlock most; or those around a change, where
/// many owners want to unload and one does.
pub(crate) fn operations() -> impl Strategy<Value = Vec<Operation>> {
    prop_oneof![
        2 => prop::collection::vec(operation(), 1..=60),
        2 => prop::collection::vec(in_a_family(), 1..=30).prop_map(|parts| parts.concat()),
        1 => prop::collection::vec(at_a_change(), 1..=60),
    ]
}

fn in_a_family() -> impl Strategy<Value = Vec<Operation>> {
    use Block::*;
    use Operation::*;
    let n = || 0..8usize;
    let block = prop_oneof![
        2 => Just(Run), 4 => Just(Load), 1 => Just(Permit), 3 => Just(Wait), 4 => Just(PermitWait),
    ];
    prop_oneof![
        6 => (n(), block).prop_map(|(nth, block)| vec![Begin { nth, block, how: How::Forever }]),
        5 => (n(), n()).prop_map(|(parent, child)| {
            vec![Token { nth: parent }, BeginChild { nth: child, token: 0, how: How::Forever }]
        }),
        2 => n().prop_map(|nth| vec![End { nth, dropped: false }]),
        1 => (n(), any::<bool>()).prop_map(|(nth, waits)| vec![Forfeit { nth, waits }]),
    ]
}

fn at_a_change() -> impl Strategy<Value = Operation> {
    use Operation::*;
    let n = || 0..8usize;
    let block = prop_oneof![
        8 => Just(Block::UnloadOnce), 1 => Just(Block::Unload), 1 => Just(Block::Load), 1 => Just(Block::Permit),
    ];
    let how = prop_oneof![5 => Just(How::Task), 2 => Just(How::Forever), 1 => Just(How::For)];
    prop_oneof![
        10 => (n(), block, how).prop_map(|(nth, block, how)| Begin { nth, block, how }),
        4 => (n(), any::<bool>()).prop_map(|(nth, dropped)| End { nth, dropped }),
        6 => n().prop_map(|nth| Poll { nth }),
        2 => n().prop_map(|nth| Cancel { nth }),
        1 => (n(), any::<bool>()).prop_map(|(nth, waits)| Forfeit { nth, waits }),
        1 => Just(Deadline),
    ]
}

fn operation() -> impl Strategy<Value = Operation> {
    use Operation::*;
    let n = || 0..8usize;
    prop_oneof![
        24 => (n(), block(), how()).prop_map(|(nth, block, how)| Begin { nth, block, how }),
        14 => (n(), n(), how()).prop_map(|(nth, token, how)| BeginChild { nth, token, how }),
        18 => (n(), any::<bool>()).prop_map(|(nth, dropped)| End { nth, dropped }),
        6 => n().prop_map(|nth| Poll { nth }),
        3 => n().prop_map(|nth| Cancel { nth }),
        8 => n().prop_map(|nth| Token { nth }),
        1 => n().prop_map(|nth| DropToken { nth }),
        2 => (n(), any::<bool>()).prop_map(|(nth, waits)| Forfeit { nth, waits }),
        3 => Just(Deadline),
    ]
}
