//! The meaning of a connection's errors for its client.

use std::io::{Error, ErrorKind};

/// Returns whether the client has waited in vain.
pub fn is_silence(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// Says what an error means for a client.
pub fn describe(error: &Error) -> String {
    match error.kind() {
        _ if is_silence(error) => "no answer".to_owned(),
        ErrorKind::UnexpectedEof => "closed without an answer".to_owned(),
        ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => "reset".to_owned(),
        ErrorKind::ConnectionRefused => "refused".to_owned(),
        _ => error.to_string(),
    }
}

/// Returns the error for a connection that fails behind the beginning of an answer. Silence stays silence.
pub(super) fn within(error: Error) -> Error {
    match is_silence(&error) {
        true => error,
        false => Error::other(format!("half an answer: {error}")),
    }
}
