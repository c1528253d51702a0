//! The session protocol: one connection carries one request. The head of the answer has CGI's form.

use crate::lane::parts::{Closed, Found, Step, malformed};
use crate::lane::reply_head::{ReplyFraming, ReplyHead};
use crate::request::framing::{Piece, Reader};
use crate::request::head::{AnswerTo, RequestFraming};
use cabrank_spawner::stream::AppStream;

/// A connection for one request.
#[derive(Debug)]
pub(crate) struct Session {
    stream: AppStream,
    /// The body of the answer; `None`: its head has not arrived.
    body: Option<Reader>,
}

impl Session {
    pub(crate) fn new(stream: AppStream) -> Self {
        Session { stream, body: None }
    }

    pub(crate) fn stream(&mut self) -> &mut AppStream {
        &mut self.stream
    }

    /// The end of the server's output ends the body.
    pub(crate) fn push_body(&self, out: &mut Vec<u8>, _: RequestFraming, part: &[u8]) {
        out.extend_from_slice(part);
    }

    pub(crate) fn push_end(&self, _: &mut Vec<u8>, _: RequestFraming) {}

    pub(crate) fn end_request(&mut self) {
        // An error shows again when the answer is read.
        let _ = self.stream.end_output();
    }

    pub(crate) fn step(
        &mut self,
        input: &[u8],
        reply: &mut ReplyHead,
        to: AnswerTo,
    ) -> Result<Step, String> {
        match &mut self.body {
            Some(body) => step_of_body(body, input),
            None => {
                let parsed = reply.parse_cgi(input, to).map_err(malformed)?;
                let Some(skip) = parsed else { return Ok(Step::needs_more()) };
                self.body = Some(body_of(reply));
                Ok(Step { skip, what: Found::Head, ..Step::needs_more() })
            }
        }
    }

    pub(crate) fn is_at_head(&self) -> bool {
        self.body.is_none()
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.body.as_ref().is_some_and(Reader::is_done)
    }

    pub(crate) fn closed(&self) -> Closed {
        closed(self.body.as_ref())
    }

    pub(crate) fn end_with_connection(&mut self) {
        self.body = Some(Reader::Done);
    }

    pub(crate) fn into_stream(self) -> AppStream {
        self.stream
    }
}

/// Returns the reader of the body behind this head.
pub(crate) fn body_of(reply: &ReplyHead) -> Reader {
    match reply.framing() {
        ReplyFraming::None => Reader::Done,
        ReplyFraming::Length(length) => Reader::of_length(length),
        ReplyFraming::Chunked => Reader::of_chunks(),
        ReplyFraming::UntilClose => Reader::UntilClose,
    }
}

/// Reads the next piece of an answer's body.
pub(crate) fn step_of_body(body: &mut Reader, input: &[u8]) -> Result<Step, String> {
    if input.is_empty() || body.is_done() {
        return Ok(Step::needs_more());
    }
    let Piece { skip, data, after } = body.next(input).map_err(|e| e.0.to_owned())?;
    let what = if data > 0 || body.is_done() { Found::Data } else { Found::NeedsMore };
    Ok(Step { skip, data, after, what })
}

/// Returns what the end of the connection means for such a body; `None`: its head has not arrived.
pub(crate) fn closed(body: Option<&Reader>) -> Closed {
    match body {
        Some(Reader::UntilClose) => Closed::PerhapsWhole,
        _ => Closed::Broken,
    }
}
