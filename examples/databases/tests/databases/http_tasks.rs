//! A pool of tasks' connections to an HTTP server that is killed and restarted.

use bytes::Bytes;
use cabrank::resource_pool::{BorrowError, Borrowed, Failure};
use databases::http_tasks::{Connections, Error, Pool, pool};
use http_body_util::{BodyExt, Full};
use hyper::Request;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::time::sleep;

const MOMENT: Duration = Duration::from_millis(10);
const SECOND: Duration = Duration::from_secs(1);

/// A server on a runtime of its own: the end of the runtime closes all connections.
struct Server {
    port: u16,
    open: Arc<AtomicUsize>,
    runtime: Option<Runtime>,
}

impl Server {
    fn start() -> Server {
        let mut server = Server { port: 0, open: Arc::default(), runtime: None };
        server.restart();
        server
    }
    fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }
    fn kill(&mut self) {
        self.runtime.take().expect("it runs").shutdown_background();
    }
    fn restart(&mut self) {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let listener = std::net::TcpListener::bind(self.address()).expect("its port is free");
        self.port = listener.local_addr().expect("bound").port();
        listener.set_nonblocking(true).expect("a socket");
        let open = self.open.clone();
        runtime.spawn(async move {
            let listener = TcpListener::from_std(listener).expect("a socket");
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Open::new(&open)));
            }
        });
        self.runtime = Some(runtime);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.runtime.is_some() {
            self.kill();
        }
    }
}

/// Counts a connection while it is open.
struct Open(Arc<AtomicUsize>);

impl Open {
    fn new(open: &Arc<AtomicUsize>) -> Open {
        open.fetch_add(1, SeqCst);
        Open(open.clone())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

async fn serve(mut stream: TcpStream, _open: Open) {
    let mut request = Vec::new();
    while stream.read_buf(&mut request).await.is_ok_and(|read| read > 0) {
        if request.ends_with(b"\r\n\r\n") {
            request.clear();
            sleep(MOMENT / 2).await;
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";
            if stream.write_all(answer).await.is_err() {
                return;
            }
        }
    }
}

type Lent<'a> = Borrowed<'a, cabrank::resource_pool::Async<Connections>>;

async fn request(connection: &mut Lent<'_>) -> Result<Bytes, Error> {
    let request = Request::get("/").header("host", "example.org").body(Full::default())?;
    let response = connection.send_request(request).await?;
    Ok(response.into_body().collect().await?.to_bytes())
}

async fn get(pool: &Pool) -> Result<Bytes, String> {
    let mut connection = pool.borrow_async().await.map_err(|why| format!("{why:?}"))?;
    let answer = request(&mut connection).await.map_err(|why| format!("{why:?}"));
    Borrowed::put_back(connection).await;
    answer
}

/// Waits until the number rises.
async fn rises(number: &AtomicUsize) {
    let (begin, before) = (Instant::now(), number.load(SeqCst));
    while number.load(SeqCst) == before {
        assert!(begin.elapsed() < 30 * SECOND, "it does not rise");
        sleep(Duration::from_millis(1)).await;
    }
}

/// 50 tasks borrow while the server is killed and restarted. Once it is ready, each new borrow succeeds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_is_restarted_under_load() {
    let mut server = Server::start();
    let pool = pool(server.address(), 10).expect("valid");
    let (ends, is_back) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (served, failed) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let start = |_| {
        let (pool, ends, is_back) = (pool.clone(), ends.clone(), is_back.clone());
        let (served, failed) = (served.clone(), failed.clone());
        tokio::spawn(async move {
            while !ends.load(SeqCst) {
                let is_new = is_back.load(SeqCst);
                let answer = get(&pool).await;
                assert!(answer.is_ok() || !is_new, "a request failed after it: {answer:?}");
                if answer.is_ok() { &served } else { &failed }.fetch_add(1, SeqCst);
                if answer.is_err() {
                    sleep(MOMENT).await;
                }
            }
        })
    };
    let tasks: Vec<_> = (0..50).map(start).collect();
    rises(&served).await;
    assert_eq!(failed.load(SeqCst), 0);
    server.kill();
    rises(&failed).await;
    // Until the pool has none of the old connections.
    while server.open.load(SeqCst) > 0 {
        sleep(MOMENT).await;
    }
    sleep(5 * MOMENT).await;
    server.restart();
    is_back.store(true, SeqCst);
    let begin = Instant::now();
    rises(&served).await;
    println!("served again {:?} after the server was ready", begin.elapsed());
    sleep(SECOND / 4).await;
    ends.store(true, SeqCst);
    for task in tasks {
        task.await.expect("no request fails after the restart");
    }
    assert_eq!((pool.num_active(), pool.num_waiting()), (0, 0));
    assert!(pool.num_total() <= 10);
    let begin = Instant::now();
    while server.open.load(SeqCst) != pool.num_total() {
        assert!(begin.elapsed() < 30 * SECOND, "{} open, {pool:?}", server.open.load(SeqCst));
        sleep(MOMENT).await;
    }
}

/// A connection is used again, an outage is one borrower's error, and the first borrow after it is served.
#[tokio::test]
async fn connections_are_kept_and_replaced() {
    let mut server = Server::start();
    let pool = pool(server.address(), 4).expect("valid");
    for _ in 0..3 {
        assert_eq!(get(&pool).await.expect("a server"), "hello");
    }
    assert_eq!((pool.num_total(), server.open.load(SeqCst)), (1, 1));
    server.kill();
    while server.open.load(SeqCst) > 0 {
        sleep(MOMENT).await;
    }
    sleep(MOMENT).await;
    let why = pool.borrow_async().await.expect_err("no server");
    assert!(matches!(why, BorrowError::Create(Failure::Error(_))), "{why:?}");
    assert_eq!((pool.num_active(), pool.num_total()), (0, 0));
    server.restart();
    assert_eq!(get(&pool).await.expect("a server"), "hello");
    assert_eq!(pool.num_total(), 1);
}
