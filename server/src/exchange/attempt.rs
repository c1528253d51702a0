//! One attempt to get an answer: a request's hold on a process, and its connection to it.

use crate::connection::input::Input;
use crate::exchange::end::Refusal;
use crate::exchange::endings::Ending;
use crate::exchange::processes::Hold;
use crate::lane::reply_head::ReplyHead;
use crate::lane::{Lane, Message, Reached};
use cabrank::application_pool::ConnectError;
use cabrank_spawner::chain::Chain;
use cabrank_spawner::process::AppInfo;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// One attempt. Dropping it closes the connection, and ends the session.
#[derive(Debug)]
pub(crate) struct Attempt {
    /// Declared first: the connection closes before the session ends.
    pub(crate) lane: Lane,
    /// `None` once the application has sent its whole answer.
    pub(crate) hold: Option<Hold>,
    pub(crate) process: Arc<AppInfo>,
    /// The beginning of the session.
    pub(crate) since: Instant,
    /// The time in which the server has waited for the client's body, and the process had nothing more to read.
    pub(crate) waited: Duration,
    /// The answer is a stream of events, to which `--max-request-time` does not apply.
    pub(crate) streams_events: bool,
    /// The client has its whole answer. Declared last: the session ends before.
    pub(crate) ending: Option<Ending>,
}

impl Attempt {
    /// Begins an attempt on a connection that is [`open`].
    pub(crate) fn new(hold: Hold, lane: Lane) -> Attempt {
        let process = Arc::clone(&hold.process);
        let (hold, since, waited) = (Some(hold), Instant::now(), Duration::ZERO);
        Attempt { lane, hold, process, since, waited, streams_events: false, ending: None }
    }

    /// Reads once into `from_app`. The end of the process ends the connection, even if another process holds it open.
    ///
    /// The caller polls it again when a process is gone.
    pub(crate) fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        from_app: &mut Input,
    ) -> Poll<io::Result<usize>> {
        let read = from_app.poll_read(cx, self.lane.stream());
        // The runtime may not have noticed the process's last bytes yet, so the kernel is asked.
        let has_ended =
            read.is_pending() && self.process.endpoint.is_gone() && self.lane.stream().is_silent();
        if has_ended { Poll::Ready(Ok(0)) } else { read }
    }

    /// Gives connection and session back after a whole exchange.
    ///
    /// The connection comes first, so that the next session can borrow it.
    pub(crate) fn finish(self, reply: &ReplyHead, is_clean: bool) {
        let Attempt { lane, hold, process, ending, .. } = self;
        process.set_answered();
        lane.give_back(reply, is_clean);
        drop(hold);
        drop(ending);
    }

    /// Returns whether the process takes one request at a time, or a few.
    pub(crate) fn is_limited(&self) -> bool {
        self.process.concurrency > 0
    }
}

/// Opens the connection to the process, and encodes the head of the request into `to_app`.
///
/// The caller polls it again when a process is gone.
///
/// # Errors
/// The caller ends the session according to the state of its process.
pub(crate) async fn open(
    hold: &mut Hold,
    core: usize,
    message: Message<'_>,
    to_app: &mut Vec<u8>,
) -> Result<Lane, Refusal> {
    to_app.clear();
    let framing = message.framing;
    if let Err(bad) = Lane::push_head(to_app, hold, message) {
        return Err(Refusal::Request(bad.status, bad.why.into_owned()));
    }
    let process = Arc::clone(&hold.process);
    let mut open = pin!(Lane::open(hold, core, framing));
    let opened = poll_fn(|cx| match open.as_mut().poll(cx) {
        // Another process may hold its socket, where the connection would wait for ever.
        Poll::Pending if process.endpoint.is_gone() => {
            Poll::Ready(Err(ConnectError::process("the process has ended")))
        }
        opened => opened,
    });
    opened.await.map_err(|e| {
        let why = Chain(&e).to_string();
        match e.is_local() {
            true => Refusal::local(why),
            false => Refusal::NoAnswer { why, reached: Reached::Nowhere },
        }
    })
}
