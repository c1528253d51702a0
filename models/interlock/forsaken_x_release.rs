//! A share was given up by a dropped future and is not back yet. Several callers wait for it while the holder
//! releases.
//!
//! Guards the list of watchers of a share (`State::watch`): each of them is woken. With one place for all of them,
//! the last to come takes it, and the others sleep for ever. Asserted: whenever the holder releases, both tasks go
//! on, and each that waited was woken.

use crate::execution::interlock::Running;
use crate::models::interlock::cancel_x_grant::Reenters;
use crate::models::interlock::rig::*;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Wake, Waker};

#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// Polls once, and returns whether the future has to wait.
fn waits<F: Future>(future: Pin<&mut F>, waker: &Waker) -> bool {
    future.poll(&mut Context::from_waker(waker)).is_pending()
}

/// Lets `a` give up its share for a load, and drops that load while `b` loads on a thread of its own. The result
/// joins that thread.
fn forsake(a: &mut Running<'_>, mut b: Running<'static>) -> impl FnOnce() + use<> {
    let mut load = Box::pin(a.load_async());
    assert!(poll_once(load.as_mut()).is_pending());
    let (holds, ends) = (Bell::new(), Bell::new());
    let theirs = (holds.clone(), ends.clone());
    let thread = spawn(move || {
        let section = || {
            theirs.0.ring();
            theirs.1.wait(1);
        };
        b.load(|_| section()).expect("no deadlock");
    });
    holds.wait(1);
    drop(load);
    ends.ring();
    move || thread.join().expect("no panic")
}

#[test]
fn interlock_forsaken_x_release() {
    let expected = ["both have waited", "neither has waited", "one has waited"];
    explore("interlock_forsaken_x_release", &expected, move |outcomes| {
        let interlock = Interlock::new();
        let (mut a, b) = (interlock.enter(), interlock.enter());
        let join = forsake(&mut a, b);
        let woken = [(); 2].map(|()| Arc::new(Woken::default()));
        let wakers = woken.each_ref().map(|woken| Waker::from(woken.clone()));
        let mut tasks = [(); 2].map(|()| Box::pin(a.waiting_async(async {})));
        let waited = [0, 1].map(|at| waits(tasks[at].as_mut(), &wakers[at]));
        join();
        for at in [0, 1] {
            assert_eq!(woken[at].0.load(SeqCst), usize::from(waited[at]), "a watcher sleeps on");
            assert!(!waited[at] || !waits(tasks[at].as_mut(), &wakers[at]), "it is back");
        }
        outcomes.note(match waited {
            [true, true] => expected[0],
            [false, false] => expected[1],
            _ => expected[2],
        });
        drop(tasks);
        assert!(a.has_share());
    });
}

/// A watcher is dropped while the share is let in. Guards that its waker, which calls the interlock, is dropped
/// without the lock. Asserted: both ways are reached, and the share is back.
#[test]
fn interlock_forsaken_x_drop() {
    let expected = ["dropped waiting", "it is back"];
    explore("interlock_forsaken_x_drop", &expected, move |outcomes| {
        let interlock = Interlock::new();
        let (mut a, b) = (interlock.enter(), interlock.enter());
        let join = forsake(&mut a, b);
        {
            let mut task = Box::pin(a.waiting_async(async {}));
            let waker = Waker::from(Arc::new(Reenters(interlock.clone())));
            let waited = waits(task.as_mut(), &waker);
            outcomes.note(expected[usize::from(!waited)]);
        }
        join();
        a.load(|_| ()).expect("its share is back, and is the only one");
    });
}

/// A thread waits for the share, and a task comes after it or before it. Guards the same list, and that each thread
/// sleeps on a condition variable of its own. Asserted: both go on.
#[test]
fn interlock_forsaken_x_thread() {
    explore("interlock_forsaken_x_thread", &["the task was woken"], |outcomes| {
        let interlock = Interlock::new();
        let (mut a, mut b) = (interlock.enter(), interlock.enter());
        let loading = {
            let mut load = Box::pin(a.load_async());
            assert!(poll_once(load.as_mut()).is_pending());
            let mut loading = Box::pin(b.load_async());
            let std::task::Poll::Ready(guard) = poll_once(loading.as_mut()) else {
                panic!("the load is alone")
            };
            guard.expect("no deadlock")
        };
        let a = Arc::new(a);
        let theirs = a.clone();
        let thread = spawn(move || theirs.waiting(|| ()).expect("no deadlock"));
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(woken.clone());
        let mut task = Box::pin(a.waiting_async(async {}));
        assert!(waits(task.as_mut(), &waker), "b holds");
        drop(loading);
        assert_eq!(woken.0.load(SeqCst), 1);
        assert!(!waits(task.as_mut(), &waker));
        outcomes.note("the task was woken");
        drop(task);
        thread.join().expect("no panic");
    });
}
