//! The promises of a kept session.

use crate::checking::promises::{invariants, liveness, step_properties};
use crate::kept::machine::{Action, Config};
use crate::kept::state::{Client, Kind};

invariants! {
    Config:
    "INV-KS-OWN-BYTES"
        "each byte that the input of a request yields, and each byte that a client receives, belongs to that request"
        |_, s| s.foreign.is_none();
    "INV-KS-ONE-ATTEMPT" "the bytes that a client receives are of one attempt"
        |_, s| !s.has_mixed;
    "INV-KS-IN-TURN" "the server awaits one answer at a time, on a connection"
        |_, s| s.awaited.is_none() || s.connection.is_some();
}

step_properties! {
    Config:
    "PROP-KS-WHOLE" "a client that takes its answer for whole has got the end of it"
        |_, before, action, after| {
            let request = usize::from(before.awaited?);
            let is_new = after.clients[request] == Client::Answered && before.clients[request] != Client::Answered;
            is_new.then(|| {
                let first = before.connection.as_ref().and_then(|c| c.answers.first());
                *action == Action::Receive && first.is_some_and(|item| item.kind == Kind::End)
            })
        };
    "PROP-KS-INPUT-FIRST" "when the end of an answer is sent, its input has ended"
        |_, before, action, after| {
            let serving = before.serving?;
            (*action == Action::EndAnswer).then(|| !after.left[usize::from(serving.request)].is_input_open)
        };
}

liveness! {
    Config:
    "PROP-KS-ENDS" "each client gets its answer, or an error"
        assumes "the server and the loader go on, and the application ends each answer"
        promised true; applies |_| true; may 0; fair |_| true;
        subjects |config| config.requests;
        not_yet |_, s, request| matches!(s.clients[request], Client::Waits { .. });
}
