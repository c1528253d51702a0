//! A pool of tasks' connections to a real PostgreSQL that is killed, restarted and full.

use crate::servers::{Kind, Server};
use cabrank::periodic_executor::Tokio;
use cabrank::resource_pool::{BorrowError, Borrowed, Failure};
use databases::postgres_tasks::{Pool, options, pool};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};
use tokio::time::{sleep, timeout};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, NoTls};

const MOMENT: Duration = Duration::from_millis(10);
/// A loan takes longer than a connect. With shorter loans, most borrowers are served by a return while they connect,
/// and the pool drops most of these connects: the server's queue of new connections may then be full.
const HELD: Duration = Duration::from_millis(100);
const SECOND: Duration = Duration::from_secs(1);

fn config(server: &Server, application: &str) -> Config {
    let mut config = Config::new();
    config.host_path(&server.dir).user("postgres").dbname("postgres");
    config.application_name(application);
    config
}

/// Returns a connection beside the pool's. A full server may still be ending one of the pool's.
async fn admin(server: &Server) -> Client {
    let begin = Instant::now();
    loop {
        match config(server, "admin").connect(NoTls).await {
            Ok((client, connection)) => {
                tokio::spawn(connection);
                return client;
            }
            Err(error) => assert!(begin.elapsed() < 30 * SECOND, "{error:?}"),
        }
        sleep(MOMENT).await;
    }
}

async fn process(client: &Client) -> Result<i32, tokio_postgres::Error> {
    Ok(client.query_one("SELECT pg_backend_pid()", &[]).await?.get(0))
}

/// Waits until the server has as many connections of the pool's as the pool.
async fn agree(server: &Server, pool: &Pool) {
    let admin = admin(server).await;
    let count = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pool'";
    let begin = Instant::now();
    loop {
        let there: i64 = admin.query_one(count, &[]).await.expect("a server").get(0);
        if there == pool.num_total() as i64 {
            return;
        }
        assert!(begin.elapsed() < 30 * SECOND, "{there} there, {pool:?} here");
        sleep(MOMENT).await;
    }
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
    let mut server = Server::start(Kind::Postgres { max_connections: 100 });
    let pool = pool(config(&server, "pool"), 10).expect("valid");
    let (ends, is_back) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (served, failed) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let tasks: Vec<_> = (0..50)
        .map(|_| {
            let (pool, ends, is_back) = (pool.clone(), ends.clone(), is_back.clone());
            let (served, failed) = (served.clone(), failed.clone());
            tokio::spawn(async move {
                while !ends.load(SeqCst) {
                    let is_new = is_back.load(SeqCst);
                    let done = match pool.borrow_async().await {
                        Ok(connection) => {
                            sleep(HELD).await;
                            process(&connection).await.map_err(|error| format!("{error:?}"))
                        }
                        Err(why) => Err(format!("{why:?}")),
                    };
                    assert!(done.is_ok() || !is_new, "a borrow failed after the restart: {done:?}");
                    let done = done.is_ok();
                    if done { &served } else { &failed }.fetch_add(1, SeqCst);
                    if !done {
                        sleep(MOMENT).await;
                    }
                }
            })
        })
        .collect();
    rises(&served).await;
    assert_eq!(failed.load(SeqCst), 0);
    server.kill();
    rises(&failed).await;
    server.restart();
    is_back.store(true, SeqCst);
    let begin = Instant::now();
    rises(&served).await;
    println!("served again {:?} after the server was ready", begin.elapsed());
    sleep(SECOND / 4).await;
    ends.store(true, SeqCst);
    for task in tasks {
        task.await.expect("no borrow fails after the restart");
    }
    assert_eq!((pool.num_active(), pool.num_waiting()), (0, 0));
    assert!(pool.num_total() <= 10);
    agree(&server, &pool).await;
}

/// Each connect while the server is down is one borrower's error, and the first borrow after it is served.
#[tokio::test]
async fn the_first_borrow_after_an_outage_is_served() {
    let mut server = Server::start(Kind::Postgres { max_connections: 30 });
    let pool = pool(config(&server, "pool"), 4).expect("valid");
    let all = [pool.borrow_async().await, pool.borrow_async().await, pool.borrow_async().await];
    let all = all.map(|lent| lent.expect("a connection"));
    server.kill();
    drop(all);
    for _ in 0..3 {
        let why = pool.borrow_async().await.expect_err("no server");
        assert!(matches!(why, BorrowError::Create(Failure::Error(_))), "{why:?}");
    }
    assert_eq!((pool.num_active(), pool.num_total()), (0, 0));
    server.restart();
    let lent = pool.borrow_async().await.expect("served at once");
    process(&lent).await.expect("a server");
    assert_eq!(pool.num_total(), 1);
    drop(lent);
    agree(&server, &pool).await;
}

/// A borrower beyond the server's limit gets the server's error; its place is free again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_server_has_no_connection_left() {
    let server = Server::start(Kind::Postgres { max_connections: 8 });
    let pool = pool(config(&server, "pool"), 12).expect("valid");
    let borrow = |held: Duration| {
        let pool = pool.clone();
        tokio::spawn(async move {
            match pool.borrow_async().await {
                Ok(lent) => {
                    sleep(held).await;
                    process(&lent).await.map(drop)
                }
                Err(BorrowError::Create(Failure::Error(error))) => Err(error),
                Err(why) => panic!("{why:?}"),
            }
        })
    };
    // No more than the queue of new connections holds, which is twice `max_connections`.
    let (mut served, mut refused) = (0, 0);
    let crowd: Vec<_> = (0..12).map(|_| borrow(3 * SECOND)).collect();
    for borrower in crowd {
        match borrower.await.expect("no panic") {
            Ok(()) => served += 1,
            Err(error) if error.code() == Some(&SqlState::TOO_MANY_CONNECTIONS) => refused += 1,
            Err(error) => panic!("{error:?}"),
        }
    }
    assert!(served > 0 && refused > 0, "{served} served, {refused} refused");
    let there = pool.num_total();
    assert!(there <= 8 && (pool.num_active(), pool.num_idle()) == (0, there), "{pool:?}");
    // As many as there are connections are served again, and again.
    for _ in 0..3 {
        for borrower in (0..there).map(|_| borrow(MOMENT)).collect::<Vec<_>>() {
            borrower.await.expect("no panic").expect("an idle connection");
        }
    }
    Borrowed::invalidate(pool.borrow_async().await.expect("one"));
    agree(&server, &pool).await;
}

/// A backend is killed while its connection is lent, and then while it is idle.
#[tokio::test]
async fn a_backend_is_killed() {
    let server = Server::start(Kind::Postgres { max_connections: 30 });
    let (pool, admin) = (pool(config(&server, "pool"), 4).expect("valid"), admin(&server).await);
    let kill = async |backend: i32| {
        let killed = admin.query_one("SELECT pg_terminate_backend($1)", &[&backend]).await;
        assert!(killed.expect("a server").get::<_, bool>(0));
    };
    let lent = pool.borrow_async().await.expect("a connection");
    let first = process(&lent).await.expect("a server");
    kill(first).await;
    process(&lent).await.expect_err("its backend is gone");
    drop(lent);
    let lent = pool.borrow_async().await.expect("another");
    let second = process(&lent).await.expect("a server");
    assert_ne!(first, second);
    drop(lent);
    kill(second).await;
    let lent = pool.borrow_async().await.expect("another");
    let third = process(&lent).await.expect("a server");
    assert_ne!(second, third);
    drop(lent);
    assert_eq!((pool.num_active(), pool.num_total()), (0, 1));
    agree(&server, &pool).await;
}

/// The borrower gives up a query. Its connection is busy for longer than a passivation may take, and is replaced.
#[tokio::test]
async fn a_query_is_given_up() {
    let server = Server::start(Kind::Postgres { max_connections: 30 });
    let options = options(config(&server, "pool"), 1).passivate_timeout(SECOND / 4);
    let pool = options.build_on(Tokio::current()).expect("valid");
    let lent = pool.borrow_async().await.expect("a connection");
    let first = process(&lent).await.expect("a server");
    let query = lent.batch_execute("BEGIN; SELECT pg_sleep(600)");
    assert!(timeout(SECOND / 10, query).await.is_err(), "it takes ten minutes");
    drop(lent);
    let begin = Instant::now();
    let lent = pool.borrow_async().await.expect("another");
    assert!(begin.elapsed() < 4 * SECOND, "it does not wait for the query");
    assert_ne!(process(&lent).await.expect("a server"), first);
    // A transaction that is left open ends with the loan.
    lent.batch_execute("BEGIN; CREATE TABLE t (n int)").await.expect("a server");
    Borrowed::put_back(lent).await;
    let lent = pool.borrow_async().await.expect("the same");
    lent.batch_execute("SELECT n FROM t").await.expect_err("it was rolled back");
    drop(lent);
    // The destruction of the first has ended the query, and with it the server's process.
    agree(&server, &pool).await;
}
