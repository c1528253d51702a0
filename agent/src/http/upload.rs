//! The body of a request, passed on as it arrives.
//!
//! The body is behind a counted reference: a failed attempt consumes its request, and the next attempt
//! still needs the body.
//!
//! A client that stops sending holds a process, so the wait for it is limited.

use super::BoxError;
use super::patience::Patience;
use crate::chain::Chain;
use bytes::Bytes;
use hyper::StatusCode;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

/// A handle to the body. Clones share one body.
#[derive(Clone, Debug)]
pub(crate) struct Upload(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    source: Mutex<Source>,
    /// The largest length in bytes; 0: no limit.
    max: u64,
    taken: AtomicU64,
    touched: AtomicBool,
    /// The status and the reason for the client, if the body ended early.
    broke: OnceLock<(StatusCode, String)>,
}

#[derive(Debug)]
struct Source {
    body: Incoming,
    patience: Patience,
    /// Whether [`discard`](Upload::discard) reads the rest. The exchange may be polled once more, and must
    /// then leave the wake-up to `discard`.
    is_abandoned: bool,
}

impl Upload {
    /// Creates the body. `max` limits its length, and `pause` the client's pauses; zero: no limit.
    pub(crate) fn new(body: Incoming, max: u64, pause: Duration) -> Self {
        Upload(Arc::new(Inner {
            source: Mutex::new(Source { body, patience: Patience::of(pause), is_abandoned: false }),
            max,
            taken: 0.into(),
            touched: false.into(),
            broke: OnceLock::new(),
        }))
    }
    fn source(&self) -> std::sync::MutexGuard<'_, Source> {
        self.0.source.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// Returns whether any part has been polled. Such a body cannot be sent again.
    pub(crate) fn is_touched(&self) -> bool {
        self.0.touched.load(Ordering::Acquire)
    }
    /// Returns the status and the reason for the client, if the body ended early.
    pub(crate) fn broke(&self) -> Option<&(StatusCode, String)> {
        self.0.broke.get()
    }
    fn break_off(&self, status: StatusCode, why: String) -> BoxError {
        let error = why.clone().into();
        let _ = self.0.broke.set((status, why));
        error
    }
    /// Reads the rest of the body and throws it away.
    pub(crate) async fn discard(self) {
        self.source().is_abandoned = true;
        let next = |cx: &mut Context<'_>| Pin::new(&mut self.source().body).poll_frame(cx);
        while let Some(Ok(_)) = poll_fn(next).await {}
    }
    /// Returns whether the declared length exceeds the limit.
    pub(crate) fn declares_too_much(&self) -> bool {
        self.0.max > 0 && self.source().body.size_hint().lower() > self.0.max
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
        let mut source = self.source();
        let Source { body, patience, is_abandoned } = &mut *source;
        if *is_abandoned {
            return Poll::Ready(Some(Err("the rest of the body is discarded".into())));
        }
        let polled = Pin::new(body).poll_frame(cx);
        let frame = ready!(patience.judge(cx, polled));
        drop(source);
        let frame = match frame {
            Ok(None) => return Poll::Ready(None),
            Ok(Some(Ok(frame))) => frame,
            Ok(Some(Err(e))) => {
                let error = self.break_off(StatusCode::BAD_REQUEST, Chain(&e).to_string());
                return Poll::Ready(Some(Err(error)));
            }
            Err(waited) => {
                let why =
                    format!("the client sent no byte of the body for {} s", waited.as_secs_f64());
                let error = self.break_off(StatusCode::REQUEST_TIMEOUT, why);
                return Poll::Ready(Some(Err(error)));
            }
        };
        let size = frame.data_ref().map_or(0, |d| d.len() as u64);
        let taken = self.0.taken.fetch_add(size, Ordering::Relaxed) + size;
        if self.0.max > 0 && taken > self.0.max {
            let why = format!("the limit is {} bytes", self.0.max);
            let error = self.break_off(StatusCode::PAYLOAD_TOO_LARGE, why);
            return Poll::Ready(Some(Err(error)));
        }
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.source().body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.source().body.size_hint()
    }
}
