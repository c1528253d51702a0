//! What is left of a request's body when its answer is complete.
//!
//! Closing a connection with unread input resets it, and a client that is still sending then sees the
//! reset and not the answer: not that its upload is too large, that it has to log in, or that it should
//! come back later. So what is left is read and thrown away, for a while.

use super::BoxError;
use super::response_body::ResponseBody;
use super::upload::Upload;
use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::runtime::Handle;

/// How long a client may go on sending what nobody wants.
const LIMIT: Duration = Duration::from_secs(10);

/// A response's body, and behind it the request's.
pub(crate) struct Outbound {
    body: ResponseBody,
    leftover: Option<Upload>,
}

impl Outbound {
    /// `leftover` is None if somebody goes on reading it, or if the client waits to be asked for it.
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

/// Dropped when the answer is complete, or the connection is gone, which ends the reading as well.
impl Drop for Outbound {
    fn drop(&mut self) {
        if let Some(upload) = self.leftover.take().filter(|u| !u.is_end_stream())
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(tokio::time::timeout(LIMIT, upload.discard()));
        }
    }
}
