//! The future of a response: begins the execution, and calls the inner service in it.

use crate::body::ExecutionBody;
use crate::inside::inside;
use crate::refusal::Refusal;
use cabrank::execution::{Execution, ExecutionError};
use http::{Request, Response};
use http_body::Body;
use pin_project_lite::pin_project;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use tower_service::Service;

type Begins = Pin<Box<dyn Future<Output = Result<Execution<'static>, ExecutionError>> + Send>>;

pin_project! {
    /// The response of an [`ExecutorLayer`](crate::ExecutorLayer) or a [`ReloaderLayer`](crate::ReloaderLayer).
    ///
    /// Dropping it drops the inner future inside the execution, and ends the execution.
    pub struct ResponseFuture<S, Q>
    where
        S: Service<Request<Q>>,
    {
        // Present while `state` has the inner future.
        execution: Option<Execution<'static>>,
        #[pin]
        state: State<S, Q, S::Future>,
    }

    impl<S, Q> PinnedDrop for ResponseFuture<S, Q>
    where
        S: Service<Request<Q>>,
    {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            if let Some(mut execution) = this.execution.take() {
                execution.within(|_| this.state.set(State::Done));
            }
        }
    }
}

pin_project! {
    #[project = StateProjection]
    enum State<S, Q, F> {
        // Waits to enter the interlock, reloads, and runs the hooks.
        Begins { waits: Begins, call: Option<Call<S, Q>> },
        Calls { #[pin] future: F },
        Done,
    }
}

struct Call<S, Q> {
    name: String,
    inner: S,
    request: Request<Q>,
    refusal: Refusal,
}

impl<S: Service<Request<Q>>, Q> ResponseFuture<S, Q> {
    pub(crate) fn new(waits: Begins, inner: S, request: Request<Q>, refusal: Refusal) -> Self {
        let name = format!("{} {}", request.method(), request.uri().path());
        let call = Some(Call { name, inner, request, refusal });
        ResponseFuture { execution: None, state: State::Begins { waits, call } }
    }
}

impl<S, Q, B> Future for ResponseFuture<S, Q>
where
    S: Service<Request<Q>, Response = Response<B>, Error: fmt::Display>,
    B: Body<Data: From<String>>,
{
    type Output = Result<Response<ExecutionBody<B>>, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        if let StateProjection::Begins { waits, call } = this.state.as_mut().project() {
            let Poll::Ready(begun) = waits.as_mut().poll(cx) else { return Poll::Pending };
            let mut call = call.take().expect("a future is not polled after it was ready");
            let execution = match begun {
                Ok(execution) => this.execution.insert(execution),
                Err(error) => {
                    this.state.set(State::Done);
                    let answer = call.refusal.answer(&error);
                    return Poll::Ready(Ok(answer.map(ExecutionBody::text)));
                }
            };
            if let Some(running) = execution.running() {
                running.set_name(&call.name);
            }
            let future = inside(execution, || call.inner.call(call.request));
            this.state.set(State::Calls { future });
        }
        let StateProjection::Calls { future } = this.state.as_mut().project() else {
            panic!("a future is not polled after it was ready");
        };
        let execution = this.execution.as_mut().expect("it was stored before the call");
        let Poll::Ready(result) = inside(execution, || future.poll(cx)) else {
            return Poll::Pending;
        };
        execution.within(|_| this.state.set(State::Done));
        if let Err(error) = &result {
            execution.fail(error.to_string());
        }
        // On an error, the drop of the execution completes its hooks.
        let execution = this.execution.take();
        Poll::Ready(result.map(|response| response.map(|body| ExecutionBody::new(body, execution))))
    }
}

impl<S: Service<Request<Q>>, Q> fmt::Debug for ResponseFuture<S, Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").field("execution", &self.execution).finish_non_exhaustive()
    }
}
