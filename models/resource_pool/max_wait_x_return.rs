//! The time of a task's borrow passes while its resource comes back.
//!
//! Guards `Inner::in_time`: the end of the time wakes the borrower, which leaves the queue by its drop. Without that the borrower
//! waits on, or a grant is lost with it. Asserted: the borrower is served or times out, and the resource is idle in the end.

use crate::models::resource_pool::rig::*;
use crate::models::resource_pool::slow::*;
use std::pin::Pin;

#[test]
fn resource_max_wait_x_return() {
    explore(Model("resource_max_wait_x_return", 23_537), &["served", "timed out"], |outcomes| {
        let slow = Slow::new(Gate::Open);
        let hand = slow.hand.clone();
        let pool = ResourcePool::builder(Async(slow.clone()), ()).max_active(1).max_wait(SECOND);
        let pool: SlowPool = pool.build_on(Soon(hand.clone())).expect("a valid pool");
        // User code does not re-enter the pool here: the search would be too long.
        let first = slow.begin(borrow(pool.clone()));
        // The order comes before the timer, which ends with its borrow. A runtime that drops it has ended.
        let mut tasks = hand.take();
        let (timer, order) = (tasks.pop().expect("a timer"), tasks.pop().expect("an order"));
        slow.reentry.block_on(order);
        let lent = slow.reentry.block_on(first).expect("the first");
        slow.reentry.block_on(timer);
        drop(hand.take());

        let waits = slow.begin(borrow(pool.clone()));
        let mut timer = hand.take().pop().expect("the time of the borrow");
        let reentry = slow.reentry.clone();
        let time = spawn(move || {
            assert!(reentry.poll_once(Pin::new(&mut timer)).is_ready());
        });
        let reentry = slow.reentry.clone();
        let borrower = spawn(move || reentry.block_on(waits).map(drop));
        drop(lent);
        outcomes.note(match borrower.join().expect("no panic") {
            Ok(()) => "served",
            Err(BorrowError::TimedOut(_)) => "timed out",
            Err(error) => panic!("{error}"),
        });
        time.join().expect("no panic");
        assert_eq!((pool.num_active(), pool.num_idle(), pool.num_waiting()), (0, 1, 0));
        slow.end(&pool);
    });
}
