//! The table: each cause of an end, in each state of the answer.

use crate::observe::record::Ended;
use cabrank_spawner::Protocol::{self, HttpSession, KeptSession, Session};

/// The event that ends the exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// The application sends the rest of its answer.
    Finishes,
    /// The process closes the connection, and lives on.
    Closes,
    /// The process dies.
    Dies,
    /// The process dies, and a daemon that it has forked holds the connection open.
    DiesUnseen,
    /// The application sends bytes that are no answer.
    TalksNonsense,
    /// The application gives the request up (kept sessions).
    Aborts,
    /// The process takes longer than `--max-request-time`.
    TakesTooLong,
    /// The client closes its connection.
    Leaves,
    /// The client closes its connection within its body.
    LeavesWithinItsBody,
    /// The client sends no more of its body.
    StopsSending,
    /// The client sends a malformed body.
    SendsNonsense,
    /// The client does not read the answer, which is too large for the buffers.
    ReadsNothing,
    /// As `ReadsNothing`, and the answer fits into the buffers.
    ReadsNothingOfASmallAnswer,
}

/// The part of the answer that the application has sent before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Nothing,
    Head,
    Part,
}

/// How the end of the answer shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    Length,
    Unknown,
}

/// The answer that the client gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Got {
    Nothing,
    Page(u16),
    Head,
    Part,
    Whole,
}

/// The fate of the client's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    Stays,
    Closes,
}

/// The fate of the session, and of the connection to the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Both are given back.
    Kept,
    /// The session ends, and the connection closes.
    Closed,
    /// The process leaves the pool, the session ends, and the connection closes.
    Detached,
    /// The process leaves the pool as a failed one, gets a signal, and its session ends.
    Ended,
    /// The application learns that its client has left. The session ends when it has finished, and not before.
    Waits,
}

pub(super) struct Row {
    pub(super) cause: Cause,
    pub(super) state: State,
    pub(super) lanes: &'static [Protocol],
    pub(super) framings: &'static [Framing],
    pub(super) end: Ended,
    pub(super) got: Got,
    pub(super) then: Then,
    pub(super) fate: Fate,
}

pub(super) const ALL: &[Protocol] = &[Session, KeptSession, HttpSession];
pub(super) const BOTH: &[Framing] = &[Framing::Length, Framing::Unknown];
pub(super) const LENGTH: &[Framing] = &[Framing::Length];
pub(super) const UNKNOWN: &[Framing] = &[Framing::Unknown];

const fn row(
    cause: Cause,
    state: State,
    lanes: &'static [Protocol],
    framings: &'static [Framing],
    (end, got, then): (Ended, Got, Then),
    fate: Fate,
) -> Row {
    Row { cause, state, lanes, framings, end, got, then, fate }
}

use Cause::*;
use Then::{Closes as Ends, Stays};

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    row(Finishes, State::Nothing, &[Session], BOTH, (Ended::Answered, Got::Whole, Stays), Fate::Closed),
    row(Finishes, State::Nothing, &[KeptSession, HttpSession], BOTH, (Ended::Answered, Got::Whole, Stays), Fate::Kept),
    row(Finishes, State::Head, &[Session], BOTH, (Ended::Answered, Got::Whole, Stays), Fate::Closed),
    row(Finishes, State::Head, &[KeptSession, HttpSession], BOTH, (Ended::Answered, Got::Whole, Stays), Fate::Kept),
    row(Finishes, State::Part, &[Session], BOTH, (Ended::Answered, Got::Whole, Stays), Fate::Closed),
    row(Finishes, State::Part, &[KeptSession, HttpSession], BOTH, (Ended::Answered, Got::Whole, Stays), Fate::Kept),
    row(Closes, State::Nothing, ALL, BOTH, (Ended::Refused, Got::Page(502), Stays), Fate::Closed),
    row(Closes, State::Head, ALL, LENGTH, (Ended::Cut, Got::Head, Ends), Fate::Closed),
    // A living process ends an answer of unknown length so.
    row(Closes, State::Head, &[Session], UNKNOWN, (Ended::Answered, Got::Whole, Stays), Fate::Closed),
    row(Closes, State::Head, &[KeptSession, HttpSession], UNKNOWN, (Ended::Cut, Got::Head, Ends), Fate::Closed),
    row(Closes, State::Part, ALL, LENGTH, (Ended::Cut, Got::Part, Ends), Fate::Closed),
    row(Closes, State::Part, &[Session], UNKNOWN, (Ended::Answered, Got::Whole, Stays), Fate::Closed),
    row(Closes, State::Part, &[KeptSession, HttpSession], UNKNOWN, (Ended::Cut, Got::Part, Ends), Fate::Closed),
    row(Dies, State::Nothing, ALL, BOTH, (Ended::Refused, Got::Page(502), Stays), Fate::Detached),
    row(Dies, State::Head, ALL, BOTH, (Ended::Cut, Got::Head, Ends), Fate::Detached),
    row(Dies, State::Part, ALL, BOTH, (Ended::Cut, Got::Part, Ends), Fate::Detached),
    row(DiesUnseen, State::Nothing, ALL, BOTH, (Ended::Refused, Got::Page(502), Stays), Fate::Detached),
    row(DiesUnseen, State::Head, ALL, BOTH, (Ended::Cut, Got::Head, Ends), Fate::Detached),
    row(DiesUnseen, State::Part, ALL, BOTH, (Ended::Cut, Got::Part, Ends), Fate::Detached),
    row(TalksNonsense, State::Nothing, ALL, BOTH, (Ended::Refused, Got::Page(502), Stays), Fate::Closed),
    row(TalksNonsense, State::Head, &[KeptSession], BOTH, (Ended::Cut, Got::Head, Ends), Fate::Closed),
    row(TalksNonsense, State::Head, &[HttpSession], UNKNOWN, (Ended::Cut, Got::Head, Ends), Fate::Closed),
    row(TalksNonsense, State::Part, &[KeptSession], BOTH, (Ended::Cut, Got::Part, Ends), Fate::Closed),
    row(TalksNonsense, State::Part, &[HttpSession], UNKNOWN, (Ended::Cut, Got::Part, Ends), Fate::Closed),
    row(Aborts, State::Nothing, &[KeptSession], BOTH, (Ended::Refused, Got::Page(502), Stays), Fate::Closed),
    row(Aborts, State::Head, &[KeptSession], BOTH, (Ended::Cut, Got::Head, Ends), Fate::Closed),
    row(Aborts, State::Part, &[KeptSession], BOTH, (Ended::Cut, Got::Part, Ends), Fate::Closed),
    row(TakesTooLong, State::Nothing, ALL, BOTH, (Ended::Refused, Got::Page(504), Stays), Fate::Ended),
    row(TakesTooLong, State::Head, ALL, BOTH, (Ended::TooLong, Got::Head, Ends), Fate::Ended),
    row(TakesTooLong, State::Part, ALL, BOTH, (Ended::TooLong, Got::Part, Ends), Fate::Ended),
    row(Leaves, State::Nothing, ALL, BOTH, (Ended::Left, Got::Nothing, Ends), Fate::Waits),
    // Without frames, the application has one more second after its first byte.
    row(Leaves, State::Head, &[Session, HttpSession], BOTH, (Ended::Left, Got::Head, Ends), Fate::Closed),
    row(Leaves, State::Head, &[KeptSession], BOTH, (Ended::Left, Got::Head, Ends), Fate::Waits),
    row(Leaves, State::Part, &[Session, HttpSession], BOTH, (Ended::Left, Got::Part, Ends), Fate::Closed),
    row(Leaves, State::Part, &[KeptSession], BOTH, (Ended::Left, Got::Part, Ends), Fate::Waits),
    row(LeavesWithinItsBody, State::Nothing, ALL, BOTH, (Ended::Left, Got::Nothing, Ends), Fate::Waits),
    row(LeavesWithinItsBody, State::Head, &[Session, HttpSession], BOTH, (Ended::Left, Got::Head, Ends), Fate::Closed),
    row(LeavesWithinItsBody, State::Head, &[KeptSession], BOTH, (Ended::Left, Got::Head, Ends), Fate::Waits),
    row(LeavesWithinItsBody, State::Part, &[Session, HttpSession], BOTH, (Ended::Left, Got::Part, Ends), Fate::Closed),
    row(LeavesWithinItsBody, State::Part, &[KeptSession], BOTH, (Ended::Left, Got::Part, Ends), Fate::Waits),
    row(StopsSending, State::Nothing, ALL, BOTH, (Ended::Refused, Got::Page(408), Ends), Fate::Waits),
    row(StopsSending, State::Head, &[Session, HttpSession], BOTH, (Ended::GivenUp, Got::Head, Ends), Fate::Closed),
    row(StopsSending, State::Head, &[KeptSession], BOTH, (Ended::GivenUp, Got::Head, Ends), Fate::Waits),
    row(StopsSending, State::Part, &[Session, HttpSession], BOTH, (Ended::GivenUp, Got::Part, Ends), Fate::Closed),
    row(StopsSending, State::Part, &[KeptSession], BOTH, (Ended::GivenUp, Got::Part, Ends), Fate::Waits),
    row(SendsNonsense, State::Nothing, ALL, BOTH, (Ended::Refused, Got::Page(400), Ends), Fate::Waits),
    row(SendsNonsense, State::Head, &[Session, HttpSession], BOTH, (Ended::GivenUp, Got::Head, Ends), Fate::Closed),
    row(SendsNonsense, State::Head, &[KeptSession], BOTH, (Ended::GivenUp, Got::Head, Ends), Fate::Waits),
    row(SendsNonsense, State::Part, &[Session, HttpSession], BOTH, (Ended::GivenUp, Got::Part, Ends), Fate::Closed),
    row(SendsNonsense, State::Part, &[KeptSession], BOTH, (Ended::GivenUp, Got::Part, Ends), Fate::Waits),
    // The rest of the answer is read all the same, up to its end.
    row(ReadsNothing, State::Part, ALL, BOTH, (Ended::GivenUp, Got::Part, Ends), Fate::Closed),
    row(ReadsNothingOfASmallAnswer, State::Part, &[Session], BOTH, (Ended::GivenUp, Got::Part, Ends), Fate::Closed),
    row(ReadsNothingOfASmallAnswer, State::Part, &[KeptSession, HttpSession], BOTH, (Ended::GivenUp, Got::Part, Ends), Fate::Kept),
];

impl Cause {
    /// Returns the request of the client.
    pub(super) fn request(self) -> &'static str {
        match self {
            LeavesWithinItsBody | StopsSending => {
                "Content-Length: 1000\r\n\r\nthe beginning of a body"
            }
            SendsNonsense => "Transfer-Encoding: chunked\r\n\r\n17\r\nthe beginning of a body\r\n",
            _ => "Content-Length: 3\r\n\r\nabc",
        }
    }

    /// Returns a part of the request that the application sees.
    pub(super) fn mark(self) -> &'static [u8] {
        match self {
            LeavesWithinItsBody | StopsSending | SendsNonsense => b"the beginning of",
            _ => b"abc",
        }
    }

    /// Returns whether a client that has ended its output can be the cause.
    pub(super) fn allows_half_close(self) -> bool {
        matches!(
            self,
            Finishes | Closes | Dies | DiesUnseen | TalksNonsense | Aborts | TakesTooLong
        )
    }

    /// Returns the body of the answer.
    pub(super) fn body(self) -> Vec<u8> {
        let size = match self {
            ReadsNothing => 1 << 20,
            ReadsNothingOfASmallAnswer => 100_000,
            _ => 10,
        };
        b"0123456789".repeat(size / 10)
    }
}
