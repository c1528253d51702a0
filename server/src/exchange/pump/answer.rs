//! The answer, from the application's side of an exchange to the client's.

use crate::connection::core::Bytes;
use crate::exchange::attempt::Attempt;
use crate::exchange::download::{Failure, Heard};
use crate::exchange::end::{End, Refusal};
use crate::exchange::pump::{Answer, Exchange, Moved, Stop};
use crate::lane::Reached;
use std::task::Context;

impl Exchange<'_, '_> {
    /// Reads the answer and passes it on.
    pub(super) fn download(&mut self, cx: &mut Context<'_>) -> Moved {
        let mut moved = false;
        loop {
            moved |= self.pass_on();
            let Some(attempt) = &mut self.attempt else { return Ok(moved) };
            if self.outbox.is_full() {
                return Ok(moved);
            }
            let Bytes { from_app, reply, .. } = &mut *self.bytes;
            let to = self.request.head.answer_to();
            let heard = self.download.next(cx, attempt, from_app, reply, to);
            match heard.map_err(|failure| self.failed(failure))? {
                Heard::Nothing => return Ok(moved),
                Heard::More => {}
                Heard::Interim => self.interim(),
                Heard::Head if self.bytes.reply.switches_protocols() => {
                    return Err(self.switched().into());
                }
                Heard::Head => self.begin_answer(),
                Heard::End => return Ok(moved | self.finish()),
            }
            moved = true;
        }
    }

    /// Moves decoded data to the client's side, as far as there is room.
    fn pass_on(&mut self) -> bool {
        let moved = self.outbox.push_staged();
        let Bytes { from_app, to_client, .. } = &mut *self.bytes;
        let data = self.download.data(from_app);
        if data.is_empty() || self.outbox.is_full() {
            return moved;
        }
        let (buffers, side) = (self.buffers, &*self.side);
        self.outbox.push(to_client, || buffers.answer(), |out| side.push_body(out, data));
        self.download.consume(from_app);
        true
    }

    fn interim(&mut self) {
        let Bytes { reply, to_client, .. } = &mut *self.bytes;
        let (buffers, side) = (self.buffers, &mut *self.side);
        self.outbox.push(to_client, || buffers.answer(), |out| side.push_interim(out, reply));
    }

    fn begin_answer(&mut self) {
        self.answer = Answer::Begun;
        if let Some(attempt) = &mut self.attempt {
            attempt.streams_events = self.bytes.reply.streams_events();
        }
        let is_last = self.client.has_ended && self.bytes.input.is_empty();
        let closes = self.client.is_closing() || is_last;
        self.request.record.status = self.bytes.reply.status();
        let Bytes { reply, to_client, .. } = &mut *self.bytes;
        let (buffers, side) = (self.buffers, &mut *self.side);
        self.outbox.push(to_client, || buffers.answer(), |out| side.push_head(out, reply, closes));
    }

    /// Ends the answer, and gives connection and session back. Returns whether anything has changed.
    fn finish(&mut self) -> bool {
        let mut moved = false;
        if self.answer != Answer::Whole {
            self.answer = Answer::Whole;
            self.answered = Some(self.client.watch.now());
            moved = true;
            self.outbox.push_end(&mut self.bytes.to_client, self.side);
        }
        let Some(attempt) = &mut self.attempt else { return moved };
        let is_uploaded = self.upload.is_done();
        if !is_uploaded && !self.upload.is_refused() && attempt.lane.reads_on() {
            // The application may read on after its answer. Its process is free meanwhile.
            attempt.process.set_answered();
            attempt.hold = None;
            attempt.ending = None;
            return moved;
        }
        if let Some(attempt) = self.attempt.take() {
            let Bytes { reply, from_app, .. } = &*self.bytes;
            // An application that refuses an upgrade may keep the socket as one of another protocol: Node has taken its
            // HTTP parser away. The next client's request would be data for it.
            let is_http = self.request.head.upgrade().is_none();
            attempt.finish(reply, is_uploaded && is_http && from_app.is_empty());
        }
        true
    }

    /// Ends the exchange because of an answer that is none, or that has no end.
    fn failed(&self, failure: Failure) -> Stop {
        let is_awaited = self.answer == Answer::Awaited;
        let (why, is_nonsense) = match failure {
            Failure::Closed { is_perhaps_whole: true } => return Stop::ConnectionEnded,
            Failure::Closed { .. } if is_awaited => {
                ("the application closed the connection without an answer".into(), false)
            }
            Failure::Closed { .. } => ("the application closed the connection".into(), false),
            Failure::Refused => {
                ("the connection ends before the application takes it".into(), false)
            }
            Failure::Broken(e) => (e.to_string(), false),
            Failure::Nonsense(why) => (why, true),
        };
        if !is_awaited {
            return End::Cut(why).into();
        }
        let reached = match &self.attempt {
            Some(attempt) if !is_nonsense && self.bytes.from_app.is_empty() => {
                attempt.lane.reached()
            }
            _ => Reached::Nonsense,
        };
        End::Refused(Refusal::NoAnswer { why, reached }).into()
    }

    fn switched(&mut self) -> End {
        let may_switch = |attempt: &Attempt| attempt.lane.may_switch(&attempt.process);
        let is_asked = self.request.head.upgrade().is_some();
        if !is_asked || !self.attempt.as_ref().is_some_and(may_switch) {
            let why = "the application upgraded a connection without a request for it".into();
            return End::Refused(Refusal::NoAnswer { why, reached: Reached::Nonsense });
        }
        if self.outbox.is_midway(&self.bytes.to_client) {
            // The tunnel has no queue, and the client has not even read these.
            return End::Cut("the client does not read interim answers before an upgrade".into());
        }
        self.request.record.status = self.bytes.reply.status();
        self.side.push_switch(&mut self.bytes.to_client, &self.bytes.reply);
        End::Switched
    }
}
