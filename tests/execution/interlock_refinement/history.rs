//! What a random history is made of.
//!
//! An operation names its player by a small number, which is taken modulo those who can do it when its turn
//! comes; so every prefix and every shrunk history is one that can happen.

use proptest::prelude::*;

/// One thing that a player does, or that happens to all.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    /// A player that waits for nothing begins something. Outside of any execution, only what can be begun
    /// there; the rest begins an execution instead.
    Begin {
        nth: usize,
        block: Block,
        how: How,
    },
    /// One that is in no execution begins one as a child, with somebody's token.
    BeginChild {
        nth: usize,
        token: usize,
        how: How,
    },
    /// A player ends what it began last. `dropped`: a guard is dropped, or a closure panics, and lets nobody
    /// go first.
    End {
        nth: usize,
        dropped: bool,
    },
    /// A task is polled.
    Poll {
        nth: usize,
    },
    /// A task's future is dropped, whether or not it has been granted meanwhile.
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
    /// One is forfeited, whatever it does; or one that waits for something. It goes on, and finds out. Who waits
    /// to be in an execution has nothing to forfeit.
    Forfeit {
        nth: usize,
        waits: bool,
    },
    /// Time passes until the next deadline has.
    Deadline,
}

/// What is begun, and ended some time later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Block {
    /// An execution, or a share more of one.
    Run,
    Load,
    Unload,
    /// An unload that is not done if somebody else has done it meanwhile.
    UnloadOnce,
    Permit,
    /// Waits for all children, keeps the share, and says so.
    Wait,
    /// The same in a permit block, without the share.
    PermitWait,
}

/// How long a player wants to wait, and as what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    Forever,
    Try,
    /// Until a deadline of its own.
    For,
    /// As a task, polled when it is told to be.
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

/// Of all kinds, or of parents, children and waits only: deadlocks are in families. Or of what is begun when
/// something has changed: many want to unload at a time, and one of them does.
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
