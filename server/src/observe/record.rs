//! The record of one request: its facts for a log line, a metric or a span.
//!
//! A record begins with its request. Its drop calls [`read`]: at the end of the request, and also if the task is dropped. A
//! record allocates nothing. A new reader is one more line of [`read`].

use crate::request::head::Head;
use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tracing::Level;

/// The record of one request.
#[derive(Debug)]
pub(crate) struct Record<'a> {
    head: &'a Head,
    client: IpAddr,
    begun: Instant,
    /// The beginning of the last session with a process, and the pid.
    session: Option<(Instant, u32)>,
    /// The number of sessions.
    attempts: u32,
    /// The status of the answer or page that has begun. It counts only if the client has taken a byte of it.
    pub(crate) status: u16,
    /// The number of bytes that have arrived: of the body, or for the other protocol after an upgrade.
    pub(crate) received: u64,
    /// The number of bytes that the client has taken: of answer or page, the head included, or of the other protocol.
    pub(crate) sent: u64,
    pub(crate) end: Ended,
}

/// How a request ended: an [`End`](crate::exchange::end::End) without its reasons, which allocate. A record outlives its `End`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Its task was dropped: the server has stopped.
    Unfinished,
    Answered,
    /// The client has got a page of the server.
    Refused,
    /// The application did not finish its answer.
    Cut,
    /// The client has left, or did not take a page in time.
    Left,
    /// The client was too slow, or sent a malformed body, after the answer had begun.
    GivenUp,
    /// The work took longer than `--max-request-time`, after the answer had begun.
    TooLong,
    /// The connection has spoken another protocol.
    Switched,
}

impl<'a> Record<'a> {
    pub(crate) fn new(head: &'a Head, client: IpAddr) -> Self {
        Record {
            head,
            client,
            begun: Instant::now(),
            session: None,
            attempts: 0,
            status: 0,
            received: 0,
            sent: 0,
            end: Ended::Unfinished,
        }
    }

    /// Returns the status that the client has got; 0: none.
    fn status(&self) -> u16 {
        if self.sent > 0 { self.status } else { 0 }
    }

    /// Notes that a session with a process has begun.
    pub(crate) fn attempt(&mut self, since: Instant, pid: u32) {
        self.session = Some((since, pid));
        self.attempts += 1;
    }
}

impl Drop for Record<'_> {
    fn drop(&mut self) {
        read(self);
    }
}

/// The number of requests that a stop has cut off, and of those that the log names.
static CUT_OFF: AtomicUsize = AtomicUsize::new(0);
const NAMED: usize = 20;

/// Reads a record whose request has ended.
fn read(record: &Record<'_>) {
    #[cfg(test)]
    tests::note(record);
    // Its operator learns what a stop has cut off. Ten thousand lines would delay the end of the server.
    if record.end == Ended::Unfinished {
        match CUT_OFF.fetch_add(1, Ordering::Relaxed) {
            before if before < NAMED => {
                let line = Line { record, took: record.begun.elapsed() };
                tracing::warn!("cut off by the stop: {line}");
            }
            NAMED => tracing::warn!("cut off by the stop: more requests than {NAMED}"),
            _ => {}
        }
    }
    // The clock is read only for a reader.
    if tracing::enabled!(Level::DEBUG) {
        let pid = record.session.map_or(0, |(_, pid)| pid);
        tracing::debug!(pid, "{}", Line { record, took: record.begun.elapsed() });
    }
}

/// Returns the text as a line shows it. An unreadable head has none.
fn known(text: &str) -> &str {
    if text.is_empty() { "-" } else { text }
}

/// The line of the log.
struct Line<'a> {
    record: &'a Record<'a>,
    took: Duration,
}

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Record { head, client, begun, session, attempts, status: _, received, sent, end } =
            self.record;
        let path = String::from_utf8_lossy(head.path());
        let (method, path, status) = (known(head.method()), known(&path), self.record.status());
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        write!(f, "{client} {method} {path}: {end:?}, status {status}, {:.1} ms", ms(self.took))?;
        if let Some((since, pid)) = session {
            let waited = ms(since.saturating_duration_since(*begun));
            write!(f, ", of which {waited:.1} ms before process {pid}, attempts {attempts}")?;
        }
        write!(f, ", received {received}, sent {sent}")
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::client::http1::parse::parsed;
    use std::cell::RefCell;

    /// The facts of a record, for tests.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub(crate) struct Facts {
        pub(crate) end: Ended,
        pub(crate) status: u16,
        pub(crate) received: u64,
        pub(crate) sent: u64,
    }

    thread_local! {
        /// The records of this thread whose requests have ended.
        pub(crate) static READ: RefCell<Vec<Facts>> = const { RefCell::new(Vec::new()) };
    }

    pub(super) fn note(record: &Record<'_>) {
        let &Record { end, received, sent, .. } = record;
        let facts = Facts { end, status: record.status(), received, sent };
        READ.with_borrow_mut(|all| all.push(facts));
    }

    #[test]
    fn a_line_has_what_is_known_and_comes_when_the_record_is_dropped() {
        let (head, _) = parsed("GET /shop?q HTTP/1.1\r\nHost: a\r\n\r\n");
        let mut record = Record::new(&head, [192, 0, 2, 1].into());
        let took = Duration::from_micros(2345);
        record.end = Ended::Left;
        assert_eq!(
            Line { record: &record, took }.to_string(),
            "192.0.2.1 GET /shop: Left, status 0, 2.3 ms, received 0, sent 0"
        );
        record.attempt(record.begun, 7);
        record.attempt(record.begun + Duration::from_millis(1), 8);
        (record.status, record.sent, record.end) = (200, 95, Ended::Answered);
        assert_eq!(
            Line { record: &record, took }.to_string(),
            "192.0.2.1 GET /shop: Answered, status 200, 2.3 ms, of which 1.0 ms before process 8, attempts 2, \
             received 0, sent 95"
        );
        // The client has taken no byte of the answer.
        (record.sent, record.end) = (0, Ended::Cut);
        assert!(Line { record: &record, took }.to_string().contains(": Cut, status 0, "));
        record.end = Ended::Answered;
        assert_eq!(READ.take(), []);
        drop(record);
        let facts = Facts { end: Ended::Answered, status: 0, received: 0, sent: 0 };
        assert_eq!(READ.take(), [facts]);
        let unreadable = Head::default();
        let record = Record::new(&unreadable, [192, 0, 2, 1].into());
        let line = Line { record: &record, took }.to_string();
        assert!(line.starts_with("192.0.2.1 - -: Unfinished, status 0, "), "{line}");
    }
}
