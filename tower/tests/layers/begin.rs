//! The begin of an execution, and the handler inside it.

use crate::rig::*;
use axum::Router;
use axum::routing::get as on_get;
use cabrank::Interlock;
use cabrank::execution::{Executor, PerExecution};
use cabrank_tower::ExecutorLayer;
use http::{Response, StatusCode};
use std::time::Duration;

#[tokio::test]
async fn the_handler_is_inside_an_execution_that_nested_calls_join() {
    let (log, interlock, executor) = executor();
    let handler = {
        let (executor, interlock) = (executor.clone(), interlock.clone());
        async move || {
            assert!(executor.is_active());
            executor.wrap(|execution| Ok(assert!(execution.is_nested()))).expect("it is nested");
            interlock.run(|_| assert_eq!(interlock.dump().owners.len(), 1)).expect("a view");
            tokio::task::yield_now().await;
            assert!(executor.is_active(), "also in a later poll");
            let nested = executor.wrap_async(async |execution| Ok(execution.is_nested())).await;
            assert!(nested.expect("it is nested"));
            interlock.dump().to_string()
        }
    };
    let app = Router::new().route("/x", on_get(handler)).layer(ExecutorLayer::new(executor));
    let (status, dump) = text(get(&app, "/x?q=1").await).await;
    assert_eq!(status, StatusCode::OK);
    assert!(dump.contains("GET /x”"), "the request names its execution: {dump}");
    assert_eq!(log.take(), ["run", "complete"]);
    assert!(interlock.dump().owners.is_empty());
}

/// A connection of the request: borrowed at the first use, and given back at the end of the body.
#[tokio::test]
async fn a_value_of_the_execution_lives_as_long_as_the_response() {
    let (log, made) = (Log::default(), Log::default());
    let (theirs, makes) = (log.clone(), made.clone());
    let connection = PerExecution::new(move || {
        makes.push("borrowed");
        Ok(OnDrop(theirs.clone(), "given back"))
    });
    let executor = Executor::builder().hook(connection.clone()).build();
    let handler = async move || {
        for _ in 0..2 {
            connection.with(|_| ()).expect("inside an execution");
            tokio::task::yield_now().await;
        }
        "hello"
    };
    let app = Router::new().route("/", on_get(handler)).layer(ExecutorLayer::new(executor));
    let response = get(&app, "/").await;
    assert_eq!((made.take(), log.take()), (vec!["borrowed"], vec![]));
    assert_eq!(text(response).await.1, "hello");
    assert_eq!(log.take(), ["given back"]);
}

#[tokio::test]
async fn two_layers_of_one_executor_run_its_hooks_once() {
    let (log, _, executor) = executor();
    let app = Router::new()
        .route("/", on_get(async || "hello"))
        .layer(ExecutorLayer::new(executor.clone()))
        .layer(ExecutorLayer::new(executor));
    assert_eq!(text(get(&app, "/").await).await, (StatusCode::OK, "hello".to_owned()));
    assert_eq!(log.take(), ["run", "complete"]);
}

#[tokio::test]
async fn a_hook_that_fails_is_answered_without_the_handler() {
    let log = Log::default();
    let (complete, reported, called) = (log.clone(), log.clone(), log.clone());
    let executor = Executor::builder()
        .hook((|| Ok(()), move |()| Ok(complete.push("complete"))))
        .to_run(|| Err("no <connection>".into()))
        .reporter(move |_| reported.push("reported"))
        .build();
    let handler = async move || called.push("called");
    let app = Router::new().route("/", on_get(handler)).layer(ExecutorLayer::new(executor.clone()));
    let (status, answer) = text(get(&app, "/").await).await;
    assert_eq!(
        (status, &*answer),
        (StatusCode::INTERNAL_SERVER_ERROR, "500 Internal Server Error\n")
    );
    assert_eq!(log.take(), ["complete", "reported"]);

    let layer = ExecutorLayer::new(executor).on_error(|error| Response::new(error.to_string()));
    let app = Router::new().route("/", on_get(async || ())).layer(layer);
    let (status, answer) = text(get(&app, "/").await).await;
    assert_eq!((status, &*answer), (StatusCode::OK, "a hook's run failed: no <connection>"));
}

/// Another request loads, and does not end in time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_that_is_too_long_is_answered_with_503() {
    let interlock = Interlock::new();
    let executor =
        builder(&Log::default(), &interlock).acquire_timeout(Duration::from_millis(20)).build();
    let app = Router::new().route("/", on_get(async || ())).layer(ExecutorLayer::new(executor));
    let unloading = interlock.unload_async(async |_| {
        let answer = tokio::spawn(async move { text(get(&app, "/").await).await }).await;
        answer.expect("no panic")
    });
    let (status, answer) = unloading.await.expect("nothing else runs");
    assert_eq!((status, &*answer), (StatusCode::SERVICE_UNAVAILABLE, "503 Service Unavailable\n"));
    assert!(interlock.dump().owners.is_empty());
}

#[tokio::test]
async fn a_request_that_is_dropped_before_it_has_entered_runs_no_hook() {
    let (log, interlock, executor) = executor();
    let app = Router::new().route("/", on_get(async || ())).layer(ExecutorLayer::new(executor));
    let unloading = interlock.unload_async(async |_| {
        let waits = tokio::spawn({
            let app = app.clone();
            async move { get(&app, "/").await }
        });
        before_long(|| interlock.dump().owners.len() == 2).await;
        waits.abort();
        assert!(waits.await.expect_err("it was aborted").is_cancelled());
    });
    unloading.await.expect("nothing else runs");
    assert_eq!(log.take(), [""; 0]);
    assert!(interlock.dump().owners.is_empty());
    assert_eq!(get(&app, "/").await.status(), StatusCode::OK);
}
