//! The answer to a request whose execution cannot begin.

use cabrank::execution::ExecutionError;
use cabrank::execution::interlock::AcquireError;
use http::{Response, StatusCode, header};
use std::error::Error;
use std::fmt;
use std::sync::Arc;

type Answer = dyn Fn(&ExecutionError) -> Response<String> + Send + Sync;

/// Makes the answer from the failure.
#[derive(Clone)]
pub(crate) struct Refusal(Arc<Answer>);

impl Refusal {
    pub(crate) fn new(
        answer: impl Fn(&ExecutionError) -> Response<String> + Send + Sync + 'static,
    ) -> Self {
        Refusal(Arc::new(answer))
    }
    pub(crate) fn answer(&self, error: &ExecutionError) -> Response<String> {
        (self.0)(error)
    }
    /// Answers with the status, and with the failure or the status as its text.
    pub(crate) fn with_text(text: fn(StatusCode, &ExecutionError) -> String) -> Self {
        Refusal::new(move |error| {
            let has_waited = error.first().cause().is::<AcquireError>();
            let status = match has_waited {
                true => StatusCode::SERVICE_UNAVAILABLE,
                false => StatusCode::INTERNAL_SERVER_ERROR,
            };
            let mut response = Response::new(text(status, error));
            *response.status_mut() = status;
            let plain = header::HeaderValue::from_static("text/plain; charset=utf-8");
            response.headers_mut().insert(header::CONTENT_TYPE, plain);
            response
        })
    }
}

/// Returns the text of an error and of its causes, each on a line of its own.
///
/// The cause of a wait that failed is the dump of the interlock.
pub(crate) fn with_causes(_: StatusCode, error: &ExecutionError) -> String {
    let first: &(dyn Error + 'static) = error;
    let causes = std::iter::successors(Some(first), |&error| error.source());
    causes.map(|cause| format!("{cause}\n")).collect()
}

impl Default for Refusal {
    fn default() -> Self {
        Refusal::with_text(|status, _| format!("{status}\n"))
    }
}

impl fmt::Debug for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Refusal")
    }
}
