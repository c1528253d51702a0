use super::common::Script;
use cabrank::resource_pool::{BorrowError, KeyedResourcePool, ResourcePool};
use std::time::Duration;

#[test]
fn lends_and_takes_back() {
    let script = Script::default();
    let pool = ResourcePool::builder(script.clone(), "m").max_active(2).build().expect("valid");
    let a = pool.borrow().expect("one");
    let b = pool.borrow().expect("two");
    assert_eq!(pool.try_borrow().unwrap_err(), BorrowError::WouldBlock);
    assert_eq!(pool.borrow_timeout(Duration::from_millis(5)).unwrap_err(), BorrowError::TimedOut);
    let waiter = std::thread::spawn({
        let pool = pool.clone();
        move || pool.borrow().expect("handed over").number
    });
    while pool.num_waiting() == 0 {
        std::thread::yield_now();
    }
    drop(a);
    assert_eq!(waiter.join().expect("no panic"), 1);
    b.invalidate();
    assert_eq!((pool.num_active(), pool.num_idle(), pool.num_total()), (0, 1, 1));
    pool.close();
    assert_eq!(script.alive(), 0);
    assert!(pool.wait_closed(Duration::ZERO));
}

#[test]
fn makes_room_for_another_key() {
    let script = Script::default();
    let pool = KeyedResourcePool::builder(script.clone()).max_total(2).build().expect("valid");
    let a = pool.borrow(&"a").expect("a");
    drop(pool.borrow(&"b").expect("b"));
    let c = pool.borrow(&"c").expect("c");
    assert_eq!(script.most_alive(), 2);
    assert_eq!(pool.num_keys(), 2);
    let waiter = std::thread::spawn({
        let pool = pool.clone();
        move || pool.borrow(&"d").expect("handed over").number
    });
    while pool.num_waiting() == 0 {
        std::thread::yield_now();
    }
    drop(a);
    waiter.join().expect("no panic");
    assert_eq!(script.most_alive(), 2);
    drop(c);
    pool.clear();
    assert_eq!((script.alive(), pool.num_keys()), (0, 0));
}
