//! An executor that logs its hooks, and requests to a router.

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use cabrank::execution::{Executor, ExecutorBuilder, Interlock};
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use http_body_util::channel::{Channel, Sender};
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tower::ServiceExt;

pub(crate) const SOON: Duration = Duration::from_secs(20);

/// The events so far, in order.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<&'static str>>>);

impl Log {
    pub(crate) fn push(&self, event: &'static str) {
        self.0.lock().expect("no panic under the lock").push(event);
    }
    pub(crate) fn take(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.0.lock().expect("no panic under the lock"))
    }
    /// Waits until the log has these events, which it takes.
    pub(crate) async fn comes(&self, events: &[&str]) {
        before_long(|| self.0.lock().expect("no panic under the lock").len() >= events.len()).await;
        assert_eq!(self.take(), events);
    }
}

/// Pushes its event when it is dropped.
pub(crate) struct OnDrop(pub(crate) Log, pub(crate) &'static str);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.push(self.1);
    }
}

pub(crate) fn builder(log: &Log, interlock: &Interlock) -> ExecutorBuilder {
    let (run, complete) = (log.clone(), log.clone());
    Executor::builder()
        .interlock(interlock.clone())
        .to_run(move || Ok(run.push("run")))
        .to_complete(move || Ok(complete.push("complete")))
}

/// The log of an executor, its interlock, and the executor.
pub(crate) fn executor() -> (Log, Interlock, Executor) {
    let (log, interlock) = (Log::default(), Interlock::new());
    let executor = builder(&log, &interlock).build();
    (log, interlock, executor)
}

pub(crate) fn request(path: &str) -> Request<Body> {
    Request::get(path).body(Body::empty()).expect("a valid path")
}
pub(crate) async fn get(app: &Router, path: &str) -> Response<Body> {
    app.clone().oneshot(request(path)).await.expect("a router does not fail")
}
pub(crate) async fn text(response: Response<Body>) -> (StatusCode, String) {
    let status = response.status();
    let bytes = response.into_body().collect().await.expect("the body does not fail").to_bytes();
    (status, String::from_utf8(bytes.to_vec()).expect("UTF-8"))
}

/// A body that the test feeds.
pub(crate) fn fed() -> (Sender<Bytes, Infallible>, Body) {
    let (sender, body) = Channel::new(8);
    (sender, Body::new(body))
}

pub(crate) async fn before_long(condition: impl Fn() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < SOON, "it does not come");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
