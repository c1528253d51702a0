//! Plays one row of the table.

use super::rows::Cause::*;
use super::rows::Then::Closes as Ends;
use super::rows::{Fate, Framing, Got, Row, SMALL, State};
use crate::exchange::played::{
    Bodies, LIMITS, MAX_BODY, MAX_REQUEST_TIME, Scene, Setting, eventually, read_rest, read_until,
    within,
};
use crate::observe::record::tests::READ;
use cabrank_spawner::Protocol::{self, HttpSession, KeptSession, Session};
use rustix::net::Shutdown;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;

/// An answer in the protocol of a process: its head, and parts of its body.
pub(super) struct Answer {
    pub(super) lane: Protocol,
    pub(super) framing: Framing,
    pub(super) body: Vec<u8>,
    /// Whether it says that the connection closes.
    pub(super) closes: bool,
}

impl Answer {
    pub(super) fn head(&self) -> Vec<u8> {
        let status = if self.lane == HttpSession { "HTTP/1.1 200 OK" } else { "Status: 200 OK" };
        let framing = match (self.framing, self.lane) {
            (Framing::Length, _) => format!("Content-Length: {}\r\n", self.body.len()),
            (Framing::Unknown, HttpSession) => "Transfer-Encoding: chunked\r\n".into(),
            (Framing::Unknown, _) => String::new(),
        };
        let closes = if self.closes { "Connection: close\r\n" } else { "" };
        let head = format!("{status}\r\n{framing}{closes}\r\n").into_bytes();
        if self.lane == KeptSession { frame(b'H', &head) } else { head }
    }

    pub(super) fn part(&self, part: &[u8]) -> Vec<u8> {
        match (self.lane, self.framing) {
            (KeptSession, _) => part.chunks(1 << 20).flat_map(|part| frame(b'D', part)).collect(),
            (HttpSession, Framing::Unknown) => {
                [format!("{:x}\r\n", part.len()).as_bytes(), part, b"\r\n"].concat()
            }
            _ => part.to_vec(),
        }
    }

    pub(super) fn end(&self) -> &'static [u8] {
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
        match head[9..12].parse().unwrap() {
            200 => {}
            101 => return Got::Switch,
            status => return Got::Page(status),
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
pub(super) async fn play(
    row: &Row,
    lane: Protocol,
    framing: Framing,
    half_closes: bool,
) -> Result<(), String> {
    let Row { cause, state, .. } = *row;
    let mut scene = scene(row, lane);
    let (body, closes) = (cause.body(state), cause == AnnouncesClose);
    let answer = Answer { lane, framing, body, closes };
    scene.client.write_all(cause.request().as_bytes()).await.unwrap();
    if half_closes || cause == LeavesAfterHalfClose {
        scene.client.shutdown().await.unwrap();
    }
    let (before, after) = state.split(&answer);
    let (mut app, mut seen) = (None, Vec::new());
    if let Some(mark) = cause.mark() {
        let mut of_app = scene.request(0, mark).await;
        of_app.write_all(&before).await.unwrap();
        if state == State::Written && lane == Session {
            of_app.shutdown().await.unwrap();
        }
        if let Some(last) = state.last(&answer) {
            seen = read_until(&mut scene.client, last).await;
        }
        app = act(row, &mut scene, of_app, lane, &after).await;
    }

    let mut wrong = Vec::new();
    // Nothing that the client sends after it is a request.
    let is_last_page =
        matches!(cause, StopsSending | SendsNonsense | GrowsTooLarge) && state == State::Nothing;
    if half_closes || row.then == Ends {
        seen.extend(read_rest(&mut scene.client).await);
        // Else a reset would take the page from a client that is still sending.
        if is_last_page && scene.has_closed() {
            wrong.push("the server does not read on after its page".into());
        }
        if !scene.closes().await {
            wrong.push("the client's connection stays open".into());
        }
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
    let text = String::from_utf8_lossy(&seen).to_lowercase();
    let says_so = is_last_page || cause == TheServerStops && state == State::Nothing;
    if says_so && !text.contains("connection: close") {
        wrong.push("the answer does not say that the connection closes".into());
    }
    if let Some(what) = fate_is_other(row, &mut scene, app, lane, &after).await {
        wrong.push(what);
    }
    let is_answered = cause.has_finished(state) || row.got == Got::Whole;
    if cause.mark().is_some() && scene.has_answered(0) != is_answered {
        wrong.push("whether the process counts as one that has answered".into());
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ")) }
}

/// Begins the scene of a row. Without a mark in its request, no process is to get it.
fn scene(row: &Row, protocol: Protocol) -> Scene {
    let lacks_space = row.cause == LacksSpace;
    Scene::with(Setting {
        max_body: if lacks_space { 0 } else { MAX_BODY },
        bodies: if lacks_space { Bodies::NoSpace } else { Bodies::PassedOn },
        lacks_connections: row.cause == LacksConnections,
        ..Setting::new(protocol, 1, usize::from(row.fate != Fate::Unasked))
    })
}

impl State {
    /// Returns what the application has sent before the cause, and the rest of its answer.
    fn split(self, answer: &Answer) -> (Vec<u8>, Vec<u8>) {
        let (first, second) = answer.body.split_at(5);
        let [head, first, second] = [answer.head(), answer.part(first), answer.part(second)];
        let mut rest = [second, answer.end().into()].concat();
        match self {
            State::Nothing => (Vec::new(), [head, first, rest].concat()),
            State::Head => (head, [first, rest].concat()),
            State::Part => ([head, first].concat(), rest),
            State::Written => {
                let all = [head, first, std::mem::take(&mut rest)].concat();
                (all, rest)
            }
        }
    }

    /// Returns the last bytes that the client gets before the cause, if it gets any.
    fn last(self, answer: &Answer) -> Option<&'static [u8]> {
        match (self, answer.framing) {
            (State::Nothing, _) => None,
            (State::Head, _) => Some(b"\r\n\r\n"),
            (State::Part, _) => Some(b"01234"),
            (State::Written, _) if answer.body.len() > SMALL => Some(b"01234"),
            (State::Written, Framing::Length) => Some(b"56789"),
            (State::Written, Framing::Unknown) => Some(b"\r\n0\r\n\r\n"),
        }
    }
}

/// Lets the cause come about. Returns the application's end of its connection, if it has it still.
async fn act(
    row: &Row,
    scene: &mut Scene,
    mut app: UnixStream,
    lane: Protocol,
    rest: &[u8],
) -> Option<UnixStream> {
    match row.cause {
        Finishes | AnnouncesClose => return finish(app, lane, rest).await,
        SaysMore => app.write_all(&[rest, b"more"].concat()).await.unwrap(),
        FinishesEarly => {
            app.write_all(rest).await.unwrap();
            if lane == HttpSession {
                // The application may take another request meanwhile.
                let frees = eventually(|| scene.notes.read() == ["ended"]);
                assert!(frees.await, "an early answer does not free its process");
            } else if lane == Session {
                app.shutdown().await.unwrap();
            }
            let rest = row.cause.rest_of_request();
            scene.client.write_all(&rest).await.unwrap();
            if lane == HttpSession {
                read_until(&mut app, &rest).await;
            }
        }
        StopsReading => {
            rustix::net::shutdown(&app, Shutdown::Read).unwrap();
            scene.client.write_all(&row.cause.rest_of_request()).await.unwrap();
            app.write_all(rest).await.unwrap();
            if lane == Session {
                app.shutdown().await.unwrap();
            }
        }
        TheServerStops => {
            scene.stop();
            return finish(app, lane, rest).await;
        }
        LeavesAfterHalfClose => {
            leave(scene);
            return finish(app, lane, rest).await;
        }
        Closes => return None,
        Dies => {
            scene.kill(0);
            // Else the idle connection would close, too.
            return Some(app).filter(|_| row.state == State::Written);
        }
        DiesUnseen => {
            scene.kill(0);
            scene.notice(0);
        }
        TalksNonsense => app.write_all(b"nonsense\r\n\r\nnonsense").await.unwrap(),
        Aborts => app.write_all(b"A\0\0\0").await.unwrap(),
        TakesTooLong => scene.pass(MAX_REQUEST_TIME * 2),
        Leaves | LeavesWithinItsBody => {
            // Longer than a half-close.
            tokio::time::sleep(Duration::from_secs(1)).await;
            leave(scene);
        }
        EndsWithinItsBody => scene.client.shutdown().await.unwrap(),
        StopsSending => scene.pass(LIMITS.timeouts.client * 2),
        SendsNonsense => scene.client.write_all(b"nonsense").await.unwrap(),
        ReadsNothing | ReadsNothingOfASmallAnswer => {
            let rest = rest.to_vec();
            let sent = tokio::spawn(async move {
                app.write_all(&rest).await.ok()?;
                Some(app).filter(|_| lane != Session)
            });
            let closes = eventually(|| {
                // Once the request has ended, the connection closes without a further time-out.
                if READ.with_borrow(Vec::is_empty) {
                    scene.pass(LIMITS.timeouts.client);
                }
                scene.has_closed()
            });
            assert!(closes.await, "a client that reads nothing keeps its connection");
            // The whole answer is read, although its client is gone.
            return within("the application has written its answer", sent).await.unwrap();
        }
        Switches | SwitchesUnasked => {
            let fields = "Upgrade: echo\r\nConnection: upgrade\r\n\r\n";
            let head = match lane {
                HttpSession => format!("HTTP/1.1 101 Switching\r\n{fields}").into_bytes(),
                Session => format!("Status: 101 Switching\r\n{fields}").into_bytes(),
                KeptSession => frame(b'H', format!("Status: 101 Switching\r\n{fields}").as_bytes()),
            };
            app.write_all(&head).await.unwrap();
            if row.cause == Switches {
                scene.client.write_all(b"to the application").await.unwrap();
                read_until(&mut app, b"to the application").await;
                app.shutdown().await.unwrap();
                scene.client.shutdown().await.unwrap();
            }
        }
        GrowsTooLarge => {
            let chunk = format!("{MAX_BODY:x}\r\n{}", "b".repeat(MAX_BODY as usize));
            scene.client.write_all(chunk.as_bytes()).await.unwrap();
        }
        IsTooLarge | AsksToSendTooMuch | LacksSpace | LacksConnections => {
            unreachable!("no process is asked")
        }
    }
    Some(app)
}

/// Sends the rest of the answer.
async fn finish(mut app: UnixStream, lane: Protocol, rest: &[u8]) -> Option<UnixStream> {
    app.write_all(rest).await.unwrap();
    // In this protocol the connection's end is the answer's.
    Some(app).filter(|_| lane != Session)
}

/// Closes the client's connection.
fn leave(scene: &mut Scene) {
    let (other, _) = UnixStream::pair().unwrap();
    drop(std::mem::replace(&mut scene.client, other));
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
        Fate::Unasked => &[],
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
