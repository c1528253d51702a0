//! The machine that is explored: a kept session, its clients, and the possible actions.

use crate::checking::machine::Machine;
use crate::kept::rules::Defect::ChildGoesOn;
use crate::kept::rules::Planted::{EndWithoutNews, InputEndsLate};
use crate::kept::rules::Rules;
use crate::kept::state::{Child, Client, KeptSession, Remnant, Request};

/// An optional event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it, and the actions")]
pub enum May {
    Abandon,
    Abort,
    /// The process dies, and another takes its place.
    Crash,
    /// Threads that read by one step, as the loaders here do.
    Read,
    /// Threads whose read may be in progress when the answer ends.
    ReadWithin,
    Write,
    Fork,
}

/// A kept session to be explored.
#[derive(Clone, Debug)]
pub struct Config {
    /// The behaviour that it explores.
    pub about: &'static str,
    /// The number of requests.
    pub requests: usize,
    /// The events that may happen.
    pub may: &'static [May],
    /// The rules.
    pub rules: Rules,
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names say it, and the functions that carry them out")]
pub enum Action {
    Connect,
    Begin,
    Send,
    Receive,
    NoticeEnd,
    Abandon {
        at_once: bool,
    },
    TakeHead,
    Read,
    Write,
    EndAnswer,
    /// The input of a request whose answer has ended: a planted fault.
    EndInput(Request),
    Abort,
    Crash,
    Discard,
    LeaveReader,
    ReaderBegins(Request),
    ReaderGets(Request),
    ReaderTakes(Request),
    LeaveWriter,
    WriterWrites(Request),
    Fork,
    ChildGoesOn(Request),
    ChildReads(Request),
}

impl Machine for Config {
    type State = KeptSession;
    type Action = Action;

    fn initial(&self) -> KeptSession {
        KeptSession::new(self.requests, self.rules)
    }

    fn actions(&self, s: &KeptSession) -> Vec<Action> {
        let mut actions = vec![];
        let mut when = |condition: bool, action| {
            if condition {
                actions.push(action);
            }
        };
        let may = |what| self.may.contains(&what);
        let of = |request: Request| {
            let is_same = s.left[usize::from(request)].connection == s.connections;
            s.connection.as_ref().filter(|connection| is_same && !connection.is_ended)
        };
        let has_item = |request| of(request).is_some_and(|c| !c.requests.is_empty());
        when(s.connection.is_none() && s.next_request().is_some(), Action::Connect);
        if let Some(connection) = &s.connection {
            let is_open = !connection.is_ended;
            when(is_open && s.next_request().is_some(), Action::Begin);
            when(is_open && !s.to_send.is_empty(), Action::Send);
            when(!connection.answers.is_empty(), Action::Receive);
            let notices = !self.rules.has(EndWithoutNews);
            let is_over = connection.is_ended && connection.answers.is_empty();
            when(is_over && notices, Action::NoticeEnd);
            let has_client = s.awaited.is_some_and(|r| s.clients[usize::from(r)] != Client::Left);
            for at_once in [false, true] {
                when(may(May::Abandon) && has_client, Action::Abandon { at_once });
            }
            let is_there = !connection.requests.is_empty();
            when(is_there && s.serving.is_none() && s.unread.is_none(), Action::TakeHead);
            when(is_there && s.serving.is_none() && s.unread.is_some(), Action::Discard);
        }
        when(may(May::Crash) && !s.has_crashed && s.connection.is_some(), Action::Crash);
        if let Some(serving) = s.serving {
            let left = s.left[usize::from(serving.request)];
            when(!left.is_read && has_item(serving.request), Action::Read);
            when(!serving.has_written, Action::Write);
            when(true, Action::EndAnswer);
            when(may(May::Abort), Action::Abort);
            let reads = may(May::Read) || may(May::ReadWithin);
            when(reads && left.reader == Remnant::None, Action::LeaveReader);
            when(may(May::Write) && left.writer == Remnant::None, Action::LeaveWriter);
            when(may(May::Fork) && left.child == Child::None, Action::Fork);
        }
        for (request, left) in (0..).zip(&s.left) {
            let is_there = has_item(request);
            let is_gone = of(request).is_none_or(|connection| connection.is_half_closed);
            let serves = s.serving.is_some_and(|s| s.request == request);
            let lags = self.rules.has(InputEndsLate) && left.is_input_open && !serves;
            when(lags, Action::EndInput(request));
            let is_free = left.reader == Remnant::Free;
            when(is_free && may(May::ReadWithin), Action::ReaderBegins(request));
            let one_step =
                is_free && may(May::Read) && (is_there || is_gone || !left.is_input_open);
            when(one_step, Action::ReaderTakes(request));
            let ends = left.reader == Remnant::Within && (is_there || is_gone);
            when(ends, Action::ReaderGets(request));
            let writes = matches!(left.writer, Remnant::Free | Remnant::Within);
            when(writes, Action::WriterWrites(request));
            let runs = matches!(left.child, Child::Runs { .. });
            when(runs, Action::ChildGoesOn(request));
            let reads = runs && is_there && self.rules.original(ChildGoesOn);
            when(reads, Action::ChildReads(request));
        }
        actions
    }

    fn step(&self, state: &KeptSession, action: &Action) -> KeptSession {
        let mut s = state.clone();
        match *action {
            Action::Connect => s.connect(),
            Action::Begin => s.begin(),
            Action::Send => s.send_next(),
            Action::Receive => s.receive(),
            Action::NoticeEnd => s.notice_end(),
            Action::Abandon { at_once } => s.abandon(at_once),
            Action::TakeHead => s.take_head(),
            Action::Read => s.read(),
            Action::Write => s.write(),
            Action::EndAnswer => s.end_answer(),
            Action::EndInput(request) => s.end_input(request),
            Action::Abort => s.abort(),
            Action::Crash => s.crash(),
            Action::Discard => s.discard(),
            Action::LeaveReader => s.leave(|left| left.reader = Remnant::Free),
            Action::ReaderBegins(request) => s.reader_begins(request),
            Action::ReaderGets(request) => s.reader_gets(request),
            Action::ReaderTakes(request) => s.reader_takes(request),
            Action::LeaveWriter => s.leave(|left| left.writer = Remnant::Free),
            Action::WriterWrites(request) => s.writer_writes(request),
            Action::Fork => s.leave(|left| left.child = Child::Runs { has_written: false }),
            Action::ChildGoesOn(request) => s.child_goes_on(request),
            Action::ChildReads(request) => s.child_reads(request),
        }
        s
    }

    fn normal(&self, _: &mut KeptSession) {}

    fn stuck(&self, state: &KeptSession, actions: &[Action]) -> bool {
        let waits = |client: &Client| matches!(client, Client::Waits { .. });
        actions.is_empty() && state.clients.iter().any(waits)
    }
}
