//! The dialogue between the server and a loader while a process starts.
//!
//! ```text
//! loader   !> I have control 1.0
//! server    You have control 1.0
//! server    key: value
//! server    (an empty line)
//! loader   !> Ready                                    or   !> Error
//! loader   !> socket: main;unix:/…/wsgi.1;session;1         !> html: true
//! loader   !> socket: kept;unix:/…/wsgi.2;kept_session;1    !>
//! loader   !>                                               free text to the end
//! ```
//!
//! A loader that speaks WebSocket itself may add `!> ends_websockets: true`. One that reads the origin of each request in HTTP
//! adds `!> takes_origin: true`, and one whose kept sessions can become a WebSocket adds `!> takes_upgrades: true`.
//! A loader that replaces itself sends the first line again, and the handshake starts over. Lines that do
//! not begin with `!> ` are the application's own output.

mod answer;
mod machine;

pub use answer::{Address, Protocol};
pub(crate) use answer::{Ready, Socket};
#[cfg(any(test, fuzzing))]
pub(crate) use machine::MAX_LINE;
pub(crate) use machine::Refusal;
pub(crate) use machine::{Machine, Step};

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// The longest wait for the rest of an error's text.
const ERROR_TEXT_TIME: Duration = Duration::from_secs(2);

/// Performs the handshake. Returns the loader's answer, and the output that it has printed after it.
pub(crate) fn perform(
    control: &UnixStream,
    keys: &[(&str, String)],
    deadline: Instant,
    mut app_output: impl FnMut(&[u8]),
) -> Result<(Ready, Vec<u8>), Refusal> {
    let mut channel = Channel { control, deadline };
    let mut machine = Machine::new();
    let mut error_deadline = None;
    loop {
        match machine.step()? {
            Step::Output(line) => app_output(&line),
            // A loader that has hung up has perhaps said why: its last words are still to be read.
            Step::Greet => match channel.say(&greeting(keys)?) {
                Ok(()) | Err(Refusal::HungUp) => {}
                Err(other) => return Err(other),
            },
            Step::Ready(ready) => return Ok((ready, machine.into_rest())),
            Step::Read => {
                if machine.is_in_error_text() {
                    let limit = error_deadline.get_or_insert(Instant::now() + ERROR_TEXT_TIME);
                    channel.deadline = deadline.min(*limit);
                }
                if let Err(reason) = channel.read(&mut machine) {
                    let (refusal, output) = machine.end(reason);
                    if !output.is_empty() {
                        app_output(&output);
                    }
                    return Err(refusal);
                }
            }
        }
    }
}

fn greeting(keys: &[(&str, String)]) -> Result<String, Refusal> {
    let mut text = String::from("You have control 1.0\n");
    for (key, value) in keys {
        // A line break would let the rest of the value pass for further keys.
        if value.contains(['\n', '\r', '\0']) {
            return Err(Refusal::Protocol(format!(
                "the value of {key} has a line break or NUL: {value:?}"
            )));
        }
        text.push_str(&format!("{key}: {value}\n"));
    }
    text.push('\n');
    Ok(text)
}

/// The channel to the loader, until the deadline.
struct Channel<'a> {
    control: &'a UnixStream,
    deadline: Instant,
}

impl Channel<'_> {
    fn time_left(&self) -> Result<Duration, Refusal> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(Refusal::TimedOut) } else { Ok(left) }
    }

    fn read(&mut self, machine: &mut Machine) -> Result<(), Refusal> {
        let mut buffer = [0; 4096];
        self.control.set_read_timeout(Some(self.time_left()?)).map_err(io_refusal)?;
        match self.control.read(&mut buffer) {
            Ok(0) => Err(Refusal::HungUp),
            Ok(n) => {
                machine.push(&buffer[..n]);
                Ok(())
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(e) => Err(io_refusal(e)),
        }
    }

    fn say(&mut self, text: &str) -> Result<(), Refusal> {
        self.control.set_write_timeout(Some(self.time_left()?)).map_err(io_refusal)?;
        self.control.write_all(text.as_bytes()).map_err(io_refusal)
    }
}

fn io_refusal(e: io::Error) -> Refusal {
    match e.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Refusal::TimedOut,
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Refusal::HungUp,
        _ => Refusal::Io(e.to_string()),
    }
}

#[cfg(test)]
#[path = "handshake_tests.rs"]
mod tests;
