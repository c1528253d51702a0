//! Walks through the machine as ruled, which `spawner/loaders/conformance.py` plays against real loaders.
//!
//! A walk is a sequence of actions from the first connection until no actor can move. The walks here are random, and each one
//! has two actions in a row that none before it had. `spawner/loaders/walks.txt` has one in each line.

use crate::checking::machine::Machine;
use crate::kept::machine::{Action, Config, May};
use crate::kept::rules::Rules;
use crate::kept::state::{KeptSession, Kind};
use std::collections::HashSet;

/// The number of walks that are tried.
const TRIES: usize = 4_000;

/// The session that the walks go through.
pub fn session() -> Config {
    Config {
        about: "everything that a driver can bring about in a real process",
        requests: 3,
        may: &[May::Abandon, May::Abort, May::Read, May::Write, May::Fork],
        rules: Rules::AS_MENDED,
    }
}

/// Returns the walks, one a line.
pub fn text() -> String {
    let config = session();
    let mut random: u64 = 0x9E37_79B9_7F4A_7C15;
    let mut seen = HashSet::new();
    let mut text = String::new();
    for _ in 0..TRIES {
        let (mut state, mut names) = (config.initial(), Vec::<String>::new());
        let mut is_new = false;
        loop {
            let actions = config.actions(&state);
            if actions.is_empty() {
                break;
            }
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let action = actions[(random >> 16) as usize % actions.len()];
            let name = name(&state, action);
            state = config.step(&state, &action);
            let before = names.last().map_or("", |name| word(name));
            is_new |= seen.insert(format!("{before} {}", word(&name)));
            names.push(name);
        }
        if is_new {
            text += &names.join(" ");
            text.push('\n');
        }
    }
    text
}

/// Returns the name without the request.
fn word(name: &str) -> &str {
    name.split(':').next().unwrap_or_default()
}

/// Returns the name of an action in a walk: `reader-takes:1` is of the second request.
fn name(state: &KeptSession, action: Action) -> String {
    let of = |name: &str, request| format!("{name}:{request}");
    match action {
        Action::Connect => "connect".into(),
        Action::Begin => "begin".into(),
        Action::Send => "send".into(),
        Action::Receive => {
            let first = state.connection.as_ref().and_then(|c| c.answers.first());
            match first.map(|item| item.kind) {
                Some(Kind::End) => "receive-end".into(),
                Some(Kind::Abort) => "receive-abort".into(),
                _ => "receive".into(),
            }
        }
        Action::NoticeEnd => "notice-end".into(),
        Action::Abandon { at_once: true } => "hang-up".into(),
        Action::Abandon { at_once: false } => "half-close".into(),
        Action::TakeHead => "take-head".into(),
        Action::Read => "read".into(),
        Action::Write => "write".into(),
        Action::EndAnswer => "end-answer".into(),
        Action::EndInput(request) => of("end-input", request),
        Action::Abort => "abort".into(),
        Action::Crash => "crash".into(),
        Action::Discard => "discard".into(),
        Action::LeaveReader => "leave-reader".into(),
        Action::ReaderBegins(request) => of("reader-begins", request),
        Action::ReaderGets(request) => of("reader-gets", request),
        Action::ReaderTakes(request) => of("reader-takes", request),
        Action::LeaveWriter => "leave-writer".into(),
        Action::WriterWrites(request) => of("writer-writes", request),
        Action::Fork => "fork".into(),
        Action::ChildGoesOn(request) => of("child-goes-on", request),
        Action::ChildReads(request) => of("child-reads", request),
    }
}
