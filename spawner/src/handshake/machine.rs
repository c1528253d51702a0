//! The handshake as a state machine, without I/O.
//!
//! ```text
//! Hello ──`I have control 1.0`──▶ Answer ──`Ready`──▶ Ready ──(end line)──▶ the answer
//!   │                             │    ▲
//!   └───────────`Error`───────────┤    └─ `I have control 1.0` again: the loader has replaced itself
//!                                 ▼
//!                             ErrorKeys ──(end line)──▶ ErrorText ──(end of input)──▶ the error
//! ```
//!
//! Any other line that begins with `!> ` ends the handshake with an error. Lines without this mark are the application's
//! output, in every state but the last. The result does not depend on the pieces in which the bytes arrive.

use super::answer::{Address, Ready, parse_address, parse_socket};

/// The line by which a loader begins.
pub(crate) const HELLO: &str = "I have control 1.0";
/// The beginning of the lines of the protocol.
const MARK: &[u8] = b"!> ";
/// The longest line. Longer output is passed on in pieces of this size.
pub(crate) const MAX_LINE: usize = 4096;
/// The most sockets of an application.
pub(crate) const MAX_SOCKETS: usize = 16;
/// The longest text of an error.
pub(crate) const MAX_ERROR_TEXT: usize = 256 * 1024;

/// The reason why a handshake did not end with `Ready`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The deadline passed.
    TimedOut,
    /// The loader closed its side: it died, or the spawn was cancelled.
    HungUp,
    /// The loader sent `Error`.
    Error { html: bool, text: String },
    /// The process does not listen as it should; the text says what it does.
    Unready(String),
    /// The loader broke the protocol.
    Protocol(String),
    /// The channel to the loader failed.
    Io(String),
}

/// The next action of the caller.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Pass more bytes, or the end of the input.
    Read,
    /// Send the greeting and the keys.
    Greet,
    /// Pass on a line of the application's output, without its line break.
    Output(Vec<u8>),
    /// The application is ready.
    Ready(Ready),
}

#[derive(Debug)]
enum State {
    /// The loader has not begun.
    Hello,
    /// The loader has the keys.
    Answer,
    /// `Ready` has come, and its end line has not.
    Ready(Ready),
    /// `Error` has come, and its end line has not.
    ErrorKeys { html: bool },
    /// The rest of the input is the error's text.
    ErrorText { html: bool },
}

/// The state of a handshake, and the bytes that have arrived.
#[derive(Debug)]
pub(crate) struct Machine {
    state: State,
    /// The bytes that are not interpreted yet.
    input: Vec<u8>,
    /// Whether the input continues a line of output whose beginning was too long.
    is_continued: bool,
}

impl Machine {
    pub(crate) fn new() -> Machine {
        Machine { state: State::Hello, input: Vec::new(), is_continued: false }
    }

    /// Adds bytes that have arrived.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
    }

    /// Interprets the bytes up to the next step.
    ///
    /// # Errors
    /// The handshake has failed.
    pub(crate) fn step(&mut self) -> Result<Step, Refusal> {
        loop {
            if let State::ErrorText { html } = self.state {
                return if self.input.len() < MAX_ERROR_TEXT {
                    Ok(Step::Read)
                } else {
                    Err(self.error(html))
                };
            }
            let Some(line) = self.line()? else { return Ok(Step::Read) };
            match line {
                Line::Output(line) if line.is_empty() => {}
                Line::Output(line) => return Ok(Step::Output(line)),
                Line::Protocol(line) => {
                    if let Some(step) = self.advance(&line)? {
                        return Ok(step);
                    }
                }
            }
        }
    }

    /// Ends the handshake, because no more input comes. Returns the error, and unfinished output.
    pub(crate) fn end(&mut self, reason: Refusal) -> (Refusal, Vec<u8>) {
        match self.state {
            // Keep the text that has come.
            State::ErrorText { html } => (self.error(html), Vec::new()),
            State::ErrorKeys { html } if reason == Refusal::HungUp => {
                (Refusal::Error { html, text: String::new() }, std::mem::take(&mut self.input))
            }
            _ => (reason, std::mem::take(&mut self.input)),
        }
    }

    /// Returns whether the rest of the input is the text of an error.
    pub(crate) fn is_in_error_text(&self) -> bool {
        matches!(self.state, State::ErrorText { .. })
    }

    /// Returns the bytes behind the handshake that have arrived with it.
    pub(crate) fn into_rest(self) -> Vec<u8> {
        self.input
    }

    /// Takes one line of the protocol.
    fn advance(&mut self, line: &str) -> Result<Option<Step>, Refusal> {
        match &mut self.state {
            State::Hello | State::Answer if line == HELLO => {
                self.state = State::Answer;
                return Ok(Some(Step::Greet));
            }
            State::Answer if line == "Ready" => self.state = State::Ready(Ready::default()),
            State::Hello | State::Answer if line == "Error" => {
                self.state = State::ErrorKeys { html: false };
            }
            State::Hello => return unexpected(&format!("`!> {HELLO}`"), line),
            State::Answer => return unexpected("`!> Ready` or `!> Error`", line),
            State::Ready(ready) if line.is_empty() => {
                let mains = ready.sockets.iter().filter(|s| s.name == "main").count();
                if mains != 1 && ready.commands.is_none() {
                    let why = "the loader did not name exactly one socket `main`";
                    return Err(Refusal::Protocol(why.into()));
                }
                return Ok(Some(Step::Ready(std::mem::take(ready))));
            }
            State::Ready(ready) => add(ready, line)?,
            State::ErrorKeys { html } => match line.split_once(": ") {
                Some(("html", value)) => *html = value == "true",
                _ if line.is_empty() => self.state = State::ErrorText { html: *html },
                _ => return Err(Refusal::Protocol(format!("unknown key in `!> {line}`"))),
            },
            State::ErrorText { .. } => {}
        }
        Ok(None)
    }

    /// Returns the next line, or the next piece of a line of output that is too long.
    fn line(&mut self) -> Result<Option<Line>, Refusal> {
        let window = &self.input[..self.input.len().min(MAX_LINE + 1)];
        let is_protocol = !self.is_continued && window.starts_with(MARK);
        let Some(end) = window.iter().position(|&b| b == b'\n') else {
            if window.len() <= MAX_LINE {
                return Ok(None);
            }
            if is_protocol {
                return Err(Refusal::Protocol(format!("a line of more than {MAX_LINE} bytes")));
            }
            self.is_continued = true;
            return Ok(Some(Line::Output(self.input.drain(..MAX_LINE).collect())));
        };
        self.is_continued = false;
        let mut line: Vec<u8> = self.input.drain(..=end).collect();
        line.pop();
        if !is_protocol {
            return Ok(Some(Line::Output(line)));
        }
        match String::from_utf8(line.split_off(MARK.len())) {
            Ok(line) => Ok(Some(Line::Protocol(line))),
            Err(_) => Err(Refusal::Protocol("a line that is not UTF-8".into())),
        }
    }

    fn error(&mut self, html: bool) -> Refusal {
        self.input.truncate(MAX_ERROR_TEXT);
        let text = String::from_utf8_lossy(&std::mem::take(&mut self.input)).into_owned();
        Refusal::Error { html, text }
    }
}

/// One line of the input, without its line break.
enum Line {
    /// A line of the protocol, without its mark.
    Protocol(String),
    /// A line of the application's output, or a piece of one.
    Output(Vec<u8>),
}

/// Adds one line between `Ready` and its end line.
fn add(ready: &mut Ready, line: &str) -> Result<(), Refusal> {
    let wrong = |why: &str| Refusal::Protocol(format!("{why} in `!> {line}`"));
    match line.split_once(": ") {
        Some(("socket", value)) if value.starts_with("unix:") => {
            if let Address::Unix(path) = parse_address(value).map_err(|why| wrong(&why))? {
                ready.commands = Some(path);
            }
        }
        Some(("socket", _)) if ready.sockets.len() >= MAX_SOCKETS => {
            return Err(wrong(&format!("more than {MAX_SOCKETS} sockets")));
        }
        Some(("socket", value)) => {
            ready.sockets.extend(parse_socket(value).map_err(|why| wrong(&why))?);
        }
        Some(("ends_websockets", value)) => ready.ends_websockets = value == "true",
        Some(("takes_origin", value)) => ready.takes_origin = value == "true",
        Some(("takes_upgrades", value)) => ready.takes_upgrades = value == "true",
        Some(("pid", value)) => ready.pid = Some(value.parse().map_err(|_| wrong("bad pid"))?),
        _ => return Err(wrong("unknown key")),
    }
    Ok(())
}

fn unexpected<T>(expected: &str, line: &str) -> Result<T, Refusal> {
    Err(Refusal::Protocol(format!("expected {expected}, got `!> {line}`")))
}

#[cfg(test)]
#[path = "machine_tests.rs"]
mod tests;
