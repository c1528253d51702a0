//! A page that shows the load interlock.

use crate::body::ExecutionBody;
use cabrank::execution::Interlock;
use http::{Method, Request, Response, StatusCode, header};
use http_body::Body;
use pin_project_lite::pin_project;
use std::convert::Infallible;
use std::fmt;
use std::future::{Future, Ready, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tower_layer::Layer;
use tower_service::Service;

/// Answers with the [dump](Interlock::dump) of an interlock: the executions, their waits, and what blocks each.
///
/// The answer is a page if the request accepts HTML, and otherwise plain text. It takes no share of the interlock, so
/// it comes while all executions hang. It still needs a free thread of the runtime: where handlers block all of them,
/// serve it from a runtime of its own.
///
/// It shows request paths, names of threads and places in the source. Do not serve it to the public.
///
/// ```
/// use cabrank::Interlock;
/// use cabrank_tower::DebugLocks;
/// use http::Request;
/// use tower::ServiceExt;
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let interlock = Interlock::new();
/// let page = DebugLocks::new(interlock).oneshot(Request::new(())).await?;
/// println!("{}", page.body());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct DebugLocks {
    interlock: Interlock,
}

impl DebugLocks {
    /// The usual path of the page.
    pub const PATH: &'static str = "/cabrank/locks";

    /// Returns the page of this interlock.
    pub fn new(interlock: Interlock) -> Self {
        DebugLocks { interlock }
    }

    fn answer<Q>(&self, request: &Request<Q>) -> Response<String> {
        let head = request.method() == Method::HEAD;
        if !head && request.method() != Method::GET {
            let mut response = Response::new(String::new());
            *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
            let allowed = header::HeaderValue::from_static("GET, HEAD");
            response.headers_mut().insert(header::ALLOW, allowed);
            return response;
        }
        let accepted = request.headers().get_all(header::ACCEPT).iter();
        let is_html = accepted.filter_map(|value| value.to_str().ok()).any(accepts_html);
        let dump = self.interlock.dump().to_string();
        let (text, kind) = match is_html {
            true => (html(&dump), "text/html; charset=utf-8"),
            false => (dump, "text/plain; charset=utf-8"),
        };
        let mut response = Response::new(if head { String::new() } else { text });
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
        headers.insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-store"));
        response
    }
}

fn accepts_html(accept: &str) -> bool {
    accept.split(',').any(|range| range.split(';').next().is_some_and(|r| r.trim() == "text/html"))
}

fn html(dump: &str) -> String {
    let dump = dump.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    format!(
        "<!doctype html><meta charset=utf-8><title>Load interlock</title>\n\
         <style>body {{ font: 14px/1.5 monospace; margin: 2em }} pre {{ white-space: pre-wrap }}</style>\n\
         <h1>Load interlock</h1>\n<pre>{dump}</pre>\n"
    )
}

impl<Q> Service<Request<Q>> for DebugLocks {
    type Response = Response<String>;
    type Error = Infallible;
    type Future = Ready<Result<Response<String>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }
    fn call(&mut self, request: Request<Q>) -> Self::Future {
        ready(Ok(self.answer(&request)))
    }
}

/// Answers one path with [`DebugLocks`], and passes every other request on.
///
/// It belongs outside the layers of the executor and the reloader, whose executions may hang.
///
/// ```
/// use cabrank::execution::{Executor, Interlock};
/// use cabrank_tower::{DebugLocksLayer, ExecutorLayer};
/// use tower::ServiceBuilder;
///
/// let interlock = Interlock::new();
/// let executor = Executor::builder().interlock(interlock.clone()).build();
/// let builder = ServiceBuilder::new()
///     .layer(DebugLocksLayer::new(interlock).path("/internal/locks"))
///     .layer(ExecutorLayer::new(executor));
/// # drop(builder);
/// ```
#[derive(Clone, Debug)]
pub struct DebugLocksLayer {
    page: DebugLocks,
    path: Arc<str>,
}

impl DebugLocksLayer {
    /// Returns a layer that answers [`DebugLocks::PATH`].
    pub fn new(interlock: Interlock) -> Self {
        DebugLocksLayer { page: DebugLocks::new(interlock), path: DebugLocks::PATH.into() }
    }
    /// Sets the path.
    pub fn path(mut self, path: &str) -> Self {
        self.path = path.into();
        self
    }
}

impl<S> Layer<S> for DebugLocksLayer {
    type Service = DebugLocksService<S>;
    fn layer(&self, inner: S) -> Self::Service {
        DebugLocksService { inner, layer: self.clone() }
    }
}

/// The service of a [`DebugLocksLayer`].
#[derive(Clone, Debug)]
pub struct DebugLocksService<S> {
    inner: S,
    layer: DebugLocksLayer,
}

impl<S, Q, B> Service<Request<Q>> for DebugLocksService<S>
where
    S: Service<Request<Q>, Response = Response<B>> + Clone,
    B: Body<Data: From<String>>,
{
    type Response = Response<ExecutionBody<B>>;
    type Error = S::Error;
    type Future = DebugLocksFuture<S, Q>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        // The page answers also where the inner service is never ready again. The future waits for that.
        Poll::Ready(Ok(()))
    }
    fn call(&mut self, request: Request<Q>) -> Self::Future {
        if request.uri().path() == &*self.layer.path {
            let page = Some(self.layer.page.answer(&request));
            return DebugLocksFuture { state: State::Page { page } };
        }
        // A clone need not be ready when this service is.
        let clone = self.inner.clone();
        let inner = std::mem::replace(&mut self.inner, clone);
        DebugLocksFuture { state: State::Waits { inner, request: Some(request) } }
    }
}

pin_project! {
    /// The response of a [`DebugLocksLayer`].
    pub struct DebugLocksFuture<S, Q>
    where
        S: Service<Request<Q>>,
    {
        #[pin]
        state: State<S, Q, S::Future>,
    }
}

pin_project! {
    #[project = Projection]
    enum State<S, Q, F> {
        Page { page: Option<Response<String>> },
        // Waits until the inner service is ready.
        Waits { inner: S, request: Option<Request<Q>> },
        Calls { #[pin] future: F },
    }
}

impl<S, Q, B> Future for DebugLocksFuture<S, Q>
where
    S: Service<Request<Q>, Response = Response<B>>,
{
    type Output = Result<Response<ExecutionBody<B>>, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        loop {
            let future = match state.as_mut().project() {
                Projection::Page { page } => {
                    let page = page.take().expect("a future is not polled after it was ready");
                    return Poll::Ready(Ok(page.map(ExecutionBody::text)));
                }
                Projection::Waits { inner, request } => match inner.poll_ready(cx) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                    Poll::Ready(Ok(())) => inner.call(request.take().expect("it is called once")),
                },
                Projection::Calls { future } => {
                    return future
                        .poll(cx)
                        .map_ok(|response| response.map(|body| ExecutionBody::new(body, None)));
                }
            };
            state.set(State::Calls { future });
        }
    }
}

impl<S: Service<Request<Q>>, Q> fmt::Debug for DebugLocksFuture<S, Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DebugLocksFuture").finish_non_exhaustive()
    }
}
