//! The request on its way from the client to the application.

use crate::connection::watched::Left;
use crate::exchange::buffers::IN_MEMORY;
use crate::exchange::end::{End, Reached, Refusal};
use crate::exchange::pump::{Exchange, Moved};
use crate::request::chunked;
use crate::request::head::RequestFraming;
use cabrank_spawner::Protocol;
use cabrank_spawner::kept;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::AsyncWrite;

/// The state of the request on its way to the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Upload {
    Body,
    /// The end of the body is encoded.
    Tail,
    Done,
    /// The application reads no further. It may still answer.
    Refused,
}

impl Exchange<'_> {
    /// Passes the body on to `to_app`, as far as there is room.
    pub(crate) fn fill(&mut self, cx: &mut Context<'_>) -> Moved {
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
    pub(crate) fn upload(&mut self, cx: &mut Context<'_>) -> Moved {
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
                    let (why, reached) = (e.to_string(), Reached::NotTheApp);
                    return Err(End::Refused(Refusal::NoAnswer { why, reached }).into());
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

    /// Reads from the client: the rest of the body, or the end of the connection.
    pub(crate) fn listen(&mut self, cx: &mut Context<'_>) -> Moved {
        if self.body.is_received() {
            // A client that has left does not stop a complete answer: a write shows whether it has.
            if self.work.as_ref().is_some_and(|work| work.hold.is_some())
                && let Poll::Ready(Left) = self.client.poll_left(cx, &mut self.scratch.input)
            {
                return Err(End::Left.into());
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
            Poll::Ready(Ok(0)) | Poll::Ready(Err(_)) => Err(End::Left.into()),
            Poll::Ready(Ok(count)) => {
                self.sender.moved(count, now);
                Ok(true)
            }
        }
    }
}
