//! Against a process that accepts connections and waits for their end.

use super::*;
use crate::app::handshake::Protocol;
use cabrank::ManualClock;
use std::pin::pin;
use std::task::{Context, Waker};
use tempfile::TempDir;
use tokio::io::AsyncReadExt;
use tokio::net::{UnixListener, UnixStream};

struct App {
    info: Arc<AppInfo>,
    clock: ManualClock,
    listener: UnixListener,
    _dir: TempDir,
}

impl App {
    fn start() -> App {
        let clock = ManualClock::new();
        let pool = options().clock(clock.clock()).build_async().unwrap();
        App::by(pool, clock)
    }

    fn by(pool: Pool, clock: ManualClock) -> App {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let (_, control) = UnixStream::pair().unwrap().0.into_split();
        let info = AppInfo {
            pid: 0,
            key: ProcessKey { identifier: Identifier::from_u64(1), address: Address::Unix(path) },
            protocol: Protocol::HttpSession,
            concurrency: 0,
            password: String::new(),
            control,
            leave: tokio::sync::Notify::new(),
            hurry: false.into(),
            exited: false.into(),
            connections: Connections(pool),
        };
        App { info: Arc::new(info), clock, listener, _dir: dir }
    }

    /// As after an exchange that is over: ready for the next.
    async fn borrow(&self) -> Lent {
        let mut lent = self.info.connections.borrow(&self.info, false).await.unwrap();
        lent.sender().ready().await.unwrap();
        lent
    }

    async fn accept(&self) -> UnixStream {
        self.listener.accept().await.unwrap().0
    }

    fn kept(&self) -> usize {
        self.info.connections.kept().get(&self.info.key.identifier).copied().unwrap_or(0)
    }
}

/// The agent closes its side.
async fn ends(mut connection: UnixStream) {
    let read = tokio::time::timeout(Duration::from_secs(10), connection.read(&mut [0; 1])).await;
    assert_eq!(read.expect("it stays open").unwrap(), 0);
}

#[tokio::test]
async fn one_that_is_kept_is_lent_again_and_one_that_is_dropped_is_closed() {
    let app = App::start();
    app.borrow().await.keep();
    let first = app.accept().await;
    assert_eq!(app.kept(), 1);
    let again = app.borrow().await;
    assert!(again.has_served());
    assert_eq!(app.kept(), 0);
    drop(again);
    ends(first).await;
    assert!(!app.borrow().await.has_served());
}

#[tokio::test]
async fn one_after_which_the_process_closes_is_not_kept() {
    let app = App::start();
    let mut last = app.borrow().await;
    let connection = app.accept().await;
    last.close_after();
    last.keep();
    assert_eq!(app.kept(), 0);
    ends(connection).await;
}

#[tokio::test]
async fn one_that_the_process_has_closed_is_passed_over() {
    let app = App::start();
    let (one, two) = (app.borrow().await, app.borrow().await);
    let (first, second) = (app.accept().await, app.accept().await);
    one.keep();
    two.keep(); // on top
    drop(second);
    // Nothing has run in between that could have told the runtime.
    assert!(app.borrow().await.has_served());
    assert_eq!(app.kept(), 0);
    ends(first).await;
}

#[tokio::test]
async fn afresh_means_that_none_is_used_that_was_kept() {
    let app = App::start();
    app.borrow().await.keep();
    let first = app.accept().await;
    let fresh = app.info.connections.borrow(&app.info, true).await.unwrap();
    assert!(!fresh.has_served());
    ends(first).await;
}

#[tokio::test]
async fn they_are_closed_with_their_process_and_none_comes_back_later() {
    let app = App::start();
    let (one, two) = (app.borrow().await, app.borrow().await);
    let (first, second) = (app.accept().await, app.accept().await);
    one.keep();
    app.info.exited.store(true, Ordering::Release);
    app.info.connections.close_kept(&app.info.key);
    ends(first).await;
    two.keep();
    assert_eq!(app.kept(), 0);
    ends(second).await;
}

#[tokio::test]
async fn one_that_is_idle_for_too_long_is_closed() {
    let app = App::start();
    let pool = &app.info.connections.0;
    assert_eq!(pool.maintain_async().await, None);
    app.borrow().await.keep();
    let connection = app.accept().await;
    assert_eq!(pool.maintain_async().await, Some(MAX_IDLE_TIME));
    app.clock.advance(MAX_IDLE_TIME / 2);
    assert_eq!(pool.maintain_async().await, Some(MAX_IDLE_TIME / 2));
    assert_eq!(app.kept(), 1);
    app.clock.advance(MAX_IDLE_TIME / 2);
    assert_eq!(pool.maintain_async().await, None);
    assert_eq!(app.kept(), 0);
    ends(connection).await;
}

#[tokio::test]
async fn a_task_of_the_runtime_sees_to_it() {
    let soon = options().max_idle_time(Duration::from_millis(20));
    let pool = soon.build_on(Tokio(Handle::current())).unwrap();
    let app = App::by(pool, ManualClock::new());
    for _ in 0..3 {
        app.borrow().await.keep();
        ends(app.accept().await).await;
        assert_eq!(app.kept(), 0);
    }
}

#[tokio::test]
async fn no_more_are_kept_than_are_worth_it() {
    let app = App::start();
    let mut all = Vec::new();
    for _ in 0..MAX_KEPT + 3 {
        all.push((app.borrow().await, app.accept().await));
    }
    let (lent, _connections): (Vec<_>, Vec<_>) = all.into_iter().unzip();
    lent.into_iter().for_each(Lent::keep);
    assert_eq!(app.kept(), MAX_KEPT);
}

/// Its client has left.
#[tokio::test]
async fn one_that_is_still_being_opened_is_not_kept_yet() {
    let app = App::start();
    rustix::net::listen(&app.listener, 0).unwrap(); // one fills its queue
    let _one = app.borrow().await;
    {
        let leaves = pin!(app.info.connections.borrow(&app.info, false));
        let polled = leaves.poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending());
    }
    let pool = &app.info.connections.0;
    assert_eq!((app.kept(), pool.num_idle(), pool.num_total()), (0, 1, 2));
    // Whoever comes next goes on with it.
    let _first = app.accept().await;
    app.borrow().await.keep();
    assert_eq!((app.kept(), pool.num_total()), (1, 2));
}

#[tokio::test]
async fn a_process_that_refuses_is_at_fault() {
    let App { info, listener, _dir, .. } = App::start();
    drop(listener);
    let error = info.connections.borrow(&info, false).await.unwrap_err();
    assert!(!error.is_local(), "{error}");
}

#[tokio::test]
async fn a_connection_is_its_own_when_it_has_become_something_else() {
    let app = App::start();
    let one = app.borrow().await;
    one.detach();
    assert_eq!((app.kept(), app.info.connections.0.num_total()), (0, 0));
}
