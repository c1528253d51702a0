//! The end of an execution: with the body, by a drop, and by a panic.

use crate::rig::*;
use axum::Router;
use axum::body::Body;
use axum::routing::get as on_get;
use bytes::Bytes;
use cabrank::execution::Executor;
use cabrank_tower::ExecutorLayer;
use http::{Request, Response, StatusCode};
use http_body::{Body as _, Frame};
use http_body_util::BodyExt;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use tower::{ServiceBuilder, ServiceExt, service_fn};

/// A router with one body, which is taken by the first request.
fn streams(executor: &Executor, body: Body) -> Router {
    let body = Arc::new(Mutex::new(Some(body)));
    let handler = async move || body.lock().expect("no panic").take().expect("one request");
    Router::new().route("/", on_get(handler)).layer(ExecutorLayer::new(executor.clone()))
}

#[tokio::test]
async fn the_execution_ends_with_the_last_frame_of_the_body() {
    let (log, interlock, executor) = executor();
    let (mut feed, body) = fed();
    let mut response = get(&streams(&executor, body), "/").await;
    assert_eq!(log.take(), ["run"], "the head does not end it");
    for part in ["one", "two"] {
        feed.send_data(Bytes::from(part)).await.expect("it is read");
        let frame = response.body_mut().frame().await.expect("a frame").expect("no error");
        assert_eq!(frame.into_data().expect("data"), part);
    }
    assert_eq!((log.take().len(), interlock.dump().owners.len()), (0, 1));
    drop(feed);
    assert!(response.body_mut().frame().await.is_none());
    assert_eq!(
        log.take(),
        ["complete"],
        "the last frame ends it, though the response is still there"
    );
    assert!(interlock.dump().owners.is_empty());
    assert!(response.body_mut().frame().await.is_none(), "it may be polled again");
}

#[tokio::test]
async fn a_response_that_is_dropped_ends_its_execution() {
    let (log, interlock, executor) = executor();
    let (feed, body) = fed();
    let response = get(&streams(&executor, body), "/").await;
    drop(response);
    assert_eq!(log.take(), ["run", "complete"]);
    assert!(interlock.dump().owners.is_empty());
    drop(feed);
}

/// Checks that it is polled and dropped while its executor is active, before the hooks are completed.
struct Inside(Executor, Log, u32);

impl http_body::Body for Inside {
    type Data = Bytes;
    type Error = String;
    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, String>>> {
        assert!(self.0.is_active(), "polled outside");
        self.2 -= 1;
        Poll::Ready(match self.2 {
            0 => Some(Err("it breaks off".to_owned())),
            _ => Some(Ok(Frame::data(Bytes::from("part")))),
        })
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        assert!(self.0.is_active(), "dropped outside");
        self.1.push("dropped");
    }
}

#[tokio::test]
async fn a_body_is_polled_and_dropped_inside_and_an_error_ends_the_execution() {
    for frames in 1..4 {
        let (log, _, executor) = executor();
        let body = Body::new(Inside(executor.clone(), log.clone(), 3));
        let mut response = get(&streams(&executor, body), "/").await;
        let mut failed = false;
        for _ in 0..frames {
            failed = response.body_mut().frame().await.expect("a frame").is_err();
        }
        assert_eq!(failed, frames == 3);
        if !failed {
            assert_eq!(log.take(), ["run"]);
            drop(response);
            assert_eq!(log.take(), ["dropped", "complete"]);
        } else {
            assert_eq!(log.take(), ["run", "dropped", "complete"]);
        }
    }
}

#[tokio::test]
async fn trailers_and_the_size_of_the_body_pass_through() {
    let (log, _, executor) = executor();
    let app =
        Router::new().route("/", on_get(async || "hello")).layer(ExecutorLayer::new(executor));
    let response = get(&app, "/").await;
    assert_eq!(response.body().size_hint().exact(), Some(5));
    assert!(!response.body().is_end_stream());
    assert_eq!(text(response).await.1, "hello");
    assert_eq!(log.take(), ["run", "complete"]);

    let (log, _, executor) = crate::rig::executor();
    let (mut feed, body) = fed();
    let mut trailers = http::HeaderMap::new();
    trailers.insert("checksum", "5".parse().expect("a value"));
    feed.send_trailers(trailers.clone()).await.expect("it is read");
    drop(feed);
    let body = get(&streams(&executor, body), "/").await.into_body();
    let collected = body.collect().await.expect("no error");
    assert_eq!(collected.trailers(), Some(&trailers));
    assert_eq!(log.take(), ["run", "complete"]);
}

#[tokio::test]
async fn a_request_that_is_dropped_in_its_handler_ends_inside() {
    let (log, interlock, executor) = executor();
    let handler = {
        let (log, executor) = (log.clone(), executor.clone());
        async move || {
            struct Checks(
                Executor,
                #[expect(dead_code, reason = "dropped after the check")] OnDrop,
            );
            impl Drop for Checks {
                fn drop(&mut self) {
                    assert!(self.0.is_active(), "dropped outside");
                }
            }
            let _checks = Checks(executor.clone(), OnDrop(log.clone(), "dropped"));
            log.push("called");
            std::future::pending::<()>().await;
        }
    };
    let app = Router::new().route("/", on_get(handler)).layer(ExecutorLayer::new(executor));
    let waits = tokio::spawn(async move { get(&app, "/").await });
    log.comes(&["run", "called"]).await;
    waits.abort();
    assert!(waits.await.expect_err("it was aborted").is_cancelled());
    assert_eq!(log.take(), ["dropped", "complete"]);
    assert!(interlock.dump().owners.is_empty());
}

#[tokio::test]
async fn a_panic_of_the_handler_ends_its_execution() {
    let (log, interlock, executor) = executor();
    let handler = async || -> () { panic!("the handler panics") };
    let app = Router::new()
        .route("/panics", on_get(handler))
        .route("/", on_get(async || ()))
        .layer(ExecutorLayer::new(executor));
    let theirs = app.clone();
    let panicked = tokio::spawn(async move { get(&theirs, "/panics").await }).await;
    assert!(panicked.expect_err("the panic passes through").is_panic());
    assert_eq!(log.take(), ["run", "complete"]);
    assert!(interlock.dump().owners.is_empty());
    assert_eq!(get(&app, "/").await.status(), StatusCode::OK);
}

#[tokio::test]
async fn an_error_of_the_service_ends_its_execution() {
    let (log, _, executor) = executor();
    let active = executor.clone();
    let fails = service_fn(move |_: Request<Body>| {
        assert!(active.is_active(), "called outside");
        std::future::ready(Err::<Response<Body>, _>("it fails"))
    });
    let service = ServiceBuilder::new().layer(ExecutorLayer::new(executor)).service(fails);
    assert_eq!(service.oneshot(request("/")).await.expect_err("it fails"), "it fails");
    assert_eq!(log.take(), ["run", "complete"]);
}

/// Errors of the service and of its body, and panics, reach the executor's reporter.
#[tokio::test]
async fn each_failure_is_reported_once() {
    let reports: Arc<Mutex<Vec<String>>> = Arc::default();
    let theirs = reports.clone();
    let executor = Executor::builder()
        .reporter(move |error| theirs.lock().expect("no panic").push(error.to_string()))
        .build();
    let active = executor.clone();
    let answer = service_fn(move |request: Request<Body>| {
        let body = Body::new(Inside(active.clone(), Log::default(), 1));
        async move {
            match request.uri().path() {
                "/error" => Err("no such page"),
                "/panic" => panic!("the handler panics"),
                _ => Ok(Response::new(body)),
            }
        }
    });
    let service = ServiceBuilder::new().layer(ExecutorLayer::new(executor)).service(answer);
    assert!(service.clone().oneshot(request("/error")).await.is_err());
    assert!(tokio::spawn(service.clone().oneshot(request("/panic"))).await.is_err());
    let response = service.oneshot(request("/body")).await.expect("a head");
    assert!(response.into_body().collect().await.is_err());
    let failures = ["no such page", "it panicked: the handler panics", "it breaks off"];
    let expected = failures.map(|failure| format!("the body failed: {failure}"));
    assert_eq!(*reports.lock().expect("no panic"), expected);
}

/// Services that are called only when they are ready, as tower demands.
#[tokio::test]
async fn the_service_that_was_ready_is_called() {
    #[derive(Default)]
    struct Picky(bool);
    impl Clone for Picky {
        fn clone(&self) -> Self {
            Picky(false)
        }
    }
    impl tower::Service<Request<Body>> for Picky {
        type Response = Response<Body>;
        type Error = Infallible;
        type Future = std::future::Ready<Result<Response<Body>, Infallible>>;
        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            self.0 = true;
            Poll::Ready(Ok(()))
        }
        fn call(&mut self, _: Request<Body>) -> Self::Future {
            assert!(std::mem::take(&mut self.0), "called though it was not ready");
            std::future::ready(Ok(Response::new(Body::empty())))
        }
    }
    let (log, interlock, executor) = executor();
    let mut service = ServiceBuilder::new()
        .layer(cabrank_tower::DebugLocksLayer::new(interlock))
        .layer(ExecutorLayer::new(executor))
        .service(Picky::default());
    for _ in 0..2 {
        let ready = ServiceExt::<Request<Body>>::ready(&mut service).await.expect("it is ready");
        drop(tower::Service::call(ready, request("/")).await.expect("it answers"));
    }
    assert_eq!(log.take().len(), 4);
}
