//! The body of a request, handed on as it comes.
//!
//! It is behind a counted reference because an attempt that fails takes its request with it, while the
//! body must still be there for the next attempt, untouched.

use super::BoxError;
use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

/// A handle to the body; clones are the same body.
#[derive(Clone, Debug)]
pub(crate) struct Upload(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    body: Mutex<Incoming>,
    /// 0: no limit.
    max: u64,
    taken: AtomicU64,
    touched: AtomicBool,
    too_large: AtomicBool,
}

impl Upload {
    pub(crate) fn new(body: Incoming, max: u64) -> Self {
        Upload(Arc::new(Inner {
            body: Mutex::new(body),
            max,
            taken: 0.into(),
            touched: false.into(),
            too_large: false.into(),
        }))
    }
    fn body(&self) -> std::sync::MutexGuard<'_, Incoming> {
        self.0.body.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Whether any of it has been asked for: from then on it cannot be sent again.
    pub(crate) fn is_touched(&self) -> bool {
        self.0.touched.load(Ordering::Acquire)
    }
    /// Whether it broke off because it was larger than allowed.
    pub(crate) fn is_too_large(&self) -> bool {
        self.0.too_large.load(Ordering::Acquire)
    }
    /// Whether its declared length is larger than allowed.
    pub(crate) fn declares_too_much(&self) -> bool {
        self.0.max > 0 && self.body().size_hint().lower() > self.0.max
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        self.0.touched.store(true, Ordering::Release);
        let frame = ready!(Pin::new(&mut *self.body()).poll_frame(cx));
        let Some(frame) = frame else { return Poll::Ready(None) };
        let frame = frame?;
        let size = frame.data_ref().map_or(0, |d| d.len() as u64);
        let taken = self.0.taken.fetch_add(size, Ordering::Relaxed) + size;
        if self.0.max > 0 && taken > self.0.max {
            self.0.too_large.store(true, Ordering::Release);
            return Poll::Ready(Some(Err("the body is larger than --max-body".into())));
        }
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.body().is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body().size_hint()
    }
}
