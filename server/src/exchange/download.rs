//! The answer on its way from the application: read and decoded, but not passed on.

use crate::connection::input::Input;
use crate::exchange::attempt::Attempt;
use crate::lane::reply_head::ReplyHead;
use crate::lane::{Closed, Found};
use crate::request::head::AnswerTo;
use std::io;
use std::task::{Context, Poll};

/// The place in `from_app`, the bytes of the application that are not decoded.
#[derive(Debug, Default)]
pub(crate) struct Download {
    /// The bytes at the start of `from_app` that are data for the client, and those behind them that are not.
    ready: usize,
    after: usize,
}

/// The next part of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// No more bytes are there now.
    Nothing,
    /// Bytes have moved: perhaps there is [data](Download::data).
    More,
    /// The head of an interim answer is in `reply`.
    Interim,
    /// The head of the answer is in `reply`.
    Head,
    /// The answer has ended.
    End,
}

/// The failure of an answer.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The bytes are no answer.
    Nonsense(String),
    /// The connection refuses the request.
    Refused,
    /// The connection has failed.
    Broken(io::Error),
    /// The connection has ended too early. `is_perhaps_whole`: it is the end of the answer if the process lives.
    Closed { is_perhaps_whole: bool },
}

impl Download {
    /// Returns the data for the client that is decoded.
    pub(crate) fn data<'a>(&self, from_app: &'a Input) -> &'a [u8] {
        &from_app.unread()[..self.ready]
    }

    /// Removes the data, which the caller has passed on.
    pub(crate) fn consume(&mut self, from_app: &mut Input) {
        from_app.consume(std::mem::take(&mut self.ready));
    }

    /// Decodes the next part of the answer, and reads once if bytes are missing. The data of the part before is consumed.
    pub(crate) fn next(
        &mut self,
        cx: &mut Context<'_>,
        attempt: &mut Attempt,
        from_app: &mut Input,
        reply: &mut ReplyHead,
        to: AnswerTo,
    ) -> Result<Heard, Failure> {
        debug_assert_eq!(self.ready, 0, "the data is passed on before the next part");
        from_app.consume(std::mem::take(&mut self.after));
        let lane = &mut attempt.lane;
        if lane.is_at_end() {
            return Ok(Heard::End);
        }
        let step = lane.step(from_app.unread(), reply, to).map_err(Failure::Nonsense)?;
        from_app.consume(step.skip);
        (self.ready, self.after) = (step.data, step.after);
        match step.what {
            Found::Data => Ok(Heard::More),
            Found::Interim => Ok(Heard::Interim),
            Found::Head => Ok(Heard::Head),
            Found::Refusal => Err(Failure::Refused),
            Found::NeedsMore if self.after > 0 => Ok(Heard::More),
            Found::NeedsMore => read(cx, attempt, from_app),
        }
    }
}

fn read(
    cx: &mut Context<'_>,
    attempt: &mut Attempt,
    from_app: &mut Input,
) -> Result<Heard, Failure> {
    let read = attempt.poll_read(cx, from_app);
    let closed = attempt.lane.closed();
    match read {
        Poll::Pending => Ok(Heard::Nothing),
        Poll::Ready(Ok(count)) if count > 0 => Ok(Heard::More),
        Poll::Ready(_) if closed == Closed::Whole => {
            attempt.lane.end_with_connection();
            Ok(Heard::More)
        }
        Poll::Ready(Ok(_)) => {
            Err(Failure::Closed { is_perhaps_whole: closed == Closed::PerhapsWhole })
        }
        Poll::Ready(Err(e)) => Err(Failure::Broken(e)),
    }
}
