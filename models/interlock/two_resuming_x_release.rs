//! The end of a load meets two owners whose permit blocks have ended meanwhile: a task and a thread wait for their
//! shares.
//!
//! Guards that `State::admit` lets all owners of a queue go on, and wakes each. Otherwise one of them waits for ever.
//! Asserted: both have their shares back, and run only after the load.

use crate::models::interlock::rig::*;
use std::future::{pending, poll_fn};
use std::task::Poll;

/// Is pending at its first poll.
async fn pending_once() {
    let mut has_begun = false;
    poll_fn(move |_| match std::mem::replace(&mut has_begun, true) {
        true => Poll::Ready(()),
        false => Poll::Pending,
    })
    .await;
}

#[test]
fn interlock_two_resuming_x_release() {
    let ways = ["both waited", "the task waited"];
    explore(Model("interlock_two_resuming_x_release", 301), &ways, move |outcomes| {
        let (interlock, code) = (Interlock::new(), LoadedCode::new());
        let [mut a, mut b, mut c] = [(); 3].map(|()| owner(&interlock));
        let mut first = Box::pin(b.permit_loads_async(pending_once()));
        assert!(poll_once(first.as_mut()).is_pending());
        let mut second = Box::pin(async move {
            c.permit_loads_async(pending_once()).await.expect("no limit");
            c
        });
        assert!(poll_once(second.as_mut()).is_pending());
        let mut load = Box::pin(a.load_async(async |_| pending::<()>().await));
        assert!(poll_once(load.as_mut()).is_pending(), "it loads");
        assert!(poll_once(first.as_mut()).is_pending(), "it waits for its share");
        let theirs = code.clone();
        let thread = spawn(move || {
            let c = block_on(second);
            theirs.runs();
            assert!(c.has_share());
        });
        let waiting = in_state(&interlock, OwnerState::Resuming);
        outcomes.note(ways[2 - waiting]);
        code.alone("load");
        drop(load);
        block_on(first).expect("no limit");
        code.runs();
        assert!(b.has_share());
        thread.join().expect("no panic");
        drop((a, b));
        assert_free(&interlock, &code);
    });
}
