//! Wakers of tasks that wait.

use crate::common::task::Task;
use crate::common::{Got, Rig, app};
use crate::user_code::{ON_PURPOSE, assert_usable, call_back};
use cabrank::application_pool::WeakPool;
use cabrank::in_memory::InMemorySpawner;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};

/// Calls the pool back, and then panics if the test asked for it.
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
        let calling_back = || {
            let (pool, wakes) = (rig.pool.downgrade(), wakes.clone());
            Waker::from(Arc::new(Meddling { pool, panics, wakes }))
        };
        let (mut first, mut second) = (rig.task(&app("x")), rig.task(&app("x")));
        assert!(first.poll_with(&calling_back()).is_none());
        // A second poll replaces the waker and drops the former.
        assert!(first.poll_with(&calling_back()).is_none());
        assert!(second.poll_with(&calling_back()).is_none());
        drop(busy);
        assert_eq!(wakes.load(Ordering::SeqCst), 1);
        // The first task is served and dropped: that wakes the second.
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

/// The last reference may go when another waker replaces it, or when its task is served, gives up,
/// or is served and gives up. An earlier version lost the granted session in the last case.
#[test]
fn a_waker_may_panic_when_it_is_dropped() {
    let waker = || Waker::from(Arc::new(PanicsWhenDropped));
    /// Polls with a waker whose last reference the task then holds.
    fn poll(task: &mut Task<Got>, waker: Waker) {
        assert!(task.poll_with(&waker).is_none());
        drop_quietly(waker);
    }
    fn drop_quietly(waker: Waker) {
        // If the task keeps a reference, this is not the last one.
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
    drop(busy);
    let session = served.poll_with(Waker::noop()).expect("it is ready").expect("a session");
    drop(session);
    // The task was served by now, and passes the process on.
    drop(gives_up);
    rig.eventually(|c| c.active == 0 && c.waiting == 0);
    assert_usable(&rig);
}
