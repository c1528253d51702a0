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
//!
//! [`upload`](crate::exchange::upload) does 2, [`download`](crate::exchange::download) and [`answer`] do 3, and
//! [`outbox`](crate::exchange::outbox) does 4.

mod answer;

use crate::client::Side;
use crate::connection::core::Bytes;
use crate::connection::pace::{Pace, Slow};
use crate::connection::sweep::Tick;
use crate::connection::watched::{Connection, Left};
use crate::exchange::attempt::Attempt;
use crate::exchange::buffers::Buffers;
use crate::exchange::download::Download;
use crate::exchange::end::{End, Refusal};
use crate::exchange::outbox::Outbox;
use crate::exchange::request::Request;
use crate::exchange::upload::Upload;
use crate::lane::Closed;
use std::task::{Context, Poll};
use std::time::Duration;

/// How long an application that has answered may go on reading the request.
const REST: Duration = Duration::from_secs(10);

/// Why the exchange does not go on.
#[derive(Debug)]
pub(crate) enum Stop {
    End(End),
    /// The connection of an answer without a length has ended. That is the end of the answer if the process lives.
    ConnectionEnded,
}

impl From<End> for Stop {
    fn from(end: End) -> Self {
        Stop::End(end)
    }
}

/// The state of the answer on its way to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Awaited,
    Begun,
    /// The application has sent everything.
    Whole,
}

/// The exchange of one request with a process.
#[derive(Debug)]
pub(crate) struct Exchange<'a, 'b> {
    client: &'a mut Connection,
    request: &'a mut Request<'b>,
    bytes: &'a mut Bytes,
    side: &'a mut Side,
    buffers: &'a Buffers,
    /// The longest work of the process, without the time in which the server waits for the client's body; `None`: no limit.
    max_time: Option<Duration>,
    /// `None` once the application has finished, and everything was given back.
    attempt: Option<Attempt>,
    upload: Upload,
    download: Download,
    /// The part of the answer that the client has not taken.
    outbox: Outbox,
    answer: Answer,
    reader: Pace,
    sender: Pace,
    begun: Tick,
    /// Set while the process has all of the body that has arrived, and the server waits for more.
    starved: Option<Tick>,
    answered: Option<Tick>,
}

type Moved = Result<bool, Stop>;

impl<'a, 'b> Exchange<'a, 'b> {
    pub(crate) fn new(
        client: &'a mut Connection,
        request: &'a mut Request<'b>,
        bytes: &'a mut Bytes,
        side: &'a mut Side,
        buffers: &'a Buffers,
        attempt: Attempt,
    ) -> Self {
        let (reader, sender) = (Pace::new(client.answer_limits()), Pace::new(client.body_limits()));
        let begun = client.watch.now();
        bytes.from_app.clear();
        bytes.to_client.clear();
        let max_time = request.application.max_request_time;
        Exchange {
            client,
            request,
            bytes,
            side,
            buffers,
            max_time,
            attempt: Some(attempt),
            upload: Upload::default(),
            download: Download::default(),
            outbox: Outbox::default(),
            answer: Answer::Awaited,
            reader,
            sender,
            begun,
            starved: None,
            answered: None,
        }
    }

    /// Runs the exchange to its end.
    pub(crate) async fn run(&mut self) -> End {
        loop {
            match std::future::poll_fn(|cx| self.poll(cx)).await {
                // Neither a page nor another attempt can follow a part of an interim answer.
                Stop::End(End::Refused(refusal))
                    if self.outbox.is_midway(&self.bytes.to_client) =>
                {
                    return refusal.after_a_part();
                }
                Stop::End(end) => return end,
                Stop::ConnectionEnded => {
                    let Some(attempt) = &mut self.attempt else { continue };
                    if attempt.process.is_dying().await {
                        return End::Cut("the application closed the connection".into());
                    }
                    attempt.lane.end_with_connection();
                }
            }
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Stop> {
        self.client.watch.register(cx);
        loop {
            match self.turn(cx) {
                Ok(true) => {}
                Ok(false) if self.is_done() => return Poll::Ready(End::Answered.into()),
                Ok(false) => break,
                Err(stop) => return Poll::Ready(stop),
            }
        }
        match self.check_times() {
            Ok(()) => Poll::Pending,
            Err(end) => Poll::Ready(end.into()),
        }
    }

    /// Moves bytes in each direction once. Returns whether any have moved.
    fn turn(&mut self, cx: &mut Context<'_>) -> Moved {
        let mut moved = false;
        if self.attempt.is_some() {
            moved |= self.upload(cx)?;
            moved |= self.download(cx)?;
            self.note_ending();
        }
        let to_client = &mut self.bytes.to_client;
        let taken = self.outbox.delivered();
        let delivered =
            self.outbox.deliver(cx, to_client, self.client, &mut self.reader, self.buffers);
        self.request.record.sent += self.outbox.delivered() - taken;
        moved |= delivered?;
        if !moved && !self.is_done() {
            moved = self.listen(cx)?;
        }
        Ok(moved)
    }

    /// Notes that the client is about to get the end of its answer, before the application has finished.
    fn note_ending(&mut self) {
        if self.answer == Answer::Begun
            && let Some(attempt) = &mut self.attempt
            && attempt.ending.is_none()
            && (attempt.lane.is_at_end() || attempt.lane.closed() == Closed::Whole)
        {
            attempt.ending = self.request.application.processes.begin_ending();
        }
    }

    /// Passes the body on, and writes to the application.
    fn upload(&mut self, cx: &mut Context<'_>) -> Moved {
        let Some(attempt) = &mut self.attempt else { return Ok(false) };
        let to_app = &mut self.bytes.to_app;
        let filled = self.upload.fill(cx, &attempt.lane, &mut self.request.body, to_app);
        let filled = filled.map_err(|e| self.no_space(&e))?;
        let Some(attempt) = &mut self.attempt else { return Ok(filled) };
        let written = self.upload.write(cx, &mut attempt.lane, &mut self.bytes.to_app);
        let written = written.map_err(|e| {
            let (why, reached) = (e.to_string(), attempt.lane.reached());
            End::Refused(Refusal::NoAnswer { why, reached })
        })?;
        Ok(filled | written)
    }

    /// Reads from the client: the rest of the body, or the end of the connection.
    fn listen(&mut self, cx: &mut Context<'_>) -> Moved {
        if self.request.body.is_received() {
            // A client that has left does not stop a complete answer: a write shows whether it has.
            if self.attempt.as_ref().is_some_and(|attempt| attempt.hold.is_some())
                && let Poll::Ready(Left) = self.client.poll_left(cx, &mut self.bytes.input)
            {
                return Err(End::Left.into());
            }
            return Ok(false);
        }
        let now = self.client.watch.now();
        if self.upload.is_refused() {
            let discarded = self.request.body.discard(&mut self.bytes.input);
            discarded.map_err(|bad| self.refuse(bad.status, bad.why.into_owned()))?;
        } else {
            let taken = self.request.body.take(&mut self.bytes.input);
            let taken = taken.map_err(|bad| self.refuse(bad.status, bad.why.into_owned()))?;
            if taken > 0 || self.request.body.is_received() {
                return Ok(true);
            }
            if !self.request.body.has_room() {
                self.sender.stop(now);
                return Ok(false);
            }
        }
        match self.client.poll_read(cx, &mut self.bytes.input) {
            Poll::Pending => Ok(false),
            Poll::Ready(Ok(0)) | Poll::Ready(Err(_)) => Err(End::Left.into()),
            Poll::Ready(Ok(count)) => {
                self.sender.moved(count, now);
                Ok(true)
            }
        }
    }

    fn is_done(&self) -> bool {
        self.answer == Answer::Whole && self.attempt.is_none() && !self.has_output()
    }

    fn has_output(&self) -> bool {
        !self.outbox.is_empty(&self.bytes.to_client)
    }

    /// Looks at the limits of time. Asks for wake-ups when they will have passed.
    fn check_times(&mut self) -> Result<(), End> {
        let now = self.client.watch.now();
        let starves = !self.request.body.is_received()
            && self.request.body.has_room()
            && self.request.body.next().is_empty();
        self.note_waited();
        if let Some(attempt) = &mut self.attempt {
            let has_all = self.bytes.to_app.is_empty() && !self.upload.is_refused();
            self.starved = (starves && has_all).then_some(now);
            let is_limited =
                attempt.hold.is_some() && !attempt.streams_events && self.starved.is_none();
            if let Some(limit) = self.max_time.filter(|_| is_limited)
                && self.client.watch.has_passed(limit.saturating_add(attempt.waited), self.begun)
            {
                return Err(match self.answer {
                    Answer::Awaited => End::Refused(Refusal::TooLong),
                    _ => End::TooLong,
                });
            }
        }
        if self.has_output() {
            let slow = self.reader.wait(&self.client.watch);
            slow.map_err(|slow| End::GivenUp(slow.of_reader().into()))?;
        } else {
            self.reader.stop(now);
        }
        if starves {
            let slow = self.sender.wait(&self.client.watch);
            slow.map_err(|slow| self.refuse(408, slow.of_sender().into()))?;
        } else {
            self.sender.stop(now);
        }
        if let Some(answered) = self.answered
            && self.attempt.is_some()
            && self.client.watch.has_passed(REST, answered)
        {
            self.attempt = None; // closes the connection
            self.upload.refuse();
            if self.is_done() {
                return Err(End::Answered);
            }
        }
        Ok(())
    }

    /// Counts the time in which the server has waited for the client's body. The process has not worked meanwhile.
    fn note_waited(&mut self) {
        if let (Some(attempt), Some(since)) = (&mut self.attempt, self.starved.take()) {
            attempt.waited += self.client.watch.now().since(since);
        }
    }

    /// Ends the exchange because of the client.
    fn refuse(&self, status: u16, why: String) -> End {
        match self.answer {
            Answer::Awaited => End::Refused(Refusal::Stream(status, why)),
            _ => End::GivenUp(why),
        }
    }

    fn no_space(&self, e: &std::io::Error) -> End {
        self.buffers.no_space("a request", e);
        self.refuse(503, format!("the request cannot be buffered: {e}"))
    }

    /// Takes the application's side.
    pub(crate) fn into_attempt(mut self) -> Option<Attempt> {
        self.note_waited();
        self.attempt
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
