//! The table: each cause of an end, in each state of the answer.

use crate::exchange::played::MAX_BODY;
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
    /// The application sends bytes behind its answer.
    SaysMore,
    /// The application finishes, and says that it closes the connection, but leaves that to the server.
    AnnouncesClose,
    /// The application finishes before it has got the body, and reads on. The client sends the rest.
    FinishesEarly,
    /// The application reads no further, and finishes. The client sends the rest.
    StopsReading,
    /// The client has ended its output, and closes its connection before the application finishes.
    LeavesAfterHalfClose,
    /// The client ends its output within its body.
    EndsWithinItsBody,
    /// The server begins to stop, and the application finishes.
    TheServerStops,
    /// The declared body is too large.
    IsTooLarge,
    /// As `IsTooLarge`, and the client asks before it sends the body.
    AsksToSendTooMuch,
    /// The body turns out to be too large.
    GrowsTooLarge,
    /// The server cannot write the file of the body.
    LacksSpace,
    /// The server lacks what it needs for a connection to the process.
    LacksConnections,
    /// The application switches protocols, and both sides end.
    Switches,
    /// The application switches protocols, although the client has not asked for it.
    SwitchesUnasked,
}

/// The part of the answer that the application has sent before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Nothing,
    Head,
    Part,
    /// Its last byte, and in the protocol `session` the end of its output.
    Written,
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
    /// The head after which the connection speaks another protocol.
    Switch,
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
    /// No process was asked.
    Unasked,
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
    row(ReadsNothing, State::Nothing, ALL, BOTH, (Ended::GivenUp, Got::Part, Ends), Fate::Closed),
    row(ReadsNothing, State::Head, ALL, BOTH, (Ended::GivenUp, Got::Part, Ends), Fate::Closed),
    // The application has finished, and the client has taken a part of a large answer.
    row(Leaves, State::Written, &[Session], BOTH, (Ended::Left, Got::Part, Ends), Fate::Closed),
    row(Leaves, State::Written, &[KeptSession, HttpSession], BOTH, (Ended::Left, Got::Part, Ends), Fate::Kept),
    row(Dies, State::Written, &[Session], BOTH, (Ended::Answered, Got::Whole, Stays), Fate::Closed),
    row(Dies, State::Written, &[KeptSession, HttpSession], BOTH, (Ended::Answered, Got::Whole, Stays), Fate::Kept),
    row(TakesTooLong, State::Written, &[Session], BOTH, (Ended::GivenUp, Got::Part, Ends), Fate::Closed),
    row(TakesTooLong, State::Written, &[KeptSession, HttpSession], BOTH, (Ended::GivenUp, Got::Part, Ends), Fate::Kept),
    // The application has finished, and the client has not sent its whole body. In HTTP it may read on.
    row(LeavesWithinItsBody, State::Written, &[Session, KeptSession], BOTH, (Ended::Answered, Got::Whole, Ends), Fate::Closed),
    row(LeavesWithinItsBody, State::Written, &[HttpSession], BOTH, (Ended::Left, Got::Whole, Ends), Fate::Closed),
    row(EndsWithinItsBody, State::Written, &[Session, KeptSession], BOTH, (Ended::Answered, Got::Whole, Ends), Fate::Closed),
    row(EndsWithinItsBody, State::Written, &[HttpSession], BOTH, (Ended::Left, Got::Whole, Ends), Fate::Closed),
    row(StopsSending, State::Written, &[Session, KeptSession], BOTH, (Ended::Answered, Got::Whole, Ends), Fate::Closed),
    row(StopsSending, State::Written, &[HttpSession], BOTH, (Ended::GivenUp, Got::Whole, Ends), Fate::Closed),
    row(SendsNonsense, State::Written, &[Session, KeptSession], BOTH, (Ended::Answered, Got::Whole, Ends), Fate::Closed),
    row(SendsNonsense, State::Written, &[HttpSession], BOTH, (Ended::GivenUp, Got::Whole, Ends), Fate::Closed),
    row(EndsWithinItsBody, State::Nothing, ALL, BOTH, (Ended::Left, Got::Nothing, Ends), Fate::Waits),
    row(EndsWithinItsBody, State::Head, &[Session, HttpSession], BOTH, (Ended::Left, Got::Head, Ends), Fate::Closed),
    row(EndsWithinItsBody, State::Head, &[KeptSession], BOTH, (Ended::Left, Got::Head, Ends), Fate::Waits),
    row(EndsWithinItsBody, State::Part, &[Session, HttpSession], BOTH, (Ended::Left, Got::Part, Ends), Fate::Closed),
    row(EndsWithinItsBody, State::Part, &[KeptSession], BOTH, (Ended::Left, Got::Part, Ends), Fate::Waits),
    // A write shows that the client is gone.
    row(LeavesAfterHalfClose, State::Nothing, &[Session], BOTH, (Ended::Left, Got::Nothing, Ends), Fate::Closed),
    row(LeavesAfterHalfClose, State::Nothing, &[KeptSession, HttpSession], BOTH, (Ended::Left, Got::Nothing, Ends), Fate::Kept),
    row(LeavesAfterHalfClose, State::Head, &[Session], BOTH, (Ended::Left, Got::Head, Ends), Fate::Closed),
    row(LeavesAfterHalfClose, State::Head, &[KeptSession, HttpSession], BOTH, (Ended::Left, Got::Head, Ends), Fate::Kept),
    row(LeavesAfterHalfClose, State::Part, &[Session], BOTH, (Ended::Left, Got::Part, Ends), Fate::Closed),
    row(LeavesAfterHalfClose, State::Part, &[KeptSession, HttpSession], BOTH, (Ended::Left, Got::Part, Ends), Fate::Kept),
    row(SaysMore, State::Nothing, &[KeptSession, HttpSession], BOTH, (Ended::Answered, Got::Whole, Stays), Fate::Closed),
    row(AnnouncesClose, State::Nothing, &[HttpSession], BOTH, (Ended::Answered, Got::Whole, Stays), Fate::Closed),
    row(FinishesEarly, State::Nothing, &[Session, KeptSession], BOTH, (Ended::Answered, Got::Whole, Stays), Fate::Closed),
    row(FinishesEarly, State::Nothing, &[HttpSession], BOTH, (Ended::Answered, Got::Whole, Stays), Fate::Kept),
    row(StopsReading, State::Nothing, ALL, BOTH, (Ended::Answered, Got::Whole, Stays), Fate::Closed),
    row(TheServerStops, State::Nothing, &[Session], BOTH, (Ended::Answered, Got::Whole, Ends), Fate::Closed),
    row(TheServerStops, State::Nothing, &[KeptSession, HttpSession], BOTH, (Ended::Answered, Got::Whole, Ends), Fate::Kept),
    row(SaysMore, State::Head, &[KeptSession, HttpSession], BOTH, (Ended::Answered, Got::Whole, Stays), Fate::Closed),
    row(AnnouncesClose, State::Head, &[HttpSession], BOTH, (Ended::Answered, Got::Whole, Stays), Fate::Closed),
    row(FinishesEarly, State::Head, &[Session, KeptSession], BOTH, (Ended::Answered, Got::Whole, Stays), Fate::Closed),
    row(FinishesEarly, State::Head, &[HttpSession], BOTH, (Ended::Answered, Got::Whole, Stays), Fate::Kept),
    row(StopsReading, State::Head, ALL, BOTH, (Ended::Answered, Got::Whole, Stays), Fate::Closed),
    row(TheServerStops, State::Head, &[Session], BOTH, (Ended::Answered, Got::Whole, Ends), Fate::Closed),
    row(TheServerStops, State::Head, &[KeptSession, HttpSession], BOTH, (Ended::Answered, Got::Whole, Ends), Fate::Kept),
    row(SaysMore, State::Part, &[KeptSession, HttpSession], BOTH, (Ended::Answered, Got::Whole, Stays), Fate::Closed),
    row(AnnouncesClose, State::Part, &[HttpSession], BOTH, (Ended::Answered, Got::Whole, Stays), Fate::Closed),
    row(FinishesEarly, State::Part, &[Session, KeptSession], BOTH, (Ended::Answered, Got::Whole, Stays), Fate::Closed),
    row(FinishesEarly, State::Part, &[HttpSession], BOTH, (Ended::Answered, Got::Whole, Stays), Fate::Kept),
    row(StopsReading, State::Part, ALL, BOTH, (Ended::Answered, Got::Whole, Stays), Fate::Closed),
    row(TheServerStops, State::Part, &[Session], BOTH, (Ended::Answered, Got::Whole, Ends), Fate::Closed),
    row(TheServerStops, State::Part, &[KeptSession, HttpSession], BOTH, (Ended::Answered, Got::Whole, Ends), Fate::Kept),
    // Refusals. The body is read before the next request, if it comes.
    row(IsTooLarge, State::Nothing, ALL, LENGTH, (Ended::Refused, Got::Page(413), Stays), Fate::Unasked),
    row(AsksToSendTooMuch, State::Nothing, ALL, LENGTH, (Ended::Refused, Got::Page(413), Ends), Fate::Unasked),
    row(GrowsTooLarge, State::Nothing, ALL, LENGTH, (Ended::Refused, Got::Page(413), Ends), Fate::Waits),
    row(LacksSpace, State::Nothing, ALL, LENGTH, (Ended::Refused, Got::Page(503), Stays), Fate::Unasked),
    // It is not the fault of the process, which stays in the pool.
    row(LacksConnections, State::Nothing, &[Session], LENGTH, (Ended::Refused, Got::Page(503), Stays), Fate::Closed),
    row(Switches, State::Nothing, &[KeptSession, HttpSession], LENGTH, (Ended::Switched, Got::Switch, Ends), Fate::Closed),
    row(SwitchesUnasked, State::Nothing, ALL, LENGTH, (Ended::Refused, Got::Page(502), Stays), Fate::Closed),
];

impl Cause {
    /// Returns the request of the client.
    pub(super) fn request(self) -> String {
        let method = if self == Switches { "GET" } else { "POST" };
        let too_much = "b".repeat(MAX_BODY as usize + 1);
        let rest = match self {
            LeavesWithinItsBody | EndsWithinItsBody | StopsSending | FinishesEarly
            | StopsReading => "Content-Length: 1000\r\n\r\nthe beginning of a body".into(),
            SendsNonsense | GrowsTooLarge => {
                "Transfer-Encoding: chunked\r\n\r\n17\r\nthe beginning of a body\r\n".into()
            }
            IsTooLarge => format!("Content-Length: {}\r\n\r\n{too_much}", too_much.len()),
            AsksToSendTooMuch => {
                format!("Content-Length: {}\r\nExpect: 100-continue\r\n\r\n", too_much.len())
            }
            LacksSpace => format!("Content-Length: 300000\r\n\r\n{}", "b".repeat(300_000)),
            Switches => "Connection: upgrade\r\nUpgrade: echo\r\n\r\n".into(),
            _ => "Content-Length: 3\r\n\r\nabc".into(),
        };
        format!("{method} / HTTP/1.1\r\nHost: a\r\n{rest}")
    }

    /// Returns the part of the body that [`request`](Self::request) lacks.
    pub(super) fn rest_of_request(self) -> Vec<u8> {
        vec![b'r'; 1000 - "the beginning of a body".len()]
    }

    /// Returns a part of the request that the application sees; `None`: it sees no request.
    pub(super) fn mark(self) -> Option<&'static [u8]> {
        match self {
            LeavesWithinItsBody | EndsWithinItsBody | StopsSending | SendsNonsense
            | FinishesEarly | StopsReading | GrowsTooLarge => Some(b"the beginning of"),
            IsTooLarge | AsksToSendTooMuch | LacksSpace | LacksConnections => None,
            Switches => Some(b"echo"),
            _ => Some(b"abc"),
        }
    }

    /// Returns whether a client that has ended its output can be the cause.
    pub(super) fn allows_half_close(self, state: State) -> bool {
        match self {
            Finishes
            | Closes
            | Dies
            | DiesUnseen
            | TalksNonsense
            | Aborts
            | TakesTooLong
            | ReadsNothing
            | ReadsNothingOfASmallAnswer
            | SaysMore
            | AnnouncesClose
            | TheServerStops
            | IsTooLarge
            | LacksSpace
            | LacksConnections
            | SwitchesUnasked => true,
            // Else the server cannot know: see `LeavesAfterHalfClose`.
            Leaves => state == State::Written,
            LeavesAfterHalfClose | LeavesWithinItsBody | EndsWithinItsBody | StopsSending
            | SendsNonsense | FinishesEarly | StopsReading | AsksToSendTooMuch | GrowsTooLarge
            | Switches => false,
        }
    }

    /// Returns whether the application has finished its answer in the end.
    pub(super) fn has_finished(self, state: State) -> bool {
        state == State::Written
            || match self {
                Finishes
                | ReadsNothingOfASmallAnswer
                | SaysMore
                | AnnouncesClose
                | FinishesEarly
                | StopsReading
                | LeavesAfterHalfClose
                | TheServerStops => true,
                Closes | Dies | DiesUnseen | TalksNonsense | Aborts | TakesTooLong | Leaves
                | LeavesWithinItsBody | EndsWithinItsBody | StopsSending | SendsNonsense
                | ReadsNothing | IsTooLarge | AsksToSendTooMuch | GrowsTooLarge | LacksSpace
                | LacksConnections | Switches | SwitchesUnasked => false,
            }
    }

    /// Returns the body of the answer.
    pub(super) fn body(self, state: State) -> Vec<u8> {
        let size = match (self, state) {
            (ReadsNothing, _) => 1 << 20,
            (ReadsNothingOfASmallAnswer, _) => LARGE,
            (Leaves | Dies | TakesTooLong, State::Written) => LARGE,
            _ => SMALL,
        };
        b"0123456789".repeat(size / 10)
    }
}

/// The size of an answer that the kernel takes from the server.
pub(super) const SMALL: usize = 10;
/// The size of an answer that the kernel does not take from the server, which takes it from the application.
const LARGE: usize = 100_000;
