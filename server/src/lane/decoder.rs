//! The answer of an application, decoded as it arrives.

use crate::lane::reply_head::{ReplyFraming, ReplyHead};
use crate::request::chunked;
use crate::request::head::AnswerTo;
use cabrank_spawner::Protocol;
use cabrank_spawner::kept;

/// Decodes one answer, in the protocol of its process.
#[derive(Debug)]
pub(crate) struct Decoder {
    protocol: Protocol,
    state: State,
    frames: kept::Decoder,
    /// Whether the connection has ended with the answer, or is about to.
    has_connection_ended: bool,
}

#[derive(Debug)]
enum State {
    Head,
    Length(u64),
    Chunked(chunked::Decoder),
    UntilClose,
    /// The frames of a kept session. The client gets at most `left` more bytes, if that is set.
    Frames {
        left: Option<u64>,
    },
    End,
}

/// The result of one step.
///
/// The first `skip` bytes of the input are not data, then follow `data` bytes of the body, then `after` bytes
/// that are not data. The caller consumes all of them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) skip: usize,
    pub(crate) data: usize,
    pub(crate) after: usize,
    pub(crate) what: Found,
}

/// The kind of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The input ends before the next part.
    NeedsMore,
    /// An interim answer: its head is in `reply`.
    Interim,
    /// The head is in `reply`.
    Head,
    /// Bytes of the body.
    Data,
}

impl Decoder {
    pub(crate) fn new(protocol: Protocol) -> Self {
        Decoder {
            protocol,
            state: State::Head,
            frames: kept::Decoder::default(),
            has_connection_ended: false,
        }
    }

    /// Returns whether the application has sent the whole answer.
    pub(crate) fn is_at_end(&self) -> bool {
        matches!(self.state, State::End)
    }

    /// Returns whether the head of the answer has not arrived yet.
    pub(crate) fn is_at_head(&self) -> bool {
        matches!(self.state, State::Head)
    }

    /// Returns whether the end of the connection is the regular end of the answer.
    pub(crate) fn ends_with_connection(&self) -> bool {
        matches!(self.state, State::UntilClose)
    }

    /// Returns whether the client lacks nothing. Only the process's word that it has finished is missing.
    pub(crate) fn lacks_only_the_end(&self) -> bool {
        matches!(self.state, State::Frames { left: Some(0) })
    }

    /// Returns whether the connection has ended with the answer.
    pub(crate) fn has_connection_ended(&self) -> bool {
        self.has_connection_ended
    }

    /// Ends an answer whose connection has ended: one that [ends with it](Self::ends_with_connection), or that
    /// [lacks only the end](Self::lacks_only_the_end).
    pub(crate) fn end(&mut self) {
        self.state = State::End;
        self.has_connection_ended = true;
    }

    /// Decodes the next part of the answer.
    ///
    /// # Errors
    /// The bytes are not an answer. The text is for the log.
    pub(crate) fn step(
        &mut self,
        input: &[u8],
        reply: &mut ReplyHead,
        to: AnswerTo,
    ) -> Result<Step, String> {
        let nothing = |what| Step { skip: 0, data: 0, after: 0, what };
        let step = |skip, data, after, what| Ok(Step { skip, data, after, what });
        match &mut self.state {
            State::End => Ok(nothing(Found::NeedsMore)),
            State::Head if self.protocol == Protocol::KeptSession => {
                let decoded = self.frames.decode(input).map_err(|e| e.to_string())?;
                match decoded.part {
                    kept::Part::Incomplete { .. } => step(decoded.consumed, 0, 0, Found::NeedsMore),
                    kept::Part::Interim(head) => {
                        let parsed = reply.parse_interim(head, to).map_err(malformed)?;
                        if parsed != Some(head.len()) {
                            return Err(malformed("it does not fill its frame".into()));
                        }
                        step(decoded.consumed, 0, 0, Found::Interim)
                    }
                    kept::Part::Head(head) => {
                        let parsed = reply.parse_cgi(head, to).map_err(malformed)?;
                        if parsed != Some(head.len()) {
                            return Err(malformed("it does not fill its frame".into()));
                        }
                        let left = match reply.framing() {
                            ReplyFraming::None => Some(0),
                            ReplyFraming::Length(length) => Some(length),
                            ReplyFraming::Chunked | ReplyFraming::UntilClose => None,
                        };
                        self.state = State::Frames { left };
                        step(decoded.consumed, 0, 0, Found::Head)
                    }
                    kept::Part::Abort => Err("the application gave the request up".into()),
                    kept::Part::Body(_) | kept::Part::End => Err("a frame before the head".into()),
                }
            }
            State::Head => {
                let parsed = match self.protocol {
                    Protocol::HttpSession => reply.parse_http(input, to),
                    _ => reply.parse_cgi(input, to),
                };
                let Some(size) = parsed.map_err(malformed)? else {
                    return Ok(nothing(Found::NeedsMore));
                };
                if reply.is_interim() {
                    return step(size, 0, 0, Found::Interim);
                }
                self.state = match reply.framing() {
                    ReplyFraming::None | ReplyFraming::Length(0) => State::End,
                    ReplyFraming::Length(length) => State::Length(length),
                    ReplyFraming::Chunked => State::Chunked(chunked::Decoder::default()),
                    ReplyFraming::UntilClose => State::UntilClose,
                };
                step(size, 0, 0, Found::Head)
            }
            _ if input.is_empty() => Ok(nothing(Found::NeedsMore)),
            State::UntilClose => step(0, input.len(), 0, Found::Data),
            State::Length(left) => {
                let count = usize::try_from(*left).unwrap_or(usize::MAX).min(input.len());
                *left -= count as u64;
                if *left == 0 {
                    self.state = State::End;
                }
                step(0, count, 0, Found::Data)
            }
            State::Chunked(decoder) => {
                let decoded = decoder.decode(input).map_err(|e| e.0.to_owned())?;
                if decoded.is_end {
                    self.state = State::End;
                }
                let (start, end) = (decoded.data.start, decoded.data.end);
                let what = match end > start || decoded.is_end {
                    true => Found::Data,
                    false => Found::NeedsMore,
                };
                step(start, end - start, decoded.consumed - end, what)
            }
            State::Frames { left } => {
                let decoded = self.frames.decode(input).map_err(|e| e.to_string())?;
                match decoded.part {
                    kept::Part::Incomplete { .. } => step(decoded.consumed, 0, 0, Found::NeedsMore),
                    kept::Part::Body(data) => {
                        let before = decoded.consumed - data.len();
                        let most = left.map_or(usize::MAX, |n| n.try_into().unwrap_or(usize::MAX));
                        let count = data.len().min(most);
                        if let Some(left) = left {
                            *left -= count as u64;
                        }
                        step(before, count, data.len() - count, Found::Data)
                    }
                    kept::Part::End if left.is_some_and(|left| left > 0) => {
                        Err("the answer is shorter than its Content-Length".into())
                    }
                    kept::Part::End => {
                        self.state = State::End;
                        step(decoded.consumed, 0, 0, Found::Data)
                    }
                    // The application has failed while it cleaned up.
                    kept::Part::Abort if *left == Some(0) => {
                        let consumed = decoded.consumed;
                        self.end();
                        step(consumed, 0, 0, Found::Data)
                    }
                    kept::Part::Abort => Err("the application gave its answer up".into()),
                    kept::Part::Interim(_) | kept::Part::Head(_) => Err("a second head".into()),
                }
            }
        }
    }
}

fn malformed(why: String) -> String {
    format!("the head of the application's answer is malformed: {why}")
}
