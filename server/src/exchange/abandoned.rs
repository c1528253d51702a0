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
//! `--max-request-time` bounds all of them.

use crate::connection::input::Input;
use crate::exchange::application::Application;
use crate::exchange::overtime;
use crate::exchange::work::Work;
use crate::lane::decoder::Found;
use crate::lane::reply_head::ReplyHead;
use crate::request::head::AnswerTo;
use cabrank_spawner::Protocol;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

/// How long the application may go on after the first byte of an answer that no client reads.
const AFTER_FIRST_BYTE: Duration = Duration::from_secs(1);

/// Ends the work without its client.
///
/// `rest` are bytes of the answer that are not decoded, and `answer` is the kind of answer.
pub(crate) fn abandon(
    application: &Arc<Application>,
    mut work: Work,
    rest: Input,
    answer: AnswerTo,
) {
    let is_unlimited = work.process.protocol == Protocol::HttpSession && !work.is_limited();
    if is_unlimited || !work.has_written || work.hold.is_none() {
        return; // the drop closes the connection, and ends the session
    }
    let _ = work.link.stream().end_output();
    let application = Arc::clone(application);
    let limit = application.max_request_time;
    tokio::spawn(async move {
        let left = limit.map(|limit| limit.saturating_sub(work.since.elapsed()));
        let finish = finish(&mut work, rest, answer);
        let in_time = match left {
            Some(left) => tokio::time::timeout(left, finish).await.is_ok(),
            None => {
                finish.await;
                true
            }
        };
        if !in_time {
            overtime::end(&application, work);
        }
    });
}

/// Reads the answer and throws it away.
async fn finish(work: &mut Work, mut rest: Input, answer: AnswerTo) {
    let waits_for_end = work.process.protocol == Protocol::KeptSession;
    // A reply that is not passed on: only its end matters.
    let mut reply = ReplyHead::default();
    if work.decoder.is_at_head() && rest.is_empty() && !read(work, &mut rest).await {
        return;
    }
    let drain = async {
        loop {
            while let Ok(step) = work.decoder.step(rest.unread(), &mut reply, answer) {
                rest.consume(step.skip + step.data + step.after);
                if work.decoder.is_at_end() {
                    return;
                }
                if step.what == Found::NeedsMore {
                    break;
                }
            }
            // Bytes that are no answer end with the connection, too.
            if !read(work, &mut rest).await {
                return;
            }
        }
    };
    if waits_for_end {
        drain.await;
    } else {
        let _ = tokio::time::timeout(AFTER_FIRST_BYTE, drain).await;
    }
}

/// Reads once. Returns false at the end of the connection.
async fn read(work: &mut Work, rest: &mut Input) -> bool {
    let read = poll_fn(|cx| rest.poll_read(cx, work.link.stream())).await;
    read.is_ok_and(|count| count > 0)
}
