//! The rest of a request's body after a complete answer.
//!
//! Closing a connection with unread input resets it. A client that is still sending then sees the reset
//! instead of the answer, for example that its upload is too large. So the agent reads the rest and throws
//! it away, for a limited time.

use super::response_body::ResponseBody;
use crate::http::BoxError;
use crate::http::upload::Upload;
use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::runtime::Handle;

/// How long the agent reads the rest of a body.
const LIMIT: Duration = Duration::from_secs(10);

/// A response's body, and the rest of the request's body.
pub(crate) struct Outbound {
    body: ResponseBody,
    leftover: Option<Upload>,
}

impl Outbound {
    /// `leftover` is `None` if the application still reads it, or if the client has not begun to send it.
    pub(crate) fn new(body: ResponseBody, leftover: Option<Upload>) -> Self {
        Outbound { body, leftover }
    }
}

impl Body for Outbound {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Pin::new(&mut self.get_mut().body).poll_frame(cx)
    }
    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Starts reading the rest when the answer is complete. If the connection is gone, the reading ends at once.
impl Drop for Outbound {
    fn drop(&mut self) {
        if let Some(upload) = self.leftover.take().filter(|u| !u.is_end_stream())
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(tokio::time::timeout(LIMIT, upload.discard()));
        }
    }
}
