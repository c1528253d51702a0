//! Kept sessions: one request after another on a connection, in frames (`docs/kept-sessions.md`).

use crate::lane::parts::{Closed, Found, Step, malformed};
use crate::lane::reply_head::{ReplyFraming, ReplyHead};
use crate::request::head::{AnswerTo, RequestFraming};
use cabrank_spawner::connections::Lent;
use cabrank_spawner::kept::{self, Decoder, Part};
use cabrank_spawner::stream::AppStream;

/// A borrowed connection.
#[derive(Debug)]
pub(crate) struct Kept {
    lent: Lent,
    frames: Decoder,
    state: State,
    /// Whether the connection has ended with the answer, or is about to.
    has_connection_ended: bool,
}

#[derive(Debug)]
enum State {
    Head,
    /// The client gets at most `left` more bytes, if that is set.
    Body {
        left: Option<u64>,
    },
    End,
}

impl Kept {
    pub(crate) fn new(lent: Lent) -> Self {
        Kept { lent, frames: Decoder::default(), state: State::Head, has_connection_ended: false }
    }

    pub(crate) fn stream(&mut self) -> &mut AppStream {
        self.lent.stream()
    }

    pub(crate) fn push_body(&self, out: &mut Vec<u8>, _: RequestFraming, part: &[u8]) {
        kept::push_body(out, part);
    }

    pub(crate) fn push_end(&self, out: &mut Vec<u8>, _: RequestFraming) {
        out.extend_from_slice(&kept::END);
    }

    pub(crate) fn step(
        &mut self,
        input: &[u8],
        reply: &mut ReplyHead,
        to: AnswerTo,
    ) -> Result<Step, String> {
        match &mut self.state {
            State::End => Ok(Step::needs_more()),
            State::Head => self.step_of_head(input, reply, to),
            State::Body { .. } if input.is_empty() => Ok(Step::needs_more()),
            State::Body { left } => {
                let decoded = self.frames.decode(input).map_err(|e| e.to_string())?;
                let skip = decoded.consumed;
                match decoded.part {
                    Part::Incomplete { .. } => Ok(Step { skip, ..Step::needs_more() }),
                    Part::Body(bytes) => {
                        let most = left.map_or(usize::MAX, |n| n.try_into().unwrap_or(usize::MAX));
                        let data = bytes.len().min(most);
                        if let Some(left) = left {
                            *left -= data as u64;
                        }
                        let (skip, after) = (skip - bytes.len(), bytes.len() - data);
                        Ok(Step { skip, data, after, what: Found::Data })
                    }
                    Part::End if left.is_some_and(|left| left > 0) => {
                        Err("the answer is shorter than its Content-Length".into())
                    }
                    Part::End => {
                        self.state = State::End;
                        Ok(Step { skip, what: Found::Data, ..Step::needs_more() })
                    }
                    // The application has failed while it cleaned up.
                    Part::Abort if *left == Some(0) => {
                        self.end_with_connection();
                        Ok(Step { skip, what: Found::Data, ..Step::needs_more() })
                    }
                    Part::Abort => Err("the application gave its answer up".into()),
                    Part::Interim(_) | Part::Head(_) => Err("a second head".into()),
                }
            }
        }
    }

    fn step_of_head(
        &mut self,
        input: &[u8],
        reply: &mut ReplyHead,
        to: AnswerTo,
    ) -> Result<Step, String> {
        let decoded = self.frames.decode(input).map_err(|e| e.to_string())?;
        let (head, parsed, what) = match decoded.part {
            Part::Incomplete { .. } => {
                return Ok(Step { skip: decoded.consumed, ..Step::needs_more() });
            }
            Part::Interim(head) => (head, reply.parse_interim(head, to), Found::Interim),
            Part::Head(head) => (head, reply.parse_kept(head, to), Found::Head),
            Part::Abort => return Err("the application gave the request up".into()),
            Part::Body(_) | Part::End => return Err("a frame before the head".into()),
        };
        if parsed.map_err(malformed)? != Some(head.len()) {
            return Err(malformed("it does not fill its frame".into()));
        }
        if what == Found::Head {
            let left = match reply.framing() {
                ReplyFraming::None => Some(0),
                ReplyFraming::Length(length) => Some(length),
                ReplyFraming::Chunked | ReplyFraming::UntilClose => None,
            };
            self.state = State::Body { left };
        }
        Ok(Step { skip: decoded.consumed, what, ..Step::needs_more() })
    }

    pub(crate) fn is_at_head(&self) -> bool {
        matches!(self.state, State::Head)
    }

    pub(crate) fn is_at_end(&self) -> bool {
        matches!(self.state, State::End)
    }

    pub(crate) fn closed(&self) -> Closed {
        match self.state {
            State::Body { left: Some(0) } => Closed::Whole,
            _ => Closed::Broken,
        }
    }

    pub(crate) fn end_with_connection(&mut self) {
        self.state = State::End;
        self.has_connection_ended = true;
    }

    /// Keeps the connection, unless it has ended with the answer.
    pub(crate) fn give_back(self) {
        if !self.has_connection_ended {
            self.lent.keep();
        }
    }

    pub(crate) fn into_stream(self) -> Option<AppStream> {
        self.lent.detach()
    }
}
