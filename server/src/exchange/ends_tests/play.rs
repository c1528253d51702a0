//! Plays one row of the table.

use super::rows::Cause::{self, *};
use super::rows::Then::Closes as Ends;
use super::rows::{Fate, Framing, Got, Row, State};
use crate::exchange::played::{LIMITS, MAX_REQUEST_TIME, Scene, eventually, read_rest, read_until};
use cabrank_spawner::Protocol::{self, HttpSession, KeptSession, Session};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;

/// An answer in the protocol of a process: its head, and parts of its body.
pub(super) struct Answer {
    pub(super) lane: Protocol,
    pub(super) framing: Framing,
    pub(super) body: Vec<u8>,
}

impl Answer {
    pub(super) fn head(&self) -> Vec<u8> {
        let status = if self.lane == HttpSession { "HTTP/1.1 200 OK" } else { "Status: 200 OK" };
        let framing = match (self.framing, self.lane) {
            (Framing::Length, _) => format!("Content-Length: {}\r\n", self.body.len()),
            (Framing::Unknown, HttpSession) => "Transfer-Encoding: chunked\r\n".into(),
            (Framing::Unknown, _) => String::new(),
        };
        let head = format!("{status}\r\n{framing}\r\n").into_bytes();
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
pub(super) async fn play(
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
