//! The text of an error and of its causes.

use std::error::Error;
use std::fmt;

/// Prints an error and then each of its causes, separated by colons.
///
/// An error's own text does not repeat its cause: without the chain, a log would lose the reason.
pub struct Chain<'a>(pub &'a (dyn Error + 'static));

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut causes = std::iter::successors(self.0.source(), |&cause| cause.source());
        causes.try_for_each(|cause| write!(f, ": {cause}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cabrank::application_pool::{ConnectError, GetError};

    #[test]
    fn each_cause_is_printed_once() {
        let error = GetError::Connect(ConnectError::process("connection refused"));
        assert_eq!(Chain(&error).to_string(), "no connection could be opened: connection refused");
        assert_eq!(
            Chain(&GetError::TimedOut).to_string(),
            "no process was free before the deadline"
        );
    }
}
