//! The request on its way to the application.

use crate::exchange::buffers::IN_MEMORY;
use crate::lane::Lane;
use crate::request::body::Body;
use std::io;
use std::task::{Context, Poll};

/// The state of the request on its way to the application.
#[derive(Debug, Default)]
pub(crate) struct Upload {
    stage: Stage,
    /// The number of bytes of `to_app` that the application got.
    written: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Body,
    /// The end of the body is encoded.
    Tail,
    Done,
    /// The application reads no further. It may still answer.
    Refused,
}

impl Upload {
    /// Returns whether the application got the whole request.
    pub(crate) fn is_done(&self) -> bool {
        self.stage == Stage::Done
    }

    /// Returns whether the application reads no further.
    pub(crate) fn is_refused(&self) -> bool {
        self.stage == Stage::Refused
    }

    /// Sends no more of the request.
    pub(crate) fn refuse(&mut self) {
        self.stage = Stage::Refused;
    }

    /// Passes the body on to `to_app`, as far as there is room. Returns whether any bytes have moved.
    ///
    /// # Errors
    /// The file of the body cannot be read or written.
    pub(crate) fn fill(
        &mut self,
        cx: &mut Context<'_>,
        lane: &Lane,
        body: &mut Body,
        to_app: &mut Vec<u8>,
    ) -> io::Result<bool> {
        if self.stage != Stage::Body {
            return Ok(false);
        }
        let mut moved = false;
        if let Poll::Ready(progress) = body.poll_progress(cx) {
            progress?;
            moved = true; // another step may be due
        }
        while to_app.len() < IN_MEMORY && !body.next().is_empty() {
            let next = body.next();
            let count = next.len().min(IN_MEMORY);
            lane.push_body(to_app, &next[..count]);
            body.advance(count);
            moved = true;
        }
        if body.is_sent() {
            lane.push_end(to_app);
            self.stage = Stage::Tail;
            moved = true;
        }
        Ok(moved)
    }

    /// Writes `to_app`. Returns whether any bytes have moved.
    ///
    /// # Errors
    /// The connection takes no byte. If it has taken some, the upload is refused instead.
    pub(crate) fn write(
        &mut self,
        cx: &mut Context<'_>,
        lane: &mut Lane,
        to_app: &mut Vec<u8>,
    ) -> io::Result<bool> {
        let mut moved = false;
        while self.written < to_app.len() && self.stage != Stage::Refused {
            match lane.poll_write(cx, &to_app[self.written..]) {
                Poll::Pending => break,
                Poll::Ready(Ok(count)) => {
                    self.written += count;
                    moved = true;
                }
                Poll::Ready(Err(e)) if !lane.has_written() => return Err(e),
                Poll::Ready(Err(_)) => self.stage = Stage::Refused,
            }
        }
        if self.written == to_app.len() {
            to_app.clear();
            self.written = 0;
            if self.stage == Stage::Tail {
                self.stage = Stage::Done;
                moved = true;
                lane.end_request();
            }
        }
        Ok(moved)
    }
}
