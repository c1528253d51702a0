//! A response's body inside its execution.

use crate::inside::inside;
use cabrank::execution::Execution;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

pin_project! {
    /// A response's body, which is polled and dropped inside the execution of its request.
    ///
    /// The execution ends after the last frame, after an error, or when the body is dropped.
    pub struct ExecutionBody<B> {
        // Present as long as the inner body is.
        execution: Option<Execution<'static>>,
        #[pin]
        kind: Kind<B>,
    }

    impl<B> PinnedDrop for ExecutionBody<B> {
        fn drop(this: Pin<&mut Self>) {
            this.end();
        }
    }
}

pin_project! {
    #[project = KindProjection]
    enum Kind<B> {
        Inner { #[pin] body: B },
        // An answer of the layer's own.
        Text { text: Option<String> },
    }
}

impl<B> ExecutionBody<B> {
    pub(crate) fn new(body: B, execution: Option<Execution<'static>>) -> Self {
        ExecutionBody { execution, kind: Kind::Inner { body } }
    }
    pub(crate) fn text(text: String) -> Self {
        ExecutionBody { execution: None, kind: Kind::Text { text: Some(text) } }
    }
    /// Drops the body inside the execution, and ends that.
    fn end(self: Pin<&mut Self>) {
        let mut this = self.project();
        if let Some(mut execution) = this.execution.take() {
            execution.within(|_| this.kind.set(Kind::Text { text: None }));
        }
    }
}

impl<B: Body<Data: From<String>, Error: fmt::Display>> Body for ExecutionBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let this = self.as_mut().project();
        let polled = match (this.kind.project(), this.execution) {
            (KindProjection::Inner { body }, Some(execution)) => {
                let polled = inside(execution, || body.poll_frame(cx));
                if let Poll::Ready(Some(Err(error))) = &polled {
                    execution.fail(error.to_string());
                }
                polled
            }
            (KindProjection::Inner { body }, None) => body.poll_frame(cx),
            (KindProjection::Text { text }, _) => {
                let text = text.take().filter(|text| !text.is_empty());
                Poll::Ready(text.map(|text| Ok(Frame::data(text.into()))))
            }
        };
        if matches!(polled, Poll::Ready(None | Some(Err(_)))) {
            self.end();
        }
        polled
    }
    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Inner { body } => body.is_end_stream(),
            Kind::Text { text } => text.as_ref().is_none_or(String::is_empty),
        }
    }
    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Inner { body } => body.size_hint(),
            Kind::Text { text } => {
                SizeHint::with_exact(text.as_ref().map_or(0, String::len) as u64)
            }
        }
    }
}

impl<B> fmt::Debug for ExecutionBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExecutionBody").field("execution", &self.execution).finish_non_exhaustive()
    }
}
