//! An application that is served, as its requests see it.

use crate::configuration::application::Application;
use crate::exchange::admission::Admission;
use crate::exchange::processes::Processes;
use cabrank_spawner::Pool;
use std::sync::Arc;
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
            shows_details: application.shows_details(),
        }
    }
}
