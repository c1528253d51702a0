//! The answer, from the application's side of an exchange to the client's.

use crate::client::encode::{self, ConnectionField};
use crate::connection::core::Scratch;
use crate::exchange::download::{Failure, Heard};
use crate::exchange::end::{End, Refusal};
use crate::exchange::pump::{Answer, Exchange, Moved, Stop};
use crate::lane::Reached;
use crate::lane::reply_head::ReplyFraming;
use crate::request::head::Version;
use std::task::Context;

impl Exchange<'_> {
    /// Reads the answer and passes it on.
    pub(super) fn download(&mut self, cx: &mut Context<'_>) -> Moved {
        let mut moved = false;
        loop {
            moved |= self.pass_on();
            let Some(attempt) = &mut self.attempt else { return Ok(moved) };
            if self.outbox.is_full() {
                return Ok(moved);
            }
            let Scratch { from_app, reply, head, .. } = &mut *self.scratch;
            let heard =
                self.download.next(cx, &mut attempt.lane, from_app, reply, head.answer_to());
            match heard.map_err(|failure| self.failed(failure))? {
                Heard::Nothing => return Ok(moved),
                Heard::More => {}
                Heard::Interim => self.interim(),
                Heard::Head if self.scratch.reply.switches_protocols() => {
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
        let Scratch { from_app, to_client, .. } = &mut *self.scratch;
        let data = self.download.data(from_app);
        if data.is_empty() || self.outbox.is_full() {
            return moved;
        }
        let buffers = self.buffers;
        self.outbox.push(to_client, data, self.framing, || buffers.answer());
        self.download.consume(from_app);
        true
    }

    fn interim(&mut self) {
        let Scratch { head, reply, to_client, .. } = &mut *self.scratch;
        // The server has answered `Expect` itself, and HTTP/1.0 has no interim answers.
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
                self.outbox.push_end(&mut self.scratch.to_client);
            }
        }
        let Some(attempt) = &mut self.attempt else { return moved };
        let is_uploaded = self.upload.is_done();
        if !is_uploaded && !self.upload.is_refused() && attempt.lane.reads_on() {
            // The application may read on after its answer. Its process is free meanwhile.
            attempt.hold = None;
            return moved;
        }
        if let Some(attempt) = self.attempt.take() {
            let Scratch { reply, from_app, .. } = &*self.scratch;
            attempt.finish(reply, is_uploaded && from_app.is_empty());
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
            Failure::Broken(e) => (e.to_string(), false),
            Failure::Nonsense(why) => (why, true),
        };
        if !is_awaited {
            return End::Cut(why).into();
        }
        let reached = match &self.attempt {
            Some(attempt) if !is_nonsense && self.scratch.from_app.is_empty() => {
                attempt.lane.reached()
            }
            _ => Reached::Nonsense,
        };
        End::Refused(Refusal::NoAnswer { why, reached }).into()
    }

    fn switched(&mut self) -> End {
        if self.scratch.head.upgrade().is_none() {
            let why = "the application upgraded a connection without a request for it".into();
            return End::Refused(Refusal::NoAnswer { why, reached: Reached::Nonsense });
        }
        let Scratch { reply, to_client, .. } = &mut *self.scratch;
        encode::reply_head(to_client, reply, ReplyFraming::None, ConnectionField::Absent);
        End::Switched
    }
}
