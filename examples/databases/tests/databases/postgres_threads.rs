//! A pool of threads' connections to a real PostgreSQL that is killed and restarted.

use crate::servers::{Kind, Server, before_long};
use databases::postgres_threads::pool;
use postgres::{Client, Config, NoTls};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread::{scope, sleep};
use std::time::Duration;

const MOMENT: Duration = Duration::from_millis(10);
const WHILE: Duration = Duration::from_millis(250);

fn config(server: &Server, application: &str) -> Config {
    let mut config = Config::new();
    config.host_path(&server.dir).user("postgres").dbname("postgres");
    config.application_name(application).connect_timeout(Duration::from_secs(5));
    config
}

fn process(client: &mut Client) -> Result<i32, postgres::Error> {
    Ok(client.query_one("SELECT pg_backend_pid()", &[])?.get(0))
}

/// 50 threads borrow while the server is killed and restarted. Once it is ready, each new borrow succeeds.
#[test]
fn a_server_is_restarted_under_load() {
    let mut server = Server::start(Kind::Postgres { max_connections: 30 });
    let pool = pool(config(&server, "pool"), 10).expect("valid");
    let (ends, is_back) = (AtomicBool::new(false), AtomicBool::new(false));
    let (served, failed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    scope(|scope| {
        for _ in 0..50 {
            scope.spawn(|| {
                while !ends.load(SeqCst) {
                    let is_new = is_back.load(SeqCst);
                    let done = pool.borrow().is_ok_and(|mut lent| process(&mut lent).is_ok());
                    if !done && is_new {
                        ends.store(true, SeqCst);
                        panic!("a borrow failed after the restart");
                    }
                    if done { &served } else { &failed }.fetch_add(1, SeqCst);
                    if !done {
                        sleep(MOMENT);
                    }
                }
            });
        }
        let rises = |number: &AtomicUsize| {
            let before = number.load(SeqCst);
            before_long(|| number.load(SeqCst) > before);
        };
        rises(&served);
        assert_eq!(failed.load(SeqCst), 0);
        server.kill();
        rises(&failed);
        server.restart();
        is_back.store(true, SeqCst);
        rises(&served);
        sleep(WHILE);
        ends.store(true, SeqCst);
    });
    assert_eq!((pool.num_active(), pool.num_waiting()), (0, 0));
    let mut admin = config(&server, "admin").connect(NoTls).expect("a server");
    let count = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pool'";
    before_long(|| {
        let there: i64 = admin.query_one(count, &[]).expect("a server").get(0);
        there == pool.num_total() as i64
    });
}

#[test]
fn a_backend_is_killed_under_a_loan() {
    let server = Server::start(Kind::Postgres { max_connections: 30 });
    let pool = pool(config(&server, "pool"), 2).expect("valid");
    let mut admin = config(&server, "admin").connect(NoTls).expect("a server");
    let mut lent = pool.borrow().expect("a connection");
    let first = process(&mut lent).expect("a server");
    admin.execute("SELECT pg_terminate_backend($1)", &[&first]).expect("a server");
    process(&mut lent).expect_err("its backend is gone");
    drop(lent);
    assert_eq!(pool.num_total(), 0, "its passivation failed");
    let mut lent = pool.borrow().expect("another");
    assert_ne!(process(&mut lent).expect("a server"), first);
}
