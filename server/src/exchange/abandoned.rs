//! The work of a client that has left: the application learns of it, and the session ends with the work.
//!
//! A process that still works for a client that has left must take no other session, or the next client
//! would wait behind that work. So a task of its own keeps the session until the application has finished:
//!
//! | protocol | the application learns it by | the session ends with |
//! |---|---|---|
//! | kept session | the end of the server's output | the end frame, or the connection's end |
//! | `session` | the end of the server's output; a second after its first byte, a closed connection | the connection's end |
//! | `http_session`, limited concurrency | the same | the end of the answer, or of the connection |
//! | `http_session`, any number of requests | the closed connection | that |
//!
//! `--max-request-time` bounds all of them. The time of a stream of events begins when its client has left.

use crate::connection::input::Input;
use crate::exchange::attempt::Attempt;
use crate::exchange::overtime;
use crate::exchange::served::Served;
use crate::lane::reply_head::ReplyHead;
use crate::lane::{Abandon, Found};
use crate::request::head::AnswerTo;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

/// How long the application may go on after the first byte of an answer that no client reads.
const AFTER_FIRST_BYTE: Duration = Duration::from_secs(1);

/// Ends the work without its client.
///
/// `rest` are bytes of the answer that are not decoded, and `answer` is the kind of answer.
pub(crate) fn abandon(
    application: &Arc<Served>,
    mut attempt: Attempt,
    rest: Input,
    answer: AnswerTo,
) {
    let how = attempt.lane.abandon(attempt.is_limited());
    if how == Abandon::AtOnce || attempt.hold.is_none() {
        return; // the drop closes the connection, and ends the session
    }
    let _ = attempt.lane.stream().end_output();
    let application = Arc::clone(application);
    let limit = application.max_request_time;
    tokio::spawn(async move {
        let worked = match attempt.streams_events {
            true => Duration::ZERO,
            false => attempt.since.elapsed().saturating_sub(attempt.waited),
        };
        let left = limit.map(|limit| limit.saturating_sub(worked));
        let finish = finish(&mut attempt, how, rest, answer);
        let in_time = match left {
            Some(left) => tokio::time::timeout(left, finish).await.is_ok(),
            None => {
                finish.await;
                true
            }
        };
        if !in_time {
            overtime::end(&application, attempt);
        }
    });
}

/// Reads the answer and throws it away.
async fn finish(attempt: &mut Attempt, how: Abandon, mut rest: Input, answer: AnswerTo) {
    // A reply that is not passed on: only its end matters.
    let mut reply = ReplyHead::default();
    if attempt.lane.is_at_head() && rest.is_empty() && !read(attempt, &mut rest).await {
        return;
    }
    let drain = async {
        loop {
            let lane = &mut attempt.lane;
            while let Ok(step) = lane.step(rest.unread(), &mut reply, answer) {
                rest.consume(step.skip + step.data + step.after);
                if lane.is_at_end() {
                    return;
                }
                if step.what == Found::NeedsMore {
                    break;
                }
            }
            // Bytes that are no answer end with the connection, too.
            if !read(attempt, &mut rest).await {
                return;
            }
        }
    };
    if how == Abandon::AtItsEnd {
        drain.await;
    } else {
        let _ = tokio::time::timeout(AFTER_FIRST_BYTE, drain).await;
    }
}

/// Reads once. Returns false at the end of the connection, or of the process.
async fn read(attempt: &mut Attempt, rest: &mut Input) -> bool {
    let process = Arc::clone(&attempt.process);
    let mut changed = pin!(process.connections.changed());
    let read = poll_fn(|cx| {
        while changed.as_mut().poll(cx).is_ready() {
            changed.set(process.connections.changed());
        }
        attempt.poll_read(cx, rest)
    });
    read.await.is_ok_and(|count| count > 0)
}
