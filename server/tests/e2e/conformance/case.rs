//! A case: one connection, what it sends, and what it expects.

use crate::server::Server;
use cabrank_checks_harness::http::{Client, Reply, Socket, describe, is_silence};
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

/// A server that is silent for this long has failed the case.
pub(super) const SILENCE: Duration = Duration::from_secs(8);

/// The application that a case asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum App {
    Wsgi,
    Node,
}

/// One step of a case.
#[derive(Clone)]
pub(super) enum Step {
    /// Sends bytes.
    Send(Vec<u8>),
    /// Sends bytes one by one.
    SendEachByte(Vec<u8>),
    /// Ends the client's side of the connection.
    HalfClose,
    /// Expects an answer.
    Reply(Expected),
    /// Expects these bytes, which are not an answer.
    Bytes(&'static str),
    /// Expects that the server closes the connection, and sends no byte more.
    Closed,
    /// Expects that another request on the connection gets its answer.
    Open,
    /// Accepts an end of the connection at any byte.
    BreaksOff,
}

/// The answer that a case expects.
#[derive(Clone, Default)]
pub(super) struct Expected {
    /// The statuses that are right.
    pub(super) statuses: Vec<u16>,
    pub(super) to_head: bool,
    /// The whole body. `None`: any.
    pub(super) body: Option<String>,
    /// Fields that the answer has, with their values, or without a value the fields that it lacks.
    pub(super) fields: Vec<(&'static str, Option<&'static str>)>,
}

/// A named connection.
#[derive(Clone)]
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) app: App,
    pub(super) steps: Vec<Step>,
}

/// Cases on one subject.
pub(super) struct Section {
    pub(super) title: &'static str,
    pub(super) about: &'static str,
    /// Options of `cabrank start` beside those that all sections have.
    pub(super) options: &'static [&'static str],
    pub(super) cases: Vec<Case>,
}

/// Returns a case that begins with these bytes.
pub(super) fn send(name: &'static str, bytes: impl AsRef<[u8]>) -> Case {
    Case { name, app: App::Wsgi, steps: vec![Step::Send(bytes.as_ref().to_vec())] }
}

/// Returns a case that is asked of the Node application.
pub(super) fn send_node(name: &'static str, bytes: impl AsRef<[u8]>) -> Case {
    Case { app: App::Node, ..send(name, bytes) }
}

/// Returns a request that the server refuses: one answer, and the end of the connection.
pub(super) fn refused(name: &'static str, bytes: impl AsRef<[u8]>, statuses: &[u16]) -> Case {
    send(name, bytes).one_of(statuses).closed()
}

impl Case {
    pub(super) fn step(mut self, step: Step) -> Case {
        self.steps.push(step);
        self
    }
    pub(super) fn expect(self, expected: Expected) -> Case {
        self.step(Step::Reply(expected))
    }
    pub(super) fn send(self, bytes: impl AsRef<[u8]>) -> Case {
        self.step(Step::Send(bytes.as_ref().to_vec()))
    }
    /// Expects an answer of this status, whatever its body is.
    pub(super) fn gets(self, status: u16) -> Case {
        self.one_of(&[status])
    }
    pub(super) fn one_of(self, statuses: &[u16]) -> Case {
        self.expect(Expected { statuses: statuses.to_vec(), ..Expected::default() })
    }
    /// Expects status 200 and this body.
    pub(super) fn text(self, body: &str) -> Case {
        let body = Some(body.to_owned());
        self.expect(Expected { statuses: vec![200], body, ..Expected::default() })
    }
    /// Expects an answer without a body to a HEAD request.
    pub(super) fn head(self, status: u16) -> Case {
        self.expect(Expected { statuses: vec![status], to_head: true, ..Expected::default() })
    }
    /// The last answer has this field.
    pub(super) fn with(self, name: &'static str, value: &'static str) -> Case {
        self.field(name, Some(value))
    }
    /// The last answer lacks this field.
    pub(super) fn without(self, name: &'static str) -> Case {
        self.field(name, None)
    }
    pub(super) fn field(mut self, name: &'static str, value: Option<&'static str>) -> Case {
        let Some(Step::Reply(expected)) = self.steps.last_mut() else {
            panic!("{}: a field of no answer", self.name)
        };
        expected.fields.push((name, value));
        self
    }
    pub(super) fn closed(self) -> Case {
        self.step(Step::Closed)
    }
    pub(super) fn open(self) -> Case {
        self.step(Step::Open)
    }

    /// Plays the case over TCP, or says what went wrong.
    pub(super) fn play(&self, server: &Server) -> Result<(), String> {
        let client = Client::with_patience(server.address, SILENCE);
        self.play_with(client.map_err(|e| format!("connect: {e}"))?)
    }

    /// Plays the case over a Unix socket.
    pub(super) fn play_over_unix(&self, socket: &Path) -> Result<(), String> {
        let client = Client::over_unix(socket, SILENCE);
        self.play_with(client.map_err(|e| format!("connect: {e}"))?)
    }

    fn play_with<S: Socket>(&self, mut client: Client<S>) -> Result<(), String> {
        // A server that refuses a request may have closed the connection: its answer tells.
        let send = |client: &mut Client<S>, bytes: &[u8]| drop(client.send(bytes));
        for step in &self.steps {
            match step {
                Step::Send(bytes) => send(&mut client, bytes),
                Step::SendEachByte(bytes) => {
                    bytes.iter().for_each(|byte| send(&mut client, &[*byte]));
                }
                Step::HalfClose => drop(client.half_close()),
                Step::Reply(expected) => {
                    let reply = client.reply(if expected.to_head { "HEAD" } else { "GET" });
                    expected.check(&reply.map_err(|e| describe(&e))?)?;
                }
                Step::Bytes(text) => client.expect_bytes(text.as_bytes())?,
                Step::Closed => client.expect_end()?,
                Step::BreaksOff => expect_half(&mut client)?,
                Step::Open => {
                    send(&mut client, b"GET /still/there HTTP/1.1\r\nHost: test\r\n\r\n");
                    let reply = client.reply("GET");
                    let reply = reply.map_err(|e| format!("the next request: {}", describe(&e)))?;
                    if reply.status != 200 || reply.text() != "GET /still/there []" {
                        return Err(format!("the next request gets {}", reply.describe()));
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns what the client sends and gets, for people.
    pub(super) fn describe(&self) -> (String, String) {
        let (mut sends, mut gets) = (Vec::new(), Vec::new());
        for step in &self.steps {
            match step {
                Step::Send(bytes) => sends.push(shown(bytes)),
                Step::SendEachByte(bytes) => sends.push(format!("{} byte by byte", shown(bytes))),
                Step::HalfClose => sends.push("end of input".to_owned()),
                Step::Reply(expected) => gets.push(expected.describe()),
                Step::Bytes(text) => gets.push(shown(text.as_bytes())),
                Step::Closed => gets.push("closed".to_owned()),
                Step::Open => gets.push("open".to_owned()),
                Step::BreaksOff => gets.push("cut off".to_owned()),
            }
        }
        // Ten equal answers are one word in the table.
        let all = gets.len();
        gets.dedup();
        let more = if all > gets.len() + 1 { " (each)" } else { "" };
        (sends.join(", then "), format!("{}{more}", gets.join(", ")))
    }
}

/// Reads an answer that must not be complete: to the end, or to a reset.
fn expect_half<S: Socket>(client: &mut Client<S>) -> Result<(), String> {
    match client.reply("GET") {
        Ok(reply) => Err(format!("expected half an answer; got {}", reply.describe())),
        Err(error) if is_silence(&error) => Err(describe(&error)),
        Err(_) => Ok(()),
    }
}

impl Expected {
    pub(super) fn check(&self, reply: &Reply) -> Result<(), String> {
        let wrong = |what: String| Err(format!("{what}; got {}", reply.describe()));
        if !self.statuses.contains(&reply.status) {
            return wrong(format!("expected {:?}", self.statuses));
        }
        if let Some(body) = &self.body
            && reply.text() != *body
        {
            return wrong(format!("expected the body {body:?}"));
        }
        for (name, value) in &self.fields {
            let has = reply.header(name);
            match value {
                Some(value) if has.is_some_and(|has| has.eq_ignore_ascii_case(value)) => {}
                None if has.is_none() => {}
                _ => return wrong(format!("expected {name}: {value:?}, has {has:?}")),
            }
        }
        Ok(())
    }

    pub(super) fn describe(&self) -> String {
        let statuses: Vec<_> = self.statuses.iter().map(u16::to_string).collect();
        let mut text = statuses.join(" or ");
        for (name, value) in &self.fields {
            let _ = match value {
                Some(value) => write!(text, " with `{name}: {value}`"),
                None => write!(text, " without `{name}`"),
            };
        }
        text
    }
}

/// Shows bytes within one cell of a table: escaped, and cut in the middle.
fn shown(bytes: &[u8]) -> String {
    let text: String =
        bytes.iter().flat_map(|b| std::ascii::escape_default(*b)).map(char::from).collect();
    let text = text.replace("\\\"", "\"").replace("\\'", "'").replace('|', "\\|").replace('`', "'");
    let text = match text.len() {
        ..=150 => text,
        size => format!("{} … {}", &text[..100], &text[size - 40..]),
    };
    format!("`{text}`")
}
