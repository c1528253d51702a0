//! Reloads between requests.

use crate::rig::*;
use axum::Router;
use axum::routing::get as on_get;
use bytes::Bytes;
use cabrank::execution::interlock::Loaded;
use cabrank::execution::{Reloader, ReloaderBuilder};
use cabrank::{Executor, Interlock};
use cabrank_tower::ReloaderLayer;
use http::StatusCode;
use http_body_util::BodyExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

/// A source that the test edits, and an application that is loaded from it. `/` answers with the loaded version,
/// also after a while (`/slow`).
struct App {
    source: Arc<AtomicU32>,
    interlock: Interlock,
    router: Router,
}

fn app(configure: impl FnOnce(ReloaderBuilder) -> ReloaderBuilder) -> App {
    let (source, interlock) = (Arc::new(AtomicU32::new(1)), Interlock::new());
    let loaded = Arc::new(Loaded::new());
    let (read, version, to_load) = (source.clone(), source.clone(), loaded.clone());
    let executor = Executor::builder().interlock(interlock.clone()).build();
    let reloader = Reloader::builder(executor).watch(move || version.load(SeqCst)).to_prepare(
        move |loading| match read.load(SeqCst) {
            13 => Err("13 is no version".into()),
            version => Ok(to_load.set(version, loading)),
        },
    );
    let reloader = configure(reloader).build().expect("it has an interlock");
    reloader.prepare().expect("version 1");
    let version = {
        let interlock = interlock.clone();
        move || {
            let version = interlock.run(|running| loaded.get(running).map(|version| *version));
            version.expect("a view").expect("it is prepared").to_string()
        }
    };
    let slow = version.clone();
    let slow = async move || {
        let first = slow();
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        format!("{first} {}", slow())
    };
    let layer = ReloaderLayer::new(reloader).show_errors();
    let router = Router::new()
        .route("/", on_get(async move || version()))
        .route("/slow", on_get(slow))
        .layer(layer);
    App { source, interlock, router }
}

async fn answer(app: &App, path: &str) -> String {
    text(get(&app.router, path).await).await.1
}

#[tokio::test]
async fn a_request_after_an_edit_sees_it() {
    let app = app(|reloader| reloader);
    for version in 1..5 {
        app.source.store(version, SeqCst);
        assert_eq!(answer(&app, "/").await, version.to_string());
        assert_eq!(answer(&app, "/").await, version.to_string());
    }
    assert_eq!(app.interlock.generation(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_under_load_see_one_version_each() {
    let app = Arc::new(app(|reloader| reloader));
    let clients = (0..8).map(|_| {
        let app = app.clone();
        tokio::spawn(async move {
            for _ in 0..200 {
                let least = app.source.load(SeqCst);
                let answer = answer(&app, "/slow").await;
                let (first, second) = answer.split_once(' ').unwrap_or_else(|| panic!("{answer}"));
                assert_eq!(first, second, "mixed");
                assert!(first.parse::<u32>().expect("a version") >= least, "stale");
            }
        })
    });
    let clients: Vec<_> = clients.collect();
    while !clients.iter().all(tokio::task::JoinHandle::is_finished) {
        let mut next = app.source.load(SeqCst) + 1;
        if next == 13 {
            next += 1;
        }
        app.source.store(next, SeqCst);
        tokio::time::sleep(std::time::Duration::from_micros(300)).await;
    }
    for client in clients {
        client.await.expect("no answer was mixed or stale");
    }
    assert!(app.interlock.generation() > 10);
}

#[tokio::test]
async fn a_streamed_body_keeps_its_version_until_its_end() {
    let app = app(|reloader| reloader);
    let (mut feed, body) = fed();
    let body = Arc::new(std::sync::Mutex::new(Some(body)));
    let handler = async move || body.lock().expect("no panic").take().expect("one request");
    // The same layer around a second router.
    let (interlock, log) = (app.interlock.clone(), Log::default());
    let executor = builder(&log, &interlock).build();
    let streams = Router::new()
        .route("/", on_get(handler))
        .layer(cabrank_tower::ExecutorLayer::new(executor));
    let mut response = get(&streams, "/").await;
    feed.send_data(Bytes::from("part")).await.expect("it is read");
    response.body_mut().frame().await.expect("a frame").expect("no error");

    app.source.store(2, SeqCst);
    let router = app.router.clone();
    let waits = tokio::spawn(async move { text(get(&router, "/").await).await.1 });
    before_long(|| interlock.dump().to_string().contains("waits to unload")).await;
    assert_eq!((interlock.generation(), waits.is_finished()), (0, false));
    drop(feed);
    assert!(response.body_mut().frame().await.is_none());
    assert_eq!(waits.await.expect("no panic"), "2");
    assert_eq!(interlock.generation(), 1);
}

#[tokio::test]
async fn a_failed_reload_is_answered_until_an_edit_mends_it() {
    let app = app(|reloader| reloader);
    assert_eq!(answer(&app, "/").await, "1");
    app.source.store(13, SeqCst);
    for _ in 0..3 {
        let (status, answer) = text(get(&app.router, "/").await).await;
        assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
        assert!(answer.contains("13 is no version"), "{answer}");
    }
    app.source.store(14, SeqCst);
    assert_eq!(answer(&app, "/").await, "14");
}

#[tokio::test]
async fn with_always_each_request_is_loaded_afresh() {
    let app = app(ReloaderBuilder::always);
    for generation in 0..4 {
        assert_eq!(answer(&app, "/slow").await, "1 1");
        assert_eq!(app.interlock.generation(), generation, "unloaded before the next request");
    }
}

#[tokio::test]
async fn with_reloading_disabled_an_edit_is_not_looked_at() {
    let app = app(|reloader| reloader.enabled(false));
    app.source.store(2, SeqCst);
    assert_eq!(answer(&app, "/").await, "1");
    assert_eq!(app.interlock.generation(), 0);
}
