//! The page of the interlock, while executions hang and when all is quiet.

use crate::rig::*;
use axum::Router;
use axum::body::Body;
use axum::routing::get as on_get;
use cabrank::Executor;
use cabrank_tower::{DebugLocks, DebugLocksLayer, ExecutorLayer};
use http::{Request, Response, StatusCode, header};
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use tower::{ServiceBuilder, ServiceExt};

/// The classic deadlock: a handler waits, inside its execution, for a task that has to load.
fn hangs(executor: &Executor, started: &Arc<Mutex<Vec<tokio::task::AbortHandle>>>) -> Router {
    let (inner, started) = (executor.clone(), started.clone());
    let handler = async move || {
        let executor = inner.clone();
        let child = tokio::spawn(async move {
            let loads = executor.wrap_async(async |execution| {
                let running = execution.running().ok_or("no interlock")?;
                running.set_name("a <child>");
                Ok(running.load_async(async |_| ()).await?)
            });
            loads.await.expect("it loads in the end");
        });
        started.lock().expect("no panic").push(child.abort_handle());
        // The mend would be `permit_loads_async` around this wait.
        drop(child.await);
    };
    Router::new().route("/hangs", on_get(handler)).layer(ExecutorLayer::new(executor.clone()))
}

async fn page(app: &Router, accept: Option<&str>) -> Response<Body> {
    let mut request = Request::get(DebugLocks::PATH);
    if let Some(accept) = accept {
        request = request.header(header::ACCEPT, accept);
    }
    let request = request.body(Body::empty()).expect("valid");
    app.clone().oneshot(request).await.expect("it answers")
}

#[tokio::test]
async fn a_deadlock_is_shown_while_it_lasts() {
    let (log, interlock, executor) = executor();
    let started = Arc::default();
    let app = hangs(&executor, &started)
        .route_service(DebugLocks::PATH, DebugLocks::new(interlock.clone()));
    let theirs = app.clone();
    let hanging = tokio::spawn(async move { get(&theirs, "/hangs").await.status() });
    before_long(|| interlock.dump().to_string().contains("waits to load")).await;
    assert!(!hanging.is_finished());

    let plain = page(&app, None).await;
    assert_eq!(plain.headers()[header::CONTENT_TYPE], "text/plain; charset=utf-8");
    assert_eq!(plain.headers()[header::CACHE_CONTROL], "no-store");
    let (status, plain) = text(plain).await;
    assert_eq!(status, StatusCode::OK);
    for part in ["GET /hangs", "runs", "a <child>", "waits to load", "locks.rs"] {
        assert!(plain.contains(part), "{part} is missing: {plain}");
    }
    let html = page(&app, Some("text/html,application/xhtml+xml;q=0.9,*/*;q=0.8")).await;
    assert_eq!(html.headers()[header::CONTENT_TYPE], "text/html; charset=utf-8");
    let (_, html) = text(html).await;
    assert!(html.contains("a &lt;child&gt;") && !html.contains("<child>"), "{html}");

    // The child of the deadlock is ended from outside.
    started.lock().expect("no panic").pop().expect("a child").abort();
    assert_eq!(hanging.await.expect("no panic"), StatusCode::OK);
    assert_eq!(log.take().len(), 4);
    assert_eq!(text(page(&app, None).await).await.0, StatusCode::OK);
}

#[tokio::test]
async fn the_layer_answers_its_path_only() {
    let (log, interlock, executor) = executor();
    let app = Router::new()
        .route("/", on_get(async || "hello"))
        .layer(ExecutorLayer::new(executor))
        .layer(DebugLocksLayer::new(interlock).path("/locks"));
    assert_eq!(text(get(&app, "/").await).await.1, "hello");
    assert_eq!(log.take(), ["run", "complete"]);
    assert_eq!(get(&app, DebugLocks::PATH).await.status(), StatusCode::NOT_FOUND);

    let head = Request::head("/locks").body(Body::empty()).expect("valid");
    let (status, nothing) = text(app.clone().oneshot(head).await.expect("it answers")).await;
    assert_eq!((status, &*nothing), (StatusCode::OK, ""));
    let post = Request::post("/locks").body(Body::empty()).expect("valid");
    let post = app.clone().oneshot(post).await.expect("it answers");
    assert_eq!(post.status(), StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(post.headers()[header::ALLOW], "GET, HEAD");
}

/// A limit of concurrent requests, all of which hang, is inside the layer.
#[tokio::test]
async fn the_layer_answers_though_the_service_inside_is_never_ready() {
    #[derive(Clone)]
    struct Never;
    impl tower::Service<Request<Body>> for Never {
        type Response = Response<Body>;
        type Error = Infallible;
        type Future = std::future::Pending<Result<Response<Body>, Infallible>>;
        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Pending
        }
        fn call(&mut self, _: Request<Body>) -> Self::Future {
            unreachable!("it is never ready")
        }
    }
    let (_, interlock, _) = executor();
    let service = ServiceBuilder::new().layer(DebugLocksLayer::new(interlock)).service(Never);
    let answer = service.oneshot(request(DebugLocks::PATH)).await.expect("it answers");
    assert_eq!(answer.status(), StatusCode::OK);
}
