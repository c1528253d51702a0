//! An application that is served, as its requests see it.

use crate::exchange::processes::Processes;
use std::time::Duration;

/// An application that is served.
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) processes: Processes,
    /// The longest work on one request; `None`: no limit.
    pub(crate) max_request_time: Option<Duration>,
    /// Whether a request may be sent to a second process.
    pub(crate) retries: bool,
    /// Whether error pages show the application's own output.
    pub(crate) shows_details: bool,
}
