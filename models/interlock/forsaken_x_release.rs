//! A share is not back, because its future was dropped beside a holder, and several wait for it while the
//! holder releases.
//!
//! Guards the list of those who watch for a share (`State::watch`): everybody in it is woken. With one place for
//! all of them, the last who comes takes it, and the others sleep for ever. Asserted: whenever the holder
//! releases, both tasks go on, each woken if it waited.

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

/// Whether it has to wait.
fn waits<F: Future>(future: Pin<&mut F>, waker: &Waker) -> bool {
    future.poll(&mut Context::from_waker(waker)).is_pending()
}

/// The first one's share is given up for a load that is dropped while the other loads, on a thread of its own;
/// what is returned joins that.
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
            assert_eq!(woken[at].0.load(SeqCst), usize::from(waited[at]), "one sleeps on");
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

/// One that waits is dropped while the share is let in. Guards what is done with its waker, which uses the
/// interlock: it is dropped when the lock is released. Asserted: both ways are reached, and the share is back.
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
        a.load(|_| ()).expect("its share is back, and nobody else has one");
    });
}

/// A thread waits for it, and a task comes after it or before it. Guards the same, and that each
/// thread sleeps by a condition variable of its own. Asserted: both go on.
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
                panic!("nobody else has a share")
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
