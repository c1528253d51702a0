//! An application that is served, as its requests see it.

use crate::configuration::application::Application;
use crate::exchange::admission::Admission;
use crate::exchange::processes::Processes;
use cabrank_spawner::Pool;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// An application that is served.
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) processes: Processes,
    /// The longest work on one request; `None`: no limit.
    pub(crate) max_request_time: Option<Duration>,
    /// Whether a request may be sent to a second process.
    pub(crate) retries: bool,
    /// Whether the application gets header fields with `_` in their names.
    pub(crate) underscores: bool,
    /// The path below which it is served; empty: the front decides, or it has the host for itself.
    pub(crate) base_uri: String,
    /// Whether the log has a line about a request outside of that path.
    pub(crate) has_noted_outside: AtomicBool,
    /// Whether error pages show the application's own output.
    pub(crate) shows_details: bool,
}

impl Served {
    pub(crate) fn new(application: &Application, pool: &Pool, admission: &Arc<Admission>) -> Self {
        let options = &application.options;
        Served {
            processes: Processes::Pool {
                pool: pool.clone(),
                options: application.pool_options(),
                admission: Arc::clone(admission),
            },
            max_request_time: options.max_request_time.limit(),
            retries: *options.retry_requests,
            underscores: *options.underscores_in_headers,
            base_uri: application.base_uri().into(),
            has_noted_outside: AtomicBool::new(false),
            shows_details: application.shows_details(),
        }
    }

    /// Logs the first request outside of the path below which the application is served.
    ///
    /// A web server in front that takes the path away would otherwise be hard to find.
    pub(crate) fn note_outside(&self) {
        let base_uri = &self.base_uri;
        if !base_uri.is_empty() && !self.has_noted_outside.swap(true, Ordering::Relaxed) {
            tracing::info!(
                "a request outside of {base_uri} (--base-uri) gets 404. If it should reach the application, let the web server in \
                 front pass the path on as it is. Further requests like this are not logged."
            );
        }
    }
}
