//! The pool is closed while a borrower takes over a creation that another left. The creation fails after the close.
//!
//! Guards the check of `closed` in `State::recreate`. Otherwise the borrower begins another creation, and a closed
//! pool lends its resource.
//!
//! Asserted: the borrower fails with `Closed`, at once or after the creation failed. No other creation begins, and
//! the pool ends empty.

use crate::models::resource_pool::rig::*;
use crate::models::rig::{block_on, poll_once};
use crate::sync::Mutex;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::task::{Poll, Waker};

/// Each creation waits at the gate. The first one then fails; all others succeed.
#[derive(Clone, Default)]
struct Failing {
    begun: Arc<AtomicU32>,
    polled: Arc<AtomicU32>,
    gate: Arc<Gate>,
}

struct Gate(Mutex<(bool, Option<Waker>)>);

impl Default for Gate {
    fn default() -> Self {
        Gate(Mutex::new((false, None)))
    }
}

impl AsyncResourceFactory for Failing {
    type Resource = ();
    type Metadata = ();
    type Error = &'static str;

    async fn create(&self, (): &()) -> Result<(), &'static str> {
        let number = self.begun.fetch_add(1, SeqCst) + 1;
        poll_fn(|cx| {
            self.polled.fetch_add(1, SeqCst);
            let mut gate = self.gate.0.lock();
            if gate.0 {
                return Poll::Ready(());
            }
            gate.1 = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
        if number == 1 { Err("on purpose") } else { Ok(()) }
    }
}

impl Failing {
    fn go_on(&self) {
        let waker = {
            let mut gate = self.gate.0.lock();
            gate.0 = true;
            gate.1.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

#[test]
fn resource_close_x_left_creation() {
    let expected = ["closed first", "taken over"];
    explore_small("resource_close_x_left_creation", &expected, |outcomes| {
        let failing = Failing::default();
        let pool = ResourcePool::builder(Async(failing.clone()), ());
        let pool = pool.max_active(1).build_async().expect("a valid pool");
        let theirs = pool.clone();
        let mut first = Box::pin(async move { theirs.borrow_async().await.map(drop) });
        assert!(poll_once(first.as_mut()).is_pending());
        drop(first);
        let theirs = pool.clone();
        let second = spawn(move || block_on(theirs.borrow_async()).map(drop));
        pool.close();
        failing.go_on();
        assert_eq!(second.join().expect("no panic"), Err(BorrowError::Closed));
        let taken_over = failing.polled.load(SeqCst) > 1;
        outcomes.note(if taken_over { "taken over" } else { "closed first" });
        assert_eq!(failing.begun.load(SeqCst), 1);
        assert!(pool.wait_closed(SECOND));
    });
}
