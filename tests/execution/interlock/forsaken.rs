//! A share that has not come back: its future was dropped while another owner held. Each caller that needs the
//! share waits for it independently, until its own deadline, but never for itself.

use crate::common::task::Task;
use crate::common::{SECOND, before_long, soon};
use crate::interlock::actor::{Doing, start, until};
use crate::polling::poll;
use cabrank::execution::interlock::OwnerState::{Loading, Resuming, WaitingToLoad};
use cabrank::execution::interlock::{AcquireError, Running};
use cabrank::{Interlock, ManualClock};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{Sender, channel};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// Loads until the test sends.
struct Holder(Doing<()>, Sender<()>);

impl Holder {
    /// Begins to load while a load of this execution waits. That load is then dropped.
    #[track_caller]
    fn beside(interlock: &Interlock, running: &mut Running<'_>) -> Holder {
        let third = interlock.enter();
        let (release, wait) = channel::<()>();
        let other = interlock.clone();
        let holds = start(move || {
            other.run(|r| r.load(|_| wait.recv().expect("the test sends"))).expect("no deadlock");
        });
        until(interlock, WaitingToLoad, 1);
        let mut load = pin!(running.load_async());
        assert!(poll(load.as_mut()).is_pending());
        drop(third);
        until(interlock, Loading, 1);
        Holder(holds, release)
    }
    #[track_caller]
    fn release(self) {
        self.1.send(()).expect("the receiver waits");
        self.0.done();
    }
}

#[derive(Default)]
struct Wakes(AtomicUsize);
impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

struct Counted;
impl Wake for Counted {
    fn wake(self: Arc<Self>) {}
}

/// Regression: the second task took the place of the first, which slept on.
#[test]
fn two_tasks_that_wait_for_one_share_are_both_woken() {
    let interlock = Interlock::new();
    let mut running = interlock.enter();
    let holder = Holder::beside(&interlock, &mut running);
    let running = Arc::new(running);
    let mut tasks = [(); 2].map(|()| {
        let running = running.clone();
        Task::new(async move { running.waiting_async(async {}).await })
    });
    assert!(tasks.iter_mut().all(|task| task.poll().is_none()));
    // Poll with another waker, and with the first waker again.
    assert!(tasks[1].poll_with(Waker::noop()).is_none() && tasks[1].poll().is_none());
    holder.release();
    before_long(|| tasks.iter().all(|task| task.wakes() == 1));
    assert!(tasks.iter_mut().all(|task| task.poll().is_some_and(|waited| waited.is_ok())));
    assert!(running.has_share());
}

/// Tasks come and leave in any order. Each remaining one is woken once, and the others are not woken.
#[test]
fn a_waiter_for_a_share_that_leaves_does_not_affect_the_others() {
    let interlock = Interlock::new();
    let mut running = interlock.enter();
    let holder = Holder::beside(&interlock, &mut running);
    let running = Arc::new(running);
    let waits = || {
        let running = running.clone();
        let mut task = Box::pin(async move { running.waiting_async(async {}).await });
        let wakes = Arc::new(Wakes::default());
        let waker = Waker::from(wakes.clone());
        assert!(task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        (wakes, Some(task))
    };
    let mut tasks: Vec<_> = (0..40).map(|_| waits()).collect();
    for (_, left) in tasks.iter_mut().step_by(3) {
        *left = None;
    }
    tasks.extend((0..10).map(|_| waits()));
    holder.release();
    let woken = |(wakes, task): &(Arc<Wakes>, Option<_>)| {
        wakes.0.load(SeqCst) == usize::from(task.is_some())
    };
    before_long(|| tasks.iter().all(woken));
    for task in tasks.iter_mut().filter_map(|(_, task)| task.as_mut()) {
        assert!(matches!(poll(task.as_mut()), Poll::Ready(Ok(()))));
    }
}

/// Regression: a later task took the place of a thread, which slept on.
#[test]
fn threads_and_tasks_that_wait_for_one_share_all_go_on() {
    let interlock = Interlock::new();
    let mut running = interlock.enter();
    let holder = Holder::beside(&interlock, &mut running);
    let running = Arc::new(running);
    let threads = [(); 3].map(|()| {
        let (waits, asks) = (running.clone(), channel::<()>());
        let waits = start(move || {
            asks.0.send(()).expect("it is heard");
            waits.waiting(|| ())
        });
        asks.1.recv().expect("it is about to ask");
        waits
    });
    let theirs = running.clone();
    let mut task = Task::new(async move { theirs.waiting_async(async {}).await });
    assert!(task.poll().is_none());
    assert_eq!(crate::interlock::actor::count(&interlock, Resuming), 1);
    holder.release();
    for thread in threads {
        thread.done().expect("every wait ends");
    }
    before_long(|| task.wakes() == 1);
    task.finish().expect("every wait ends");
}

/// Regression: the interlock kept the waker, and all that it owned, after the end of the execution.
#[test]
fn a_waker_that_waits_for_a_share_is_dropped_with_its_future() {
    let interlock = Interlock::new();
    let mut running = interlock.enter();
    let holder = Holder::beside(&interlock, &mut running);
    let counted = Arc::new(Counted);
    {
        let mut waits = pin!(running.waiting_async(async {}));
        let waker = Waker::from(counted.clone());
        assert!(waits.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    }
    assert_eq!(Arc::strong_count(&counted), 1, "the future no longer waits");
    drop(running);
    holder.release();
}

/// A request with a share that has not come back keeps its place, even if its future is dropped and created again.
#[test]
fn a_share_keeps_its_place_across_waits() {
    let interlock = Interlock::new();
    let mut running = interlock.enter();
    let holder = Holder::beside(&interlock, &mut running);
    let id = running.id();
    let place = |interlock: &Interlock| {
        let dump = interlock.dump();
        dump.owners.iter().position(|owner| owner.id == id && owner.state == Resuming)
    };
    for _ in 0..3 {
        let mut load = pin!(running.load_async());
        assert!(poll(load.as_mut()).is_pending());
        assert!(place(&interlock).is_some());
    }
    holder.release();
    running.load(|_| ()).expect("it is back");
}

#[test]
fn a_try_by_a_share_that_is_not_back_does_not_wait() {
    let interlock = Interlock::new();
    let mut running = interlock.enter();
    let holder = Holder::beside(&interlock, &mut running);
    let (running, loaded, unloaded) = soon(move || {
        let (loaded, unloaded) = (running.try_load(|_| ()), running.try_unload(|_| ()));
        (running, loaded, unloaded)
    });
    assert!(matches!(loaded, Err(AcquireError::WouldBlock)));
    assert!(matches!(unloaded, Err(AcquireError::WouldBlock)));
    let inside = interlock.clone();
    let (mut running, nested) = soon(move || {
        let nested = running.in_scope(|| inside.try_run(|_| ()));
        (running, nested)
    });
    assert!(matches!(nested, Err(AcquireError::WouldBlock)));
    holder.release();
    running.try_load(|_| ()).expect("it is back");
}

#[test]
fn a_deadline_is_kept_by_a_share_that_is_not_back() {
    let interlock = Interlock::new();
    let mut running = interlock.enter();
    let holder = Holder::beside(&interlock, &mut running);
    let soon_over = Duration::from_millis(20);
    let (running, timed_out) = soon(move || {
        let loaded = running.load_timeout(soon_over, |_| ());
        let unloaded = running.unload_timeout(soon_over, |_| ());
        (running, [loaded, unloaded])
    });
    for timed_out in timed_out {
        assert!(matches!(timed_out, Err(AcquireError::TimedOut)), "{timed_out:?}");
    }
    assert!(!running.has_share());
    holder.release();
    drop(running);
}

/// Moving a manual clock wakes these waiters, too.
#[test]
fn moving_the_clock_ends_the_wait_for_a_share_that_is_not_back() {
    let clock = ManualClock::new();
    let interlock = Interlock::with_clock(clock.clock());
    let mut running = interlock.enter();
    let holder = Holder::beside(&interlock, &mut running);
    let waits = start(move || running.load_timeout(SECOND, |_| ()));
    // Each request's deadline passes during the wait.
    before_long(|| {
        clock.advance(SECOND);
        !waits.is_stuck()
    });
    holder.release();
}

/// The holder goes on only after this thread has stopped waiting for it.
#[test]
fn a_wait_for_a_share_inside_the_holder_of_the_same_thread_is_refused() {
    soon(|| {
        let interlock = Interlock::new();
        let mut running = interlock.enter();
        let third = interlock.enter();
        interlock.run(|holder| {
            let mut loads = Box::pin(holder.load_async());
            assert!(poll(loads.as_mut()).is_pending());
            {
                let mut load = pin!(running.load_async());
                assert!(poll(load.as_mut()).is_pending());
                drop(third);
            }
            let Poll::Ready(Ok(guard)) = poll(loads.as_mut()) else { panic!("it was let") };
            let told = [
                running.load(|_| ()),
                running.load_timeout(SECOND, |_| ()),
                running.permit_loads(|| ()),
                running.waiting(|| ()),
            ];
            for told in told {
                let Err(AcquireError::Deadlock(deadlock)) = told else { panic!("{told:?}") };
                assert_eq!(deadlock.cycle().len(), 2);
                assert!(deadlock.to_string().contains("waits for its share"), "{deadlock}");
            }
            drop(guard);
        });
        running.load(|_| ()).expect("it is back");
    });
}

/// The same where the holder blocks its thread: the code of its own section waits.
#[test]
fn a_wait_for_a_share_inside_a_section_of_the_same_thread_is_refused() {
    let interlock = Interlock::new();
    let mut running = interlock.enter();
    let third = interlock.enter();
    let (give, given) = channel::<Running<'static>>();
    let other = interlock.clone();
    let told = start(move || {
        other.run(|r| {
            r.load(|_| {
                let mut running = given.recv().expect("it is given");
                let nests = || running.in_scope(|| other.run(|_| ()));
                let panicked = catch_unwind(AssertUnwindSafe(nests)).is_err();
                (running.load(|_| ()), panicked, running)
            })
        })
    });
    until(&interlock, WaitingToLoad, 1);
    {
        let mut load = pin!(running.load_async());
        assert!(poll(load.as_mut()).is_pending());
        drop(third);
        until(&interlock, Loading, 1);
    }
    give.send(running).expect("the receiver waits");
    let (loaded, panicked, mut running) = told.done().expect("it had a share");
    assert!(matches!(loaded, Err(AcquireError::Deadlock(_))));
    assert!(panicked, "a run has no error to tell it by");
    running.load(|_| ()).expect("it is back");
}

/// A guard that was leaked inside a share on a permit block is given back with that share.
#[test]
fn a_guard_that_was_leaked_inside_a_share_on_a_permit_block_ends_with_that_share() {
    soon(|| {
        let interlock = Interlock::new();
        let load_and_leak = || {
            interlock.run(|inner| {
                let Poll::Ready(Ok(guard)) = poll(pin!(inner.load_async())) else {
                    panic!("it holds already")
                };
                std::mem::forget(guard);
            });
        };
        interlock.run(|outer| {
            let permitted = outer.permit_loads(|| {
                interlock
                    .run(|nested| nested.load(|_| load_and_leak()).expect("no owner is there"));
            });
            permitted.expect("it has its share");
            assert!(outer.has_share());
        });
        interlock.try_unload(|_| ()).expect("no owner is left");
    });
}
