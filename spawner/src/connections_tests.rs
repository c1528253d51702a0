//! The pool of connections, against a process that accepts connections and waits for their end.

use super::*;
use cabrank::ManualClock;
use std::pin::pin;
use std::task::{Context, Waker};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};

struct App {
    endpoint: Arc<Endpoint>,
    connections: Connections,
    clock: ManualClock,
    listener: UnixListener,
    _dir: TempDir,
}

impl App {
    fn start() -> App {
        let clock = ManualClock::new();
        let pool = options().clock(clock.clock()).build_async().unwrap();
        App::with_pool(pool, clock)
    }

    fn with_pool(pool: Pool, clock: ManualClock) -> App {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let identifier = Identifier::from_u64(1);
        let connections = Connections { pool, cores: 2, leaving: Arc::new(Leaving::new()) };
        let endpoint = connections.endpoint(identifier, Address::Unix(path), IdleEnd::Server);
        App { endpoint, connections, clock, listener, _dir: dir }
    }

    async fn borrow(&self) -> Lent {
        self.connections.borrow(&self.endpoint, 0).await.unwrap()
    }

    async fn accept(&self) -> UnixStream {
        self.listener.accept().await.unwrap().0
    }

    fn idle(&self) -> usize {
        self.connections.idle_counts().get(&self.endpoint.identifier).copied().unwrap_or(0)
    }
}

/// Asserts that the server closes its side.
async fn expect_closed(mut connection: UnixStream) {
    let read = tokio::time::timeout(Duration::from_secs(10), connection.read(&mut [0; 1])).await;
    // Bytes that the server has not read make the close a reset.
    assert_eq!(read.expect("the connection stays open").unwrap_or(0), 0);
}

#[tokio::test]
async fn keep_returns_a_connection_and_drop_closes_it() {
    let app = App::start();
    app.borrow().await.keep();
    let first = app.accept().await;
    assert_eq!(app.idle(), 1);
    let again = app.borrow().await;
    assert!(again.has_served());
    assert_eq!(app.idle(), 0);
    drop(again);
    expect_closed(first).await;
    assert!(!app.borrow().await.has_served());
}

#[tokio::test]
async fn a_core_uses_only_its_own_connections() {
    let app = App::start();
    app.borrow().await.keep();
    let _first = app.accept().await;
    let other = app.connections.borrow(&app.endpoint, 1).await.unwrap();
    assert!(!other.has_served());
    other.keep();
    assert_eq!(app.idle(), 2);
}

#[tokio::test]
async fn a_connection_that_the_process_has_closed_is_not_lent() {
    let app = App::start();
    let (one, two) = (app.borrow().await, app.borrow().await);
    let (first, second) = (app.accept().await, app.accept().await);
    one.keep();
    two.keep(); // it is lent first
    drop(second);
    tokio::time::sleep(Duration::from_millis(10)).await; // the runtime learns of it
    assert!(app.borrow().await.has_served());
    assert_eq!(app.idle(), 0);
    expect_closed(first).await;
}

#[tokio::test]
async fn connections_are_closed_with_their_process_even_if_returned_later() {
    let app = App::start();
    let (one, two) = (app.borrow().await, app.borrow().await);
    let (first, second) = (app.accept().await, app.accept().await);
    one.keep();
    app.endpoint.set_exited();
    app.connections.close_idle(&app.endpoint);
    expect_closed(first).await;
    two.keep();
    assert_eq!(app.idle(), 0);
    expect_closed(second).await;
}

#[tokio::test]
async fn maintenance_closes_a_connection_that_is_idle_for_too_long() {
    let app = App::start();
    let pool = &app.connections.pool;
    assert_eq!(pool.maintain_async().await, None);
    app.borrow().await.keep();
    let connection = app.accept().await;
    assert_eq!(pool.maintain_async().await, Some(MAX_IDLE_TIME));
    app.clock.advance(MAX_IDLE_TIME / 2);
    assert_eq!(pool.maintain_async().await, Some(MAX_IDLE_TIME / 2));
    assert_eq!(app.idle(), 1);
    app.clock.advance(MAX_IDLE_TIME / 2);
    assert_eq!(pool.maintain_async().await, None);
    assert_eq!(app.idle(), 0);
    expect_closed(connection).await;
}

#[tokio::test]
async fn maintenance_runs_as_a_task_of_the_runtime() {
    const SOON: Duration = Duration::from_millis(20);
    let pool = options().max_idle_time(SOON).build_async().unwrap();
    tokio::spawn(maintain(pool.downgrade(), SOON));
    let app = App::with_pool(pool, ManualClock::new());
    for _ in 0..3 {
        app.borrow().await.keep();
        expect_closed(app.accept().await).await;
        assert_eq!(app.idle(), 0);
    }
}

#[tokio::test]
async fn the_number_of_idle_connections_is_limited() {
    let app = App::start();
    let mut all = Vec::new();
    for _ in 0..MAX_IDLE + 3 {
        all.push((app.borrow().await, app.accept().await));
    }
    let (lent, _connections): (Vec<_>, Vec<_>) = all.into_iter().unzip();
    lent.into_iter().for_each(Lent::keep);
    assert_eq!(app.idle(), MAX_IDLE);
}

#[tokio::test]
async fn a_connection_still_being_opened_ends_with_its_client() {
    let mut app = App::start();
    app.connections = Connections::new(Handle::current(), 1).unwrap();
    rustix::net::listen(&app.listener, 0).unwrap(); // one connection fills the queue
    let _one = app.borrow().await;
    {
        let abandoned = pin!(app.connections.borrow(&app.endpoint, 0));
        let polled = abandoned.poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending());
    }
    let pool = &app.connections.pool;
    assert_eq!((app.idle(), pool.num_idle(), pool.num_total()), (0, 0, 1));
}

/// A core opens its connections itself: another core would have the events of each of them, and pass them on.
#[test]
fn a_connection_is_opened_by_the_core_that_borrows_it() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (core, elsewhere) = (runtime(), runtime());
    core.block_on(async {
        let mut app = App::start();
        // No thread is in this runtime.
        app.connections = Connections::new(elsewhere.handle().clone(), 1).unwrap();
        let borrowed = tokio::time::timeout(Duration::from_secs(30), app.borrow()).await;
        borrowed.expect("the core opens it").keep();
        assert_eq!(app.idle(), 1);
    });
}

#[tokio::test]
async fn a_refused_connection_is_the_processs_fault() {
    let App { endpoint, connections, listener, _dir, .. } = App::start();
    drop(listener);
    let error = connections.borrow(&endpoint, 0).await.unwrap_err();
    assert!(!error.is_local(), "{error}");
}

#[tokio::test]
async fn a_detached_connection_leaves_the_pool() {
    let app = App::start();
    let one = app.borrow().await;
    assert!(one.detach().is_some());
    assert_eq!((app.idle(), app.connections.pool.num_total()), (0, 0));
}

#[tokio::test]
async fn a_connection_that_the_process_may_close_is_not_used_after_a_pause() {
    let mut app = App::start();
    let address = Address::clone(&app.endpoint.address);
    let identifier = app.endpoint.identifier;
    app.endpoint = app.connections.endpoint(identifier, address, IdleEnd::Process);
    app.borrow().await.keep();
    while app.idle() == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let mut again = app.borrow().await;
    assert!(again.has_served());
    let kept = again.connection.as_mut().expect(PRESENT);
    kept.idle_since = Instant::now().checked_sub(MAX_FOREIGN_IDLE_TIME * 2);
    assert!(kept.may_be_closed());
    kept.idle_since = None;
    assert!(!kept.may_be_closed());
}

/// Bytes behind the end of an answer, as they come from a program that sends a body to HEAD.
#[tokio::test(start_paused = true)]
async fn late_bytes_of_a_foreign_process_end_its_connection() {
    let mut app = App::start();
    let address = Address::clone(&app.endpoint.address);
    let identifier = app.endpoint.identifier;
    app.endpoint = app.connections.endpoint(identifier, address, IdleEnd::Process);
    // During the rest.
    app.borrow().await.keep();
    let mut process = app.accept().await;
    assert_eq!(app.idle(), 0, "the connection rests");
    process.write_all(b"HTTP/1.1 200 OK").await.unwrap();
    expect_closed(process).await;
    assert_eq!(app.idle(), 0);
    // Between two requests, without a look of the runtime.
    app.borrow().await.keep();
    let process = app.accept().await;
    while app.idle() == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(process.try_write(b"HTTP/1.1 200 OK").is_ok());
    assert!(
        !app.borrow().await.has_served(),
        "a used connection with bytes that no request has asked for"
    );
    expect_closed(process).await;
}
