//! The answer on its way from the application to the client's side.

use crate::client::encode::{self, ConnectionField};
use crate::connection::core::Scratch;
use crate::exchange::end::{End, Reached, Refusal};
use crate::exchange::pump::upload::Upload;
use crate::exchange::pump::{Exchange, Moved, Stop};
use crate::lane::decoder::Found;
use crate::lane::reply_head::ReplyFraming;
use crate::request::head::Version;
use cabrank_spawner::Protocol;
use std::task::{Context, Poll};

/// The state of the answer on its way to the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Awaited,
    Begun,
    /// The application has sent everything.
    Whole,
}

impl Exchange<'_> {
    /// Reads the answer and passes it on.
    pub(crate) fn download(&mut self, cx: &mut Context<'_>) -> Moved {
        let mut moved = false;
        loop {
            moved |= self.pass_on();
            let Some(work) = &mut self.work else { return Ok(moved) };
            if self.outbox.is_full() {
                return Ok(moved);
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
                Err(why) => return Err(self.bad_answer(why).into()),
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
                        return Err(self.switched().into());
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
                        Poll::Ready(Ok(0) | Err(_)) if work.decoder.lacks_only_the_end() => {
                            work.decoder.end();
                            moved = true;
                        }
                        Poll::Ready(Ok(0)) => return Err(self.app_has_closed()),
                        Poll::Ready(Ok(_)) => moved = true,
                        Poll::Ready(Err(e)) => return Err(self.app_broke(e.to_string()).into()),
                    }
                }
            }
        }
    }

    /// Moves decoded data to the client's side, as far as there is room.
    fn pass_on(&mut self) -> bool {
        let moved = self.outbox.push_staged();
        if self.ready == 0 || self.outbox.is_full() {
            return moved;
        }
        let Scratch { from_app, to_client, .. } = &mut *self.scratch;
        let (buffers, data) = (self.buffers, &from_app.unread()[..self.ready]);
        self.outbox.push(to_client, data, self.framing, || buffers.answer());
        from_app.consume(std::mem::take(&mut self.ready));
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
        let Some(work) = &mut self.work else { return moved };
        let is_uploaded = self.upload == Upload::Done;
        let is_http = work.process.protocol == Protocol::HttpSession;
        if !is_uploaded && is_http && self.upload != Upload::Refused {
            // The application may read on after its answer. Its process is free meanwhile.
            work.hold = None;
            return moved;
        }
        let Scratch { reply, from_app, .. } = &*self.scratch;
        let closes = is_http && (reply.closes() || reply.framing() == ReplyFraming::UntilClose);
        let can_keep =
            is_uploaded && from_app.is_empty() && !closes && !work.decoder.has_connection_ended();
        if let Some(work) = self.work.take() {
            work.finish(can_keep);
        }
        true
    }

    /// Ends the exchange because of an answer that is not one.
    fn bad_answer(&self, why: String) -> End {
        match self.answer {
            Answer::Awaited => no_answer(Reached::Nonsense, why),
            _ => End::Cut(why),
        }
    }

    fn app_has_closed(&mut self) -> Stop {
        match &self.work {
            Some(work) if work.decoder.ends_with_connection() => Stop::ConnectionEnded,
            _ if self.answer == Answer::Awaited => self
                .app_broke("the application closed the connection without an answer".into())
                .into(),
            _ => self.app_broke("the application closed the connection".into()).into(),
        }
    }

    fn app_broke(&self, why: String) -> End {
        match self.answer {
            Answer::Awaited if self.scratch.from_app.is_empty() => no_answer(Reached::TheApp, why),
            Answer::Awaited => no_answer(Reached::Nonsense, why),
            _ => End::Cut(why),
        }
    }

    fn switched(&mut self) -> End {
        if self.scratch.head.upgrade().is_none() {
            let why = "the application upgraded a connection without a request for it".into();
            return no_answer(Reached::Nonsense, why);
        }
        let Scratch { reply, to_client, .. } = &mut *self.scratch;
        encode::reply_head(to_client, reply, ReplyFraming::None, ConnectionField::Absent);
        End::Switched
    }
}

fn no_answer(reached: Reached, why: String) -> End {
    End::Refused(Refusal::NoAnswer { why, reached })
}
