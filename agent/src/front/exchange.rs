//! The exchange of one request with its process: body to the application, answer to the client.
//!
//! One state machine moves bytes in all directions, as far as each goes without a wait:
//!
//! 1. the rest of the body from the client, if the body is too large to be read before;
//! 2. the request to the application;
//! 3. the answer from the application, at the application's pace: what the client does not take waits in
//!    memory, then in a file;
//! 4. the answer to the client.
//!
//! As soon as the application has finished, its session and connection are given back, whatever the client
//! still has to read.

use super::Reached;
use super::answer::Found;
use super::client::{Client, Left};
use super::core::Scratch;
use super::pace::{Pace, Slow};
use super::request_body::Body;
use super::sweep::Tick;
use super::work::Work;
use crate::app::handshake::Protocol;
use crate::app::kept;
use crate::http::chunked;
use crate::http::encode::{self, ConnectionField};
use crate::http::reply_head::ReplyFraming;
use crate::http::request_head::{RequestFraming, Version};
use crate::http::spool::Spool;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::AsyncWrite;

/// The number of bytes of an answer, or of a body on its way to the application, that wait in memory.
pub(crate) const IN_MEMORY: usize = 64 * 1024;
/// How long an application that has answered may go on reading the request.
const REST: Duration = Duration::from_secs(10);

/// The end of an exchange, or a reason to interrupt it.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The client has the whole answer.
    Done,
    /// There is no answer. The client has got no byte of one.
    Failed(Reached, String),
    /// The answer ended early, after the client has got a part of it.
    Cut(String),
    /// The connection of an answer without a length has ended. If the process is alive, that is the
    /// answer's end: [`Exchange::end_with_connection`].
    Closed,
    /// The client has left.
    Left,
    /// The client is too slow, or its body is malformed. The client has got no byte of an answer.
    Refused(u16, String),
    /// The client is too slow, or its body is malformed. The client has got a part of the answer.
    Broken(String),
    /// The request takes longer than `--max-request-time`.
    TooLong,
    /// The connection speaks another protocol now.
    Switched,
}

/// One attempt to answer a request.
#[derive(Debug)]
pub(crate) struct Exchange<'a> {
    client: &'a mut Client,
    scratch: &'a mut Scratch,
    body: &'a mut Body,
    /// `None` once the application has finished, and everything was given back.
    pub(crate) work: Option<Work>,
    upload: Upload,
    /// The number of bytes of `to_app` that the application got.
    written: usize,
    /// The bytes at the start of `from_app` that are data for the client, and those behind them that are not.
    ready: usize,
    after: usize,
    /// The number of bytes of `to_client` that the client got.
    sent: usize,
    /// The part of the answer that does not fit into `to_client`, and bytes on their way there.
    overflow: Option<Spool>,
    staged: Vec<u8>,
    answer: Answer,
    framing: ReplyFraming,
    reader: Pace,
    sender: Pace,
    begun: Tick,
    answered: Option<Tick>,
}

/// The state of the request on its way to the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Upload {
    Body,
    /// The end of the body is encoded.
    Tail,
    Done,
    /// The application reads no further. It may still answer.
    Refused,
}

/// The state of the answer on its way to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Awaited,
    Begun,
    /// The application has sent everything.
    Whole,
}

type Moved = Result<bool, Outcome>;

impl<'a> Exchange<'a> {
    pub(crate) fn new(
        client: &'a mut Client,
        scratch: &'a mut Scratch,
        body: &'a mut Body,
        work: Work,
    ) -> Self {
        let (reader, sender) = (Pace::new(client.answer_limits()), Pace::new(client.body_limits()));
        let begun = client.watch.now();
        scratch.from_app.clear();
        scratch.to_client.clear();
        Exchange {
            client,
            scratch,
            body,
            work: Some(work),
            upload: Upload::Body,
            written: 0,
            ready: 0,
            after: 0,
            sent: 0,
            overflow: None,
            staged: Vec::new(),
            answer: Answer::Awaited,
            framing: ReplyFraming::None,
            reader,
            sender,
            begun,
            answered: None,
        }
    }

    /// Returns whether the connection can carry another request after [`Outcome::Done`].
    pub(crate) fn client_stays(&self) -> bool {
        self.framing != ReplyFraming::UntilClose
    }

    /// Runs the exchange to its end, or to the next decision.
    pub(crate) async fn run(&mut self) -> Outcome {
        std::future::poll_fn(|cx| self.poll(cx)).await
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Outcome> {
        self.client.watch.register(cx);
        loop {
            match self.turn(cx) {
                Ok(true) => {}
                Ok(false) if self.is_done() => return Poll::Ready(Outcome::Done),
                Ok(false) => break,
                Err(outcome) => return Poll::Ready(outcome),
            }
        }
        match self.check_times() {
            Ok(()) => Poll::Pending,
            Err(outcome) => Poll::Ready(outcome),
        }
    }

    /// Moves bytes in each direction once. Returns whether any have moved.
    fn turn(&mut self, cx: &mut Context<'_>) -> Moved {
        let mut moved = false;
        if self.work.is_some() {
            moved |= self.fill(cx)?;
            moved |= self.upload(cx)?;
            moved |= self.download(cx)?;
        }
        moved |= self.deliver(cx)?;
        if !moved && !self.is_done() {
            moved = self.listen(cx)?;
        }
        Ok(moved)
    }

    fn is_done(&self) -> bool {
        self.answer == Answer::Whole && self.work.is_none() && !self.has_output()
    }

    fn has_output(&self) -> bool {
        self.sent < self.scratch.to_client.len()
            || !self.staged.is_empty()
            || self.overflow.as_ref().is_some_and(|overflow| !overflow.is_empty())
    }

    /// Ends the answer with the connection that it came over.
    pub(crate) fn end_with_connection(&mut self) {
        if let Some(work) = &mut self.work {
            work.decoder.end();
        }
    }

    /// Passes the body on to `to_app`, as far as there is room.
    fn fill(&mut self, cx: &mut Context<'_>) -> Moved {
        let Some(work) = &self.work else { return Ok(false) };
        if self.upload != Upload::Body {
            return Ok(false);
        }
        let (protocol, framing) = (work.process.protocol, self.body.framing());
        let mut moved = false;
        if let Poll::Ready(progress) = self.body.poll_progress(cx) {
            progress.map_err(|e| self.no_space(&e))?;
            moved = true; // another step may be due
        }
        let to_app = &mut self.scratch.to_app;
        while to_app.len() < IN_MEMORY && !self.body.next().is_empty() {
            let next = self.body.next();
            let part = &next[..next.len().min(IN_MEMORY)];
            match (protocol, framing) {
                (Protocol::KeptSession, _) => kept::push_body(to_app, part),
                (Protocol::HttpSession, RequestFraming::Chunked) => {
                    chunked::size_line(to_app, part.len());
                    to_app.extend_from_slice(part);
                    to_app.extend_from_slice(chunked::CHUNK_END);
                }
                _ => to_app.extend_from_slice(part),
            }
            let count = part.len();
            self.body.advance(count);
            moved = true;
        }
        if self.body.is_sent() {
            match (protocol, framing) {
                (Protocol::KeptSession, _) => to_app.extend_from_slice(&kept::END),
                (Protocol::HttpSession, RequestFraming::Chunked) => {
                    to_app.extend_from_slice(chunked::END);
                }
                _ => {}
            }
            self.upload = Upload::Tail;
            moved = true;
        }
        Ok(moved)
    }

    /// Writes `to_app`.
    fn upload(&mut self, cx: &mut Context<'_>) -> Moved {
        let Some(work) = &mut self.work else { return Ok(false) };
        let to_app = &mut self.scratch.to_app;
        let mut moved = false;
        while self.written < to_app.len() {
            if self.upload == Upload::Refused {
                break;
            }
            let stream = Pin::new(work.link.stream());
            match stream.poll_write(cx, &to_app[self.written..]) {
                Poll::Pending => break,
                Poll::Ready(Ok(count)) => {
                    self.written += count;
                    work.has_written = true;
                    moved = true;
                }
                Poll::Ready(Err(e)) if !work.has_written => {
                    return Err(Outcome::Failed(Reached::NotTheApp, e.to_string()));
                }
                Poll::Ready(Err(_)) => self.upload = Upload::Refused,
            }
        }
        if self.written == to_app.len() {
            to_app.clear();
            self.written = 0;
            if self.upload == Upload::Tail {
                self.upload = Upload::Done;
                moved = true;
                if work.process.protocol == Protocol::Session {
                    // An error shows again when the answer is read.
                    let _ = work.link.stream().end_output();
                }
            }
        }
        Ok(moved)
    }

    /// Reads the answer and passes it on.
    fn download(&mut self, cx: &mut Context<'_>) -> Moved {
        let mut moved = false;
        loop {
            moved |= self.pass_on();
            let Some(work) = &mut self.work else { return Ok(moved) };
            if !self.staged.is_empty() {
                return Ok(moved); // the client's side is full
            }
            self.scratch.from_app.consume(std::mem::take(&mut self.after));
            if work.decoder.is_at_end() {
                moved |= self.finish();
                return Ok(moved);
            }
            let Scratch { from_app, reply, head, .. } = &mut *self.scratch;
            let step = work.decoder.step(from_app.unread(), reply, head.answer_to());
            let step = match step {
                Ok(step) => step,
                Err(why) => return Err(self.bad_answer(why)),
            };
            self.scratch.from_app.consume(step.skip);
            (self.ready, self.after) = (step.data, step.after);
            match step.what {
                Found::Data => moved = true,
                Found::Interim => {
                    self.interim();
                    moved = true;
                }
                Found::Head => {
                    if self.scratch.reply.switches_protocols() {
                        return Err(self.switched());
                    }
                    self.begin_answer();
                    moved = true;
                }
                Found::NeedsMore => {
                    if self.after > 0 {
                        continue;
                    }
                    let Some(work) = &mut self.work else { return Ok(moved) };
                    match self.scratch.from_app.poll_read(cx, work.link.stream()) {
                        Poll::Pending => return Ok(moved),
                        Poll::Ready(Ok(0)) => return Err(self.app_has_closed()),
                        Poll::Ready(Ok(_)) => moved = true,
                        Poll::Ready(Err(e)) => return Err(self.app_broke(e.to_string())),
                    }
                }
            }
        }
    }

    /// Moves decoded data to the client's side, as far as there is room.
    fn pass_on(&mut self) -> bool {
        let mut moved = self.push_staged();
        while self.ready > 0 && self.staged.is_empty() {
            let pending = self.scratch.to_client.len() - self.sent;
            if self.overflow.is_none() && pending >= IN_MEMORY {
                self.overflow = Some(Spool::new(self.client.core.front.answer_spool()));
            }
            let data = &self.scratch.from_app.unread()[..self.ready];
            let to = match &self.overflow {
                None => &mut self.scratch.to_client,
                // The queue may take a part of it only.
                Some(_) => &mut self.staged,
            };
            if self.framing == ReplyFraming::Chunked {
                chunked::size_line(to, data.len());
                to.extend_from_slice(data);
                to.extend_from_slice(chunked::CHUNK_END);
            } else {
                to.extend_from_slice(data);
            }
            self.scratch.from_app.consume(std::mem::take(&mut self.ready));
            self.push_staged();
            moved = true;
        }
        moved
    }

    /// Moves bytes to the queue, as far as there is room.
    fn push_staged(&mut self) -> bool {
        if self.staged.is_empty() {
            return false;
        }
        let pushed = self.overflow.as_mut().map_or(0, |overflow| overflow.push(&self.staged));
        self.staged.drain(..pushed);
        pushed > 0
    }

    fn interim(&mut self) {
        let Scratch { head, reply, to_client, .. } = &mut *self.scratch;
        // The agent has answered `Expect` itself, and HTTP/1.0 has no interim answers.
        if reply.status() != 100 && head.version() == Version::Http11 {
            encode::reply_head(to_client, reply, ReplyFraming::None, ConnectionField::Absent);
        }
    }

    fn begin_answer(&mut self) {
        self.answer = Answer::Begun;
        let is_last = self.client.has_ended && self.scratch.input.is_empty();
        let closes = self.client.is_closing() || is_last;
        let Scratch { head, reply, to_client, .. } = &mut *self.scratch;
        self.framing = encode::client_framing(reply, head);
        let connection = match closes || self.framing == ReplyFraming::UntilClose {
            true => ConnectionField::Close,
            false => ConnectionField::as_asked(head),
        };
        encode::reply_head(to_client, reply, self.framing, connection);
    }

    /// Ends the answer, and gives connection and session back. Returns whether anything has changed.
    fn finish(&mut self) -> bool {
        let mut moved = false;
        if self.answer != Answer::Whole {
            self.answer = Answer::Whole;
            self.answered = Some(self.client.watch.now());
            moved = true;
            if self.framing == ReplyFraming::Chunked {
                match &self.overflow {
                    Some(_) => self.staged.extend_from_slice(chunked::END),
                    None => self.scratch.to_client.extend_from_slice(chunked::END),
                }
            }
        }
        let Some(work) = &mut self.work else { return moved };
        let is_uploaded = self.upload == Upload::Done;
        let is_http = work.process.protocol == Protocol::HttpSession;
        if !is_uploaded && is_http && self.upload != Upload::Refused {
            // The application may read on after its answer. Its process is free meanwhile.
            work.session = None;
            return moved;
        }
        let Scratch { reply, from_app, .. } = &*self.scratch;
        let closes = is_http && (reply.closes() || reply.framing() == ReplyFraming::UntilClose);
        let can_keep = is_uploaded && from_app.is_empty() && !closes;
        if let Some(work) = self.work.take() {
            work.finish(can_keep);
        }
        true
    }

    /// Writes to the client.
    fn deliver(&mut self, cx: &mut Context<'_>) -> Moved {
        let mut moved = false;
        loop {
            moved |= self.push_staged();
            if let Some(overflow) = &mut self.overflow
                && overflow.has_work()
                && let Poll::Ready(progress) = overflow.poll_progress(cx)
            {
                if let Err(e) = progress {
                    self.client.core.front.no_space("an answer", &e);
                    // With a full disk, the application waits for the client. A read that failed has lost bytes.
                    if !overflow.is_unwritable() {
                        return Err(Outcome::Broken(format!("the buffer cannot be read: {e}")));
                    }
                }
                moved = true;
            }
            let to_client = &mut self.scratch.to_client;
            let is_overflow = self.sent == to_client.len();
            let bytes = if is_overflow {
                to_client.clear();
                self.sent = 0;
                self.overflow.as_ref().map_or(&[][..], Spool::front)
            } else {
                &to_client[self.sent..]
            };
            if bytes.is_empty() {
                break;
            }
            match Pin::new(&mut self.client.stream).poll_write(cx, bytes) {
                Poll::Pending => return Ok(moved),
                Poll::Ready(Err(_)) => return Err(Outcome::Left),
                Poll::Ready(Ok(count)) => {
                    moved = true;
                    self.reader.moved(count, self.client.watch.now());
                    match &mut self.overflow {
                        Some(overflow) if is_overflow => overflow.consume(count),
                        _ => self.sent += count,
                    }
                }
            }
        }
        if let Some(overflow) = &self.overflow
            && self.staged.is_empty()
            && overflow.is_empty()
            && !overflow.has_work()
        {
            self.overflow = None;
        }
        Ok(moved)
    }

    /// Reads from the client: the rest of the body, or the end of the connection.
    fn listen(&mut self, cx: &mut Context<'_>) -> Moved {
        if self.body.is_received() {
            // A client that has left does not stop a complete answer: a write shows whether it has.
            if self.work.as_ref().is_some_and(|work| work.session.is_some())
                && let Poll::Ready(Left) = self.client.poll_left(cx, &mut self.scratch.input)
            {
                return Err(Outcome::Left);
            }
            return Ok(false);
        }
        let now = self.client.watch.now();
        if self.upload == Upload::Refused {
            let discarded = self.body.discard(&mut self.scratch.input);
            discarded.map_err(|bad| self.refuse(bad.status, bad.why.into_owned()))?;
        } else {
            let taken = self.body.take(&mut self.scratch.input);
            let taken = taken.map_err(|bad| self.refuse(bad.status, bad.why.into_owned()))?;
            if taken > 0 || self.body.is_received() {
                return Ok(true);
            }
            if !self.body.has_room() {
                self.sender.stop(now);
                return Ok(false);
            }
        }
        match self.client.poll_read(cx, &mut self.scratch.input) {
            Poll::Pending => Ok(false),
            Poll::Ready(Ok(0)) | Poll::Ready(Err(_)) => Err(Outcome::Left),
            Poll::Ready(Ok(count)) => {
                self.sender.moved(count, now);
                Ok(true)
            }
        }
    }

    /// Looks at the limits of time. Asks for wake-ups when they will have passed.
    fn check_times(&mut self) -> Result<(), Outcome> {
        let settings = &self.client.core.front.settings;
        let has_session = self.work.as_ref().is_some_and(|work| work.session.is_some());
        if let Some(limit) = settings.max_request_time.filter(|_| has_session)
            && self.client.watch.has_passed(limit, self.begun)
        {
            return Err(Outcome::TooLong);
        }
        if self.has_output() {
            let slow = self.reader.wait(&self.client.watch);
            slow.map_err(|slow| Outcome::Broken(slow.of_reader().into()))?;
        } else {
            self.reader.stop(self.client.watch.now());
        }
        let starves =
            !self.body.is_received() && self.body.has_room() && self.body.next().is_empty();
        if starves {
            let slow = self.sender.wait(&self.client.watch);
            slow.map_err(|slow| self.refuse(408, slow.of_sender().into()))?;
        } else {
            self.sender.stop(self.client.watch.now());
        }
        if let Some(answered) = self.answered
            && self.work.is_some()
            && self.client.watch.has_passed(REST, answered)
        {
            self.work = None; // closes the connection
            self.upload = Upload::Refused;
            if self.is_done() {
                return Err(Outcome::Done);
            }
        }
        Ok(())
    }

    /// Ends the exchange because of the client.
    fn refuse(&self, status: u16, why: String) -> Outcome {
        match self.answer {
            Answer::Awaited => Outcome::Refused(status, why),
            _ => Outcome::Broken(why),
        }
    }

    fn no_space(&self, e: &std::io::Error) -> Outcome {
        self.client.core.front.no_space("a request", e);
        self.refuse(503, format!("the request cannot be buffered: {e}"))
    }

    /// Ends the exchange because of an answer that is not one.
    fn bad_answer(&self, why: String) -> Outcome {
        match self.answer {
            Answer::Awaited => Outcome::Failed(Reached::Verdict(502), why),
            _ => Outcome::Cut(why),
        }
    }

    fn app_has_closed(&mut self) -> Outcome {
        match &self.work {
            Some(work) if work.decoder.ends_with_connection() => Outcome::Closed,
            _ if self.answer == Answer::Awaited => {
                self.app_broke("the application closed the connection without an answer".into())
            }
            _ => self.app_broke("the application closed the connection".into()),
        }
    }

    fn app_broke(&self, why: String) -> Outcome {
        match self.answer {
            Answer::Awaited if self.scratch.from_app.is_empty() => {
                Outcome::Failed(Reached::TheApp, why)
            }
            Answer::Awaited => Outcome::Failed(Reached::Verdict(502), why),
            _ => Outcome::Cut(why),
        }
    }

    fn switched(&mut self) -> Outcome {
        if self.scratch.head.upgrade().is_none() {
            let why = "the application upgraded a connection without a request for it".into();
            return Outcome::Failed(Reached::Verdict(502), why);
        }
        let Scratch { reply, to_client, .. } = &mut *self.scratch;
        encode::reply_head(to_client, reply, ReplyFraming::None, ConnectionField::Absent);
        Outcome::Switched
    }

    /// Returns whether the client has got a part of the answer.
    pub(crate) fn has_begun(&self) -> bool {
        self.answer != Answer::Awaited
    }

    /// Takes the application's side.
    pub(crate) fn into_work(self) -> Option<Work> {
        self.work
    }
}

impl Slow {
    fn of_reader(self) -> &'static str {
        match self {
            Slow::Pauses => "the client does not read its response",
            Slow::Trickles => "the client reads its response too slowly",
        }
    }

    pub(crate) fn of_sender(self) -> &'static str {
        match self {
            Slow::Pauses => "the client sent no byte of the body for too long",
            Slow::Trickles => "the client sent the body too slowly",
        }
    }
}
