//! One attempt to get an answer: a request's hold on a process, and its connection to it.

use crate::exchange::end::Refusal;
use crate::exchange::processes::Hold;
use crate::lane::reply_head::ReplyHead;
use crate::lane::{Lane, Message, Reached};
use cabrank_spawner::chain::Chain;
use cabrank_spawner::process::AppInfo;
use std::sync::Arc;
use std::time::Instant;

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
}

impl Attempt {
    /// Opens the connection to the process, and encodes the head of the request into `to_app`.
    ///
    /// # Errors
    /// The caller ends the session according to the state of its process.
    pub(crate) async fn begin(
        mut hold: Hold,
        core: usize,
        message: Message<'_>,
        to_app: &mut Vec<u8>,
    ) -> Result<Attempt, (Hold, Refusal)> {
        to_app.clear();
        if let Err(bad) = Lane::push_head(to_app, &hold, message) {
            return Err((hold, Refusal::Request(bad.status, bad.why.into_owned())));
        }
        match Lane::open(&mut hold, core).await {
            Ok(lane) => {
                let (process, since) = (Arc::clone(&hold.process), Instant::now());
                Ok(Attempt { lane, hold: Some(hold), process, since })
            }
            Err(e) => {
                let why = Chain(&e).to_string();
                let refusal = match e.is_local() {
                    true => Refusal::local(why),
                    false => Refusal::NoAnswer { why, reached: Reached::Nowhere },
                };
                Err((hold, refusal))
            }
        }
    }

    /// Gives connection and session back after a whole exchange.
    ///
    /// The connection comes first, so that the next session can borrow it.
    pub(crate) fn finish(self, reply: &ReplyHead, is_clean: bool) {
        let Attempt { lane, hold, process, .. } = self;
        process.set_answered();
        lane.give_back(reply, is_clean);
        drop(hold);
    }

    /// Returns whether the process takes one request at a time, or a few.
    pub(crate) fn is_limited(&self) -> bool {
        self.process.concurrency > 0
    }
}
