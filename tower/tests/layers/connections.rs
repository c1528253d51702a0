//! Real connections: hyper's server, and clients that go away.

use crate::rig::*;
use axum::Router;
use axum::body::Body;
use axum::routing::get as on_get;
use bytes::Bytes;
use cabrank_tower::ExecutorLayer;
use http::{Request, Response};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use std::convert::Infallible;
use std::future::pending;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tower::{ServiceBuilder, service_fn};

async fn serve(app: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("it is bound");
    tokio::spawn(async move { axum::serve(listener, app).await });
    address
}

/// A client with one connection, and the task that drives it.
async fn connect(address: SocketAddr) -> (SendRequest<Empty<Bytes>>, JoinHandle<()>) {
    let stream = TcpStream::connect(address).await.expect("it listens");
    let (client, connection) = handshake(TokioIo::new(stream)).await.expect("HTTP/1");
    (client, tokio::spawn(async move { drop(connection.await) }))
}

fn path(path: &str) -> Request<Empty<Bytes>> {
    Request::get(path).header("host", "test").body(Empty::new()).expect("valid")
}

#[tokio::test]
async fn each_request_of_a_connection_is_an_execution() {
    let (log, interlock, executor) = executor();
    let app =
        Router::new().route("/", on_get(async || "hello")).layer(ExecutorLayer::new(executor));
    let (mut client, _connection) = connect(serve(app).await).await;
    for _ in 0..3 {
        let response = client.send_request(path("/")).await.expect("an answer");
        assert_eq!(response.into_body().collect().await.expect("a body").to_bytes(), "hello");
        log.comes(&["run", "complete"]).await;
    }
    before_long(|| interlock.dump().owners.is_empty()).await;
}

#[tokio::test]
async fn a_client_that_leaves_ends_the_execution_of_a_stream() {
    let (log, interlock, executor) = executor();
    let (mut feed, body) = fed();
    let body = Arc::new(Mutex::new(Some(body)));
    let handler = async move || body.lock().expect("no panic").take().expect("one request");
    let app = Router::new().route("/", on_get(handler)).layer(ExecutorLayer::new(executor));
    let (mut client, connection) = connect(serve(app).await).await;
    let mut response = client.send_request(path("/")).await.expect("an answer");
    feed.send_data(Bytes::from("part")).await.expect("it is read");
    response.body_mut().frame().await.expect("a frame").expect("no error");
    assert_eq!(log.take(), ["run"]);
    connection.abort();
    log.comes(&["complete"]).await;
    assert!(interlock.dump().owners.is_empty());
    assert!(feed.send_data(Bytes::from("part")).await.is_err(), "the body was dropped");
}

#[tokio::test]
async fn a_client_that_leaves_ends_the_execution_of_its_handler() {
    let (log, interlock, executor) = executor();
    let handler = {
        let log = log.clone();
        async move || {
            let _dropped = OnDrop(log.clone(), "dropped");
            log.push("called");
            pending::<()>().await;
        }
    };
    let app = Router::new().route("/", on_get(handler)).layer(ExecutorLayer::new(executor));
    let (mut client, connection) = connect(serve(app).await).await;
    let asks = tokio::spawn(async move { client.send_request(path("/")).await.map(drop) });
    log.comes(&["run", "called"]).await;
    connection.abort();
    log.comes(&["dropped", "complete"]).await;
    assert!(interlock.dump().owners.is_empty());
    assert!(asks.await.expect("no panic").is_err());
}

#[tokio::test]
async fn a_panic_of_the_handler_closes_only_its_connection() {
    let (log, interlock, executor) = executor();
    let app = Router::new()
        .route("/panics", on_get(async || -> () { panic!("the handler panics") }))
        .route("/", on_get(async || "hello"))
        .layer(ExecutorLayer::new(executor));
    let address = serve(app).await;
    let (mut client, _connection) = connect(address).await;
    assert!(client.send_request(path("/panics")).await.is_err());
    log.comes(&["run", "complete"]).await;
    let (mut client, _connection) = connect(address).await;
    assert!(client.send_request(path("/")).await.is_ok());
    before_long(|| interlock.dump().owners.is_empty()).await;
}

/// hyper without axum: a service of functions, whose body is not axum's.
#[tokio::test]
async fn the_layer_serves_hyper_alone() {
    let (log, _, executor) = executor();
    let service = ServiceBuilder::new().layer(ExecutorLayer::new(executor)).service(service_fn(
        async |_: Request<hyper::body::Incoming>| {
            Ok::<_, Infallible>(Response::new(http_body_util::Full::new(Bytes::from("hello"))))
        },
    ));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("it is bound");
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.expect("a client");
        let service = TowerToHyperService::new(service);
        hyper::server::conn::http1::Builder::new()
            .serve_connection(TokioIo::new(stream), service)
            .await
    });
    let (mut client, _connection) = connect(address).await;
    let response = client.send_request(path("/")).await.expect("an answer");
    assert_eq!(response.into_body().collect().await.expect("a body").to_bytes(), "hello");
    log.comes(&["run", "complete"]).await;
}

/// The compiler checks that axum takes each layer.
#[allow(dead_code, reason = "it only has to compile")]
fn axum_takes_the_layers(layer: ExecutorLayer, locks: cabrank_tower::DebugLocksLayer) -> Router {
    Router::new().route("/", on_get(async || Body::empty())).layer(layer).layer(locks)
}
