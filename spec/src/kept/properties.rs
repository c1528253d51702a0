//! The promises of a kept session.

use crate::checking::check::{
    Invariant, Liveness, Promises, StepProperty, invariants, step_properties,
};
use crate::checking::machine::{Counterexample, UNFAIR};
use crate::kept::machine::{Action, Config};
use crate::kept::state::{Client, KeptSession, Kind};
use crate::kept::story;

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

/// The properties that come about in the end.
pub const LIVENESS: &[Liveness<Config>] = &[Liveness {
    name: "PROP-KS-ENDS",
    says: "each client gets its answer, or an error",
    assumes: "the server and the loader go on, and the application ends each answer",
    may: 0,
    promised: true,
    applies: |_| true,
    subjects: |config| config.requests,
    not_yet: |_, s, request| matches!(s.clients[request], Client::Waits { .. }),
}];

impl Promises for Config {
    const INVARIANTS: &'static [Invariant<Self>] = INVARIANTS;
    const STEP_PROPERTIES: &'static [StepProperty<Self>] = STEP_PROPERTIES;
    const LIVENESS: &'static [Liveness<Self>] = LIVENESS;

    /// The server, the loader and the end of each answer are fair. The other actions of the application are not.
    fn kind_and_class(_: &KeptSession, action: &Action) -> (u8, u8) {
        let class = match action {
            Action::Connect | Action::Begin => 0,
            Action::Send => 1,
            Action::Receive => 2,
            Action::NoticeEnd => 3,
            Action::TakeHead | Action::Discard => 4,
            Action::EndAnswer => 5,
            _ => UNFAIR,
        };
        (0, class)
    }

    fn describe(&self, counterexample: &Counterexample<Action>) -> String {
        story::describe(self, counterexample)
    }
}
