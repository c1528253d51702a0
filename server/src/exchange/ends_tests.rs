//! Each end of an exchange, in each state of the answer: what the client gets, and what becomes of session and
//! connection. `cargo test -p cabrank-server each_end -- --nocapture` prints the table.
//!
//! Each row is played for the protocols that it names, with an answer of a known length and one of an unknown length,
//! and once more with a client that has ended its output (half-close).

use super::played::{LIMITS, MAX_REQUEST_TIME, Scene, eventually, read_rest, read_until};
use cabrank_spawner::Protocol::{self, HttpSession, KeptSession, Session};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;

/// What ends the exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// The application sends the rest of its answer.
    Finishes,
    /// The process closes the connection, and lives on.
    Closes,
    /// The process dies.
    Dies,
    /// The application sends bytes that are no answer.
    TalksNonsense,
    /// The application gives the request up (kept sessions).
    Aborts,
    /// The process takes longer than `--max-request-time`.
    TakesTooLong,
    /// The client closes its connection.
    Leaves,
    /// The client closes its connection within its body.
    LeavesWithinItsBody,
    /// The client sends no more of its body.
    StopsSending,
    /// The client sends a malformed body.
    SendsNonsense,
    /// The client does not read the answer, which is too large for the buffers.
    ReadsNothing,
    /// As `ReadsNothing`, and the answer fits into the buffers.
    ReadsNothingOfASmallAnswer,
}
use Cause::*;

/// The part of the answer that the application has sent before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Nothing,
    Head,
    Part,
}

/// How the end of the answer shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    Length,
    Unknown,
}

/// What the client gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Got {
    Nothing,
    Page(u16),
    Head,
    Part,
    Whole,
}

/// What becomes of the client's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    Stays,
    Closes,
}
use Then::{Closes as Ends, Stays};

/// What becomes of the session, and of the connection to the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// Both are given back.
    Kept,
    /// The session ends, and the connection closes.
    Closed,
    /// The process leaves the pool, the session ends, and the connection closes.
    Detached,
    /// The process leaves the pool as a failed one, gets a signal, and its session ends.
    Ended,
    /// The application learns that its client has left. The session ends when it has finished, and not before.
    Waits,
}

struct Row {
    cause: Cause,
    state: State,
    lanes: &'static [Protocol],
    framings: &'static [Framing],
    got: Got,
    then: Then,
    fate: Fate,
}

const ALL: &[Protocol] = &[Session, KeptSession, HttpSession];
const BOTH: &[Framing] = &[Framing::Length, Framing::Unknown];
const LENGTH: &[Framing] = &[Framing::Length];
const UNKNOWN: &[Framing] = &[Framing::Unknown];

const fn row(
    cause: Cause,
    state: State,
    lanes: &'static [Protocol],
    framings: &'static [Framing],
    got: Got,
    then: Then,
    fate: Fate,
) -> Row {
    Row { cause, state, lanes, framings, got, then, fate }
}

#[rustfmt::skip]
const ROWS: &[Row] = &[
    row(Finishes, State::Nothing, &[Session], BOTH, Got::Whole, Stays, Fate::Closed),
    row(Finishes, State::Nothing, &[KeptSession, HttpSession], BOTH, Got::Whole, Stays, Fate::Kept),
    row(Finishes, State::Head, &[Session], BOTH, Got::Whole, Stays, Fate::Closed),
    row(Finishes, State::Head, &[KeptSession, HttpSession], BOTH, Got::Whole, Stays, Fate::Kept),
    row(Finishes, State::Part, &[Session], BOTH, Got::Whole, Stays, Fate::Closed),
    row(Finishes, State::Part, &[KeptSession, HttpSession], BOTH, Got::Whole, Stays, Fate::Kept),
    row(Closes, State::Nothing, ALL, BOTH, Got::Page(502), Stays, Fate::Closed),
    row(Closes, State::Head, ALL, LENGTH, Got::Head, Ends, Fate::Closed),
    // A living process ends an answer of unknown length so.
    row(Closes, State::Head, &[Session], UNKNOWN, Got::Whole, Stays, Fate::Closed),
    row(Closes, State::Head, &[KeptSession, HttpSession], UNKNOWN, Got::Head, Ends, Fate::Closed),
    row(Closes, State::Part, ALL, LENGTH, Got::Part, Ends, Fate::Closed),
    row(Closes, State::Part, &[Session], UNKNOWN, Got::Whole, Stays, Fate::Closed),
    row(Closes, State::Part, &[KeptSession, HttpSession], UNKNOWN, Got::Part, Ends, Fate::Closed),
    row(Dies, State::Nothing, ALL, BOTH, Got::Page(502), Stays, Fate::Detached),
    row(Dies, State::Head, ALL, BOTH, Got::Head, Ends, Fate::Detached),
    row(Dies, State::Part, ALL, BOTH, Got::Part, Ends, Fate::Detached),
    row(TalksNonsense, State::Nothing, ALL, BOTH, Got::Page(502), Stays, Fate::Closed),
    row(TalksNonsense, State::Head, &[KeptSession], BOTH, Got::Head, Ends, Fate::Closed),
    row(TalksNonsense, State::Head, &[HttpSession], UNKNOWN, Got::Head, Ends, Fate::Closed),
    row(TalksNonsense, State::Part, &[KeptSession], BOTH, Got::Part, Ends, Fate::Closed),
    row(TalksNonsense, State::Part, &[HttpSession], UNKNOWN, Got::Part, Ends, Fate::Closed),
    row(Aborts, State::Nothing, &[KeptSession], BOTH, Got::Page(502), Stays, Fate::Closed),
    row(Aborts, State::Head, &[KeptSession], BOTH, Got::Head, Ends, Fate::Closed),
    row(Aborts, State::Part, &[KeptSession], BOTH, Got::Part, Ends, Fate::Closed),
    row(TakesTooLong, State::Nothing, ALL, BOTH, Got::Page(504), Stays, Fate::Ended),
    row(TakesTooLong, State::Head, ALL, BOTH, Got::Head, Ends, Fate::Ended),
    row(TakesTooLong, State::Part, ALL, BOTH, Got::Part, Ends, Fate::Ended),
    row(Leaves, State::Nothing, ALL, BOTH, Got::Nothing, Ends, Fate::Waits),
    // Without frames, the application has one more second after its first byte.
    row(Leaves, State::Head, &[Session, HttpSession], BOTH, Got::Head, Ends, Fate::Closed),
    row(Leaves, State::Head, &[KeptSession], BOTH, Got::Head, Ends, Fate::Waits),
    row(Leaves, State::Part, &[Session, HttpSession], BOTH, Got::Part, Ends, Fate::Closed),
    row(Leaves, State::Part, &[KeptSession], BOTH, Got::Part, Ends, Fate::Waits),
    row(LeavesWithinItsBody, State::Nothing, ALL, BOTH, Got::Nothing, Ends, Fate::Waits),
    row(LeavesWithinItsBody, State::Head, &[Session, HttpSession], BOTH, Got::Head, Ends, Fate::Closed),
    row(LeavesWithinItsBody, State::Head, &[KeptSession], BOTH, Got::Head, Ends, Fate::Waits),
    row(LeavesWithinItsBody, State::Part, &[Session, HttpSession], BOTH, Got::Part, Ends, Fate::Closed),
    row(LeavesWithinItsBody, State::Part, &[KeptSession], BOTH, Got::Part, Ends, Fate::Waits),
    row(StopsSending, State::Nothing, ALL, BOTH, Got::Page(408), Ends, Fate::Waits),
    row(StopsSending, State::Head, &[Session, HttpSession], BOTH, Got::Head, Ends, Fate::Closed),
    row(StopsSending, State::Head, &[KeptSession], BOTH, Got::Head, Ends, Fate::Waits),
    row(StopsSending, State::Part, &[Session, HttpSession], BOTH, Got::Part, Ends, Fate::Closed),
    row(StopsSending, State::Part, &[KeptSession], BOTH, Got::Part, Ends, Fate::Waits),
    row(SendsNonsense, State::Nothing, ALL, BOTH, Got::Page(400), Ends, Fate::Waits),
    row(SendsNonsense, State::Head, &[Session, HttpSession], BOTH, Got::Head, Ends, Fate::Closed),
    row(SendsNonsense, State::Head, &[KeptSession], BOTH, Got::Head, Ends, Fate::Waits),
    row(SendsNonsense, State::Part, &[Session, HttpSession], BOTH, Got::Part, Ends, Fate::Closed),
    row(SendsNonsense, State::Part, &[KeptSession], BOTH, Got::Part, Ends, Fate::Waits),
    // The rest of the answer is read all the same, up to its end.
    row(ReadsNothing, State::Part, ALL, BOTH, Got::Part, Ends, Fate::Closed),
    row(ReadsNothingOfASmallAnswer, State::Part, &[Session], BOTH, Got::Part, Ends, Fate::Closed),
    row(ReadsNothingOfASmallAnswer, State::Part, &[KeptSession, HttpSession], BOTH, Got::Part, Ends, Fate::Kept),
];

impl Cause {
    /// Returns the request of the client.
    fn request(self) -> &'static str {
        match self {
            LeavesWithinItsBody | StopsSending => {
                "Content-Length: 1000\r\n\r\nthe beginning of a body"
            }
            SendsNonsense => "Transfer-Encoding: chunked\r\n\r\n17\r\nthe beginning of a body\r\n",
            _ => "Content-Length: 3\r\n\r\nabc",
        }
    }

    /// Returns a part of the request that the application sees.
    fn mark(self) -> &'static [u8] {
        match self {
            LeavesWithinItsBody | StopsSending | SendsNonsense => b"the beginning of",
            _ => b"abc",
        }
    }

    /// Returns whether a client that has ended its output can be the cause.
    fn allows_half_close(self) -> bool {
        matches!(self, Finishes | Closes | Dies | TalksNonsense | Aborts | TakesTooLong)
    }

    /// Returns the body of the answer.
    fn body(self) -> Vec<u8> {
        let size = match self {
            ReadsNothing => 1 << 20,
            ReadsNothingOfASmallAnswer => 100_000,
            _ => 10,
        };
        b"0123456789".repeat(size / 10)
    }
}

/// An answer in the protocol of a process: its head, and parts of its body.
struct Answer {
    lane: Protocol,
    framing: Framing,
    body: Vec<u8>,
}

impl Answer {
    fn head(&self) -> Vec<u8> {
        let status = if self.lane == HttpSession { "HTTP/1.1 200 OK" } else { "Status: 200 OK" };
        let framing = match (self.framing, self.lane) {
            (Framing::Length, _) => format!("Content-Length: {}\r\n", self.body.len()),
            (Framing::Unknown, HttpSession) => "Transfer-Encoding: chunked\r\n".into(),
            (Framing::Unknown, _) => String::new(),
        };
        let head = format!("{status}\r\n{framing}\r\n").into_bytes();
        if self.lane == KeptSession { frame(b'H', &head) } else { head }
    }

    fn part(&self, part: &[u8]) -> Vec<u8> {
        match (self.lane, self.framing) {
            (KeptSession, _) => part.chunks(1 << 20).flat_map(|part| frame(b'D', part)).collect(),
            (HttpSession, Framing::Unknown) => {
                [format!("{:x}\r\n", part.len()).as_bytes(), part, b"\r\n"].concat()
            }
            _ => part.to_vec(),
        }
    }

    fn end(&self) -> &'static [u8] {
        match (self.lane, self.framing) {
            (KeptSession, _) => b"E\0\0\0",
            (HttpSession, Framing::Unknown) => b"0\r\n\r\n",
            _ => b"",
        }
    }

    /// Returns how much of the answer the client got.
    fn got(&self, bytes: &[u8]) -> Got {
        let text = String::from_utf8_lossy(bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { return Got::Nothing };
        let status: u16 = head[9..12].parse().unwrap();
        if status != 200 {
            return Got::Page(status);
        }
        let is_whole = match self.framing {
            Framing::Length => body.len() == self.body.len(),
            Framing::Unknown => body.ends_with("0\r\n\r\n"),
        };
        match body {
            _ if is_whole => Got::Whole,
            "" => Got::Head,
            _ => Got::Part,
        }
    }
}

fn frame(kind: u8, bytes: &[u8]) -> Vec<u8> {
    let size = (bytes.len() as u32).to_be_bytes();
    [&[kind, size[1], size[2], size[3]], bytes].concat()
}

/// Plays one row, and returns what is other than it says.
async fn play(
    row: &Row,
    lane: Protocol,
    framing: Framing,
    half_closes: bool,
) -> Result<(), String> {
    let mut scene = Scene::new(lane, 1, 1);
    let answer = Answer { lane, framing, body: row.cause.body() };
    let request = format!("POST / HTTP/1.1\r\nHost: a\r\n{}", row.cause.request());
    scene.client.write_all(request.as_bytes()).await.unwrap();
    if half_closes {
        scene.client.shutdown().await.unwrap();
    }
    let mut app = scene.request(0, row.cause.mark()).await;
    let (before, after) = row.state.split(&answer);
    app.write_all(&before).await.unwrap();
    let mut seen = match row.state {
        State::Nothing => Vec::new(),
        State::Head => read_until(&mut scene.client, b"\r\n\r\n").await,
        State::Part => read_until(&mut scene.client, b"01234").await,
    };
    let app = act(row.cause, &mut scene, app, lane, &after).await;

    let mut wrong = Vec::new();
    if half_closes || row.then == Ends {
        // The server reads for a while what a client sends after a refusal.
        let closes = eventually(|| {
            scene.pass(Duration::from_secs(1));
            scene.has_closed()
        });
        if !closes.await {
            wrong.push("the client's connection stays open".into());
        }
        seen.extend(read_rest(&mut scene.client).await);
    } else {
        // The connection takes another request, for which there is no process.
        scene.client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        seen.extend(read_rest(&mut scene.client).await);
        let text = String::from_utf8_lossy(&seen).into_owned();
        match text.rfind("HTTP/1.1 503") {
            Some(at) => seen.truncate(at),
            None => wrong.push("the client's connection takes no other request".into()),
        }
    }
    let got = answer.got(&seen);
    if got != row.got {
        let seen = String::from_utf8_lossy(&seen[..seen.len().min(300)]).into_owned();
        wrong.push(format!("the client got {got:?}: {seen:?}"));
    }
    if let Some(what) = fate_is_other(row, &mut scene, app, lane, &after).await {
        wrong.push(what);
    }
    let is_answered = row.got == Got::Whole || row.cause == ReadsNothingOfASmallAnswer;
    if scene.has_answered(0) != is_answered {
        wrong.push("whether the process counts as one that has answered".into());
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ")) }
}

impl State {
    /// Returns what the application has sent before the cause, and the rest of its answer.
    fn split(self, answer: &Answer) -> (Vec<u8>, Vec<u8>) {
        let (first, second) = answer.body.split_at(5);
        let [head, first, second] = [answer.head(), answer.part(first), answer.part(second)];
        let rest = [second, answer.end().into()].concat();
        match self {
            State::Nothing => (Vec::new(), [head, first, rest].concat()),
            State::Head => (head, [first, rest].concat()),
            State::Part => ([head, first].concat(), rest),
        }
    }
}

/// Lets the cause come about. Returns the application's end of its connection, if it has it still.
async fn act(
    cause: Cause,
    scene: &mut Scene,
    mut app: UnixStream,
    lane: Protocol,
    rest: &[u8],
) -> Option<UnixStream> {
    match cause {
        Finishes => {
            app.write_all(rest).await.unwrap();
            // In this protocol the connection's end is the answer's.
            return Some(app).filter(|_| lane != Session);
        }
        Closes => return None,
        Dies => {
            scene.kill(0);
            return None;
        }
        TalksNonsense => app.write_all(b"nonsense\r\n\r\nnonsense").await.unwrap(),
        Aborts => app.write_all(b"A\0\0\0").await.unwrap(),
        TakesTooLong => scene.pass(MAX_REQUEST_TIME * 2),
        Leaves | LeavesWithinItsBody => {
            // Longer than a half-close.
            tokio::time::sleep(Duration::from_secs(1)).await;
            let (other, _) = UnixStream::pair().unwrap();
            drop(std::mem::replace(&mut scene.client, other));
        }
        StopsSending => scene.pass(LIMITS.timeouts.client * 2),
        SendsNonsense => scene.client.write_all(b"nonsense").await.unwrap(),
        ReadsNothing | ReadsNothingOfASmallAnswer => {
            let rest = rest.to_vec();
            let sent = tokio::spawn(async move {
                app.write_all(&rest).await.ok()?;
                Some(app).filter(|_| lane != Session)
            });
            let closes = eventually(|| {
                scene.pass(LIMITS.timeouts.client);
                scene.has_closed()
            });
            assert!(closes.await, "a client that reads nothing keeps its connection");
            // The whole answer is read, although its client is gone.
            return sent.await.unwrap();
        }
    }
    Some(app)
}

/// Returns what has become of session and connection, if it is other than the row says.
async fn fate_is_other(
    row: &Row,
    scene: &mut Scene,
    mut app: Option<UnixStream>,
    lane: Protocol,
    rest: &[u8],
) -> Option<String> {
    let expected: &[&str] = match row.fate {
        Fate::Kept | Fate::Closed => &["ended"],
        Fate::Detached => &["detached", "ended"],
        Fate::Ended => &["failed", "ended"],
        Fate::Waits => {
            // The application learns that its client has left.
            let app = app.as_mut()?;
            read_rest(app).await;
            if scene.notes.read() != [] as [&str; 0] {
                return Some(format!("the session does not wait: {:?}", scene.notes.read()));
            }
            app.write_all(rest).await.unwrap();
            if lane == Session {
                app.shutdown().await.unwrap();
            }
            &["ended"]
        }
    };
    if !eventually(|| scene.notes.read() == expected).await {
        return Some(format!("the session: {:?}", scene.notes.read()));
    }
    let kept = usize::from(row.fate == Fate::Kept);
    if !eventually(|| scene.idle() == kept).await {
        return Some(format!("{} idle connections to the process", scene.idle()));
    }
    if row.fate == Fate::Ended && !eventually(|| scene.has_ended(0)).await {
        return Some("the process lives on".into());
    }
    if row.fate != Fate::Kept
        && let Some(app) = &mut app
    {
        read_rest(app).await;
    }
    None
}

#[tokio::test(start_paused = true)]
async fn each_end_in_each_state_of_the_answer() {
    let mut failures = Vec::new();
    let mut played = 0;
    println!(
        "{:<28}{:<9}{:<50}{:<12}{:<8}fate",
        "cause", "answer", "protocols, framings", "client", "then"
    );
    for row in ROWS {
        let variants = format!("{:?} {:?}", row.lanes, row.framings);
        println!(
            "{:<28}{:<9}{variants:<50}{:<12}{:<8}{:?}",
            format!("{:?}", row.cause),
            format!("{:?}", row.state),
            format!("{:?}", row.got),
            format!("{:?}", row.then),
            row.fate
        );
        for &lane in row.lanes {
            for &framing in row.framings {
                for half_closes in [false, true] {
                    if half_closes && !row.cause.allows_half_close() {
                        continue;
                    }
                    played += 1;
                    let played = play(row, lane, framing, half_closes);
                    if let Err(wrong) = played.await {
                        failures.push(format!(
                            "{:?} {:?} {lane:?} {framing:?} half-closed: {half_closes}: {wrong}",
                            row.cause, row.state
                        ));
                    }
                }
            }
        }
    }
    println!("{} rows, played {played} times", ROWS.len());
    assert!(failures.is_empty(), "{} of {played}:\n{}", failures.len(), failures.join("\n"));
}

/// A request that is safe to repeat goes to another process once, if its process has sent nothing.
#[tokio::test(start_paused = true)]
async fn a_safe_request_is_repeated_once() {
    for lane in ALL {
        for method in ["GET", "POST"] {
            let mut scene = Scene::new(*lane, 1, 2);
            let request = format!("{method} /mark HTTP/1.1\r\nHost: a\r\n\r\n");
            scene.client.write_all(request.as_bytes()).await.unwrap();
            drop(scene.request(0, b"/mark").await);
            if method == "GET" {
                let mut app = scene.request(1, b"/mark").await;
                let answer = Answer { lane: *lane, framing: Framing::Length, body: vec![b'x'; 3] };
                let bytes = [answer.head(), answer.part(b"xxx"), answer.end().to_vec()].concat();
                app.write_all(&bytes).await.unwrap();
                drop(app);
                read_until(&mut scene.client, b"\r\n\r\nxxx").await;
                assert!(eventually(|| scene.notes.read() == ["ended", "ended"]).await);
            } else {
                read_until(&mut scene.client, b"HTTP/1.1 502").await;
                assert!(eventually(|| scene.notes.read() == ["ended"]).await);
            }
        }
    }
}

/// After an upgrade both sides speak past the server, which goes on until both have ended.
#[tokio::test(start_paused = true)]
async fn an_upgraded_connection_passes_bytes_both_ways() {
    let mut scene = Scene::new(HttpSession, 0, 1);
    let request = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\nearly";
    scene.client.write_all(request).await.unwrap();
    let mut app = scene.request(0, b"Upgrade: echo\r\n\r\n").await;
    app.write_all(b"HTTP/1.1 101 Switching\r\nUpgrade: echo\r\nConnection: upgrade\r\n\r\nfirst")
        .await
        .unwrap();
    read_until(&mut scene.client, b"\r\n\r\nfirst").await;
    read_until(&mut app, b"early").await;
    scene.client.write_all(b"to the application").await.unwrap();
    read_until(&mut app, b"to the application").await;
    app.write_all(b"to the client").await.unwrap();
    read_until(&mut scene.client, b"to the client").await;
    assert_eq!((scene.notes.read(), scene.idle()), (vec![], 0));
    drop(app);
    assert_eq!(read_rest(&mut scene.client).await, b"");
    scene.client.shutdown().await.unwrap();
    assert!(eventually(|| scene.notes.read() == ["ended"]).await);
}

#[tokio::test(start_paused = true)]
async fn without_a_process_the_client_gets_a_page() {
    let mut scene = Scene::new(HttpSession, 0, 0);
    scene.client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    read_until(&mut scene.client, b"HTTP/1.1 503").await;
    read_rest(&mut scene.client).await;
}
