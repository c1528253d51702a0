//! A pool of connections to a real Redis that is killed and restarted.

use crate::servers::{Kind, Server};
use cabrank::resource_pool::{BorrowError, Failure};
use databases::redis_threads::pool;
use redis::Commands;

#[test]
fn a_server_is_restarted() {
    let mut server = Server::start(Kind::Redis);
    let address = format!("redis+unix://{}", server.dir.join("redis").display());
    let pool = pool(redis::Client::open(address).expect("an address"), 2).expect("valid");
    let (mut one, mut two) = (pool.borrow().expect("one"), pool.borrow().expect("two"));
    let _: () = one.set("a", 1).expect("a server");
    assert_eq!(two.get::<_, i32>("a").expect("a server"), 1);
    server.kill();
    one.get::<_, i32>("a").expect_err("no server");
    drop((one, two));
    assert!(matches!(pool.borrow(), Err(BorrowError::Create(Failure::Error(_)))));
    assert_eq!((pool.num_active(), pool.num_total()), (0, 0));
    server.restart();
    let mut lent = pool.borrow().expect("served at once");
    let _: () = lent.set("a", 2).expect("a server");
    assert_eq!(pool.num_total(), 1);
}
