//! Wakers of tasks that wait.

use crate::common::task::Task;
use crate::common::{Got, Rig, app};
use crate::user_code::{ON_PURPOSE, assert_usable, call_back};
use cabrank::WeakPool;
use cabrank::in_memory::InMemorySpawner;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};

/// Calls the pool back, and then panics if it is told to.
struct Meddling {
    pool: WeakPool<InMemorySpawner>,
    panics: bool,
    wakes: Arc<AtomicUsize>,
}

impl Wake for Meddling {
    fn wake(self: Arc<Self>) {
        if let Some(pool) = self.pool.upgrade() {
            call_back(&pool);
        }
        self.wakes.fetch_add(1, Ordering::SeqCst);
        assert!(!self.panics, "{ON_PURPOSE}");
    }
}

impl Drop for Meddling {
    fn drop(&mut self) {
        if let Some(pool) = self.pool.upgrade() {
            call_back(&pool);
        }
    }
}

#[test]
fn a_waker_may_call_the_pool_back_or_panic() {
    for panics in [false, true] {
        let rig = Rig::new(|b| b.max(1));
        let busy = rig.get(&app("x"));
        let wakes = Arc::new(AtomicUsize::new(0));
        let meddling = || {
            let (pool, wakes) = (rig.pool.downgrade(), wakes.clone());
            Waker::from(Arc::new(Meddling { pool, panics, wakes }))
        };
        let (mut first, mut second) = (rig.task(&app("x")), rig.task(&app("x")));
        assert!(first.poll_with(&meddling()).is_none());
        // Replaced by another: the former is dropped.
        assert!(first.poll_with(&meddling()).is_none());
        assert!(second.poll_with(&meddling()).is_none());
        busy.close();
        assert_eq!(wakes.load(Ordering::SeqCst), 1);
        // Served, and gives it up: the second is woken on the way.
        drop(first);
        assert_eq!(wakes.load(Ordering::SeqCst), 2);
        drop(second.poll().expect("it is ready").expect("a session"));
        rig.pool.detach_group("/srv/other");
        rig.eventually(|c| c.waiting == 0 && c.spawning == 0);
        assert_usable(&rig);
    }
}

struct PanicsWhenDropped;

impl Wake for PanicsWhenDropped {
    fn wake(self: Arc<Self>) {}
}

impl Drop for PanicsWhenDropped {
    fn drop(&mut self) {
        panic!("{ON_PURPOSE}");
    }
}

/// Wherever the last reference to it goes: with another waker in its place, with the task that was
/// served, with a task that gives up, with one that was served and gives up. As was found, the last
/// of them lost the session it had been given.
#[test]
fn a_waker_may_panic_when_it_is_dropped() {
    let waker = || Waker::from(Arc::new(PanicsWhenDropped));
    /// Polls with a waker of which the task then holds the last reference.
    fn poll(task: &mut Task<Got>, waker: Waker) {
        assert!(task.poll_with(&waker).is_none());
        drop_quietly(waker);
    }
    fn drop_quietly(waker: Waker) {
        // Not the last reference, if the task keeps one.
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(waker)));
    }
    let rig = Rig::new(|b| b.max(1));
    let busy = rig.get(&app("x"));

    let mut replaced = rig.task(&app("x"));
    poll(&mut replaced, waker());
    poll(&mut replaced, waker());
    drop(replaced);
    assert_eq!(rig.pool.counts().waiting, 0);

    let (mut served, mut gives_up) = (rig.task(&app("x")), rig.task(&app("x")));
    poll(&mut served, waker());
    poll(&mut gives_up, waker());
    busy.close();
    let session = served.poll_with(Waker::noop()).expect("it is ready").expect("a session");
    session.close();
    // It has been served by now, and passes the process on.
    drop(gives_up);
    rig.eventually(|c| c.active == 0 && c.waiting == 0);
    assert_usable(&rig);
}
