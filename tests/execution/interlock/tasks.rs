//! Executions of tasks: the same queues, with cancellation at every await.

use crate::common::task::{Task, block_on};
use crate::interlock::actor::{Actor, start, until};
use crate::polling::poll;
use cabrank::Interlock;
use cabrank::execution::interlock::AcquireError;
use cabrank::execution::interlock::OwnerState::{
    Draining, Entering, Loading, Permitting, Resuming, Running, Unloading, WaitingForChildren,
    WaitingToLoad, WaitingToUnload,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::task::{Context, Poll, Wake, Waker};

/// Holds until the test sends.
fn holder(
    interlock: &Interlock,
) -> (crate::interlock::actor::Doing<()>, std::sync::mpsc::Sender<()>) {
    let (release, wait) = channel::<()>();
    let other = interlock.clone();
    let holds = start(move || other.load(|_| wait.recv().unwrap()).expect("no deadlock"));
    until(interlock, Loading, 1);
    (holds, release)
}

#[test]
fn a_task_waits_to_enter_and_is_woken_once() {
    let interlock = Interlock::new();
    let (holds, release) = holder(&interlock);
    let other = interlock.clone();
    let mut task = Task::new(async move { other.enter_async().await });
    assert!(task.poll().is_none() && task.poll().is_none());
    assert_eq!(task.wakes(), 0);
    release.send(()).unwrap();
    holds.done();
    crate::common::before_long(|| task.wakes() == 1);
    drop(task.poll().expect("it has entered"));
    assert!(interlock.dump().owners.is_empty());
}

#[test]
fn a_dropped_entry_leaves_no_trace() {
    for granted in [false, true] {
        let interlock = Interlock::new();
        let parent = interlock.enter();
        let child = parent.child();
        drop(parent);
        let (holds, release) = holder(&interlock);
        let other = interlock.clone();
        let mut newcomer = Task::new(async move { other.enter_async().await });
        let mut arrival = Task::new(child.enter_async());
        assert!(newcomer.poll().is_none() && arrival.poll().is_none());
        if granted {
            release.send(()).unwrap();
            crate::common::before_long(|| newcomer.wakes() == 1 && arrival.wakes() == 1);
            drop((newcomer, arrival));
        } else {
            drop((newcomer, arrival));
            release.send(()).unwrap();
        }
        holds.done();
        assert!(interlock.dump().owners.is_empty(), "{}", interlock.dump());
        interlock.unload(|_| ()).expect("no deadlock");
    }
}

#[test]
fn two_tasks_load_in_turn_and_go_on_together() {
    let interlock = Interlock::new();
    let guards = [interlock.enter(), interlock.enter()];
    let mut tasks = guards.map(|mut running| {
        Task::new(async move {
            let loading = running.load_async().await.expect("no deadlock");
            loading.finish().await;
            assert!(running.has_share());
            running
        })
    });
    assert!(tasks[0].poll().is_none());
    until(&interlock, WaitingToLoad, 1);
    assert!(tasks[1].poll().is_none()); // loads at once, and lets the first go first
    assert_eq!(crate::interlock::actor::count(&interlock, Draining), 1);
    let [first, second] = &mut tasks;
    assert_eq!((first.wakes(), second.wakes()), (1, 0));
    let _a = first.poll().expect("its turn");
    assert_eq!(second.wakes(), 1);
    let _b = second.poll().expect("they go on together");
}

/// If the load is dropped while another owner holds, the share comes back only after that owner releases.
#[test]
fn a_dropped_load_gets_its_share_back_when_the_holder_has_released() {
    let interlock = Interlock::new();
    let (sharer, loader) = (Actor::enter(&interlock), Actor::enter(&interlock));
    let mut running = interlock.enter();
    let (release, wait) = channel::<()>();
    let loads = loader.tell_until(WaitingToLoad, move |r| r.load(|_| wait.recv().unwrap()));
    {
        let mut load = Box::pin(running.load_async());
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(load.as_mut().poll(&mut cx).is_pending());
        sharer.leave();
        loader.until(Loading);
    }
    assert!(!running.has_share());
    assert_eq!(crate::interlock::actor::count(&interlock, Resuming), 1);
    release.send(()).unwrap();
    loads.done().expect("no deadlock");
    loader.leave();
    running.load(|_| ()).expect("it has its share back first");
    assert!(running.has_share());
}

/// The grant came before the future was dropped: it holds no lock and has had no effect.
#[test]
fn a_request_that_was_granted_and_never_seen_is_given_back() {
    let interlock = Interlock::new();
    let mut running = interlock.enter();
    let sharer = Actor::enter(&interlock);
    let mut unload = Box::pin(running.unload_async());
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(unload.as_mut().poll(&mut cx).is_pending());
    sharer.leave();
    until(&interlock, Unloading, 1);
    drop(unload);
    assert_eq!(crate::interlock::actor::count(&interlock, Running), 1);
    assert_eq!(interlock.generation(), 0, "no unload happened");
    drop(interlock.try_enter().expect("no owner holds"));
    running.load(|_| ()).expect("it has its share");
}

/// A task has its share from the moment of its entry, polled or not. So the dump shows it, and it can be forfeited.
#[test]
fn a_task_that_entered_unpolled_is_in_the_dump_and_can_be_forfeited() {
    let interlock = Interlock::new();
    let (holds, release) = holder(&interlock);
    let other = interlock.clone();
    let mut task = Task::new(async move { other.enter_async().await });
    assert!(task.poll().is_none());
    release.send(()).unwrap();
    holds.done();
    until(&interlock, Running, 1);
    let lost = interlock.dump().owners[0].id;
    assert!(interlock.forfeit(lost));
    interlock.unload(|_| ()).expect("no owner runs");
    let mut running = task.poll().expect("it was let in");
    assert!(matches!(running.load(|_| ()), Err(AcquireError::Forfeited)));
    drop(running);
    assert!(interlock.dump().owners.is_empty(), "{}", interlock.dump());
}

/// A task's load was dropped while another owner held. Its share comes back after that owner's release.
fn forsaken(
    interlock: &Interlock,
    running: &mut cabrank::execution::interlock::Running<'_>,
) -> impl FnOnce() + use<> {
    let (sharer, loader) = (Actor::enter(interlock), Actor::enter(interlock));
    let (release, wait) = channel::<()>();
    let loads = loader.tell_until(WaitingToLoad, move |r| r.load(|_| wait.recv()));
    let mut load = Box::pin(running.load_async());
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(load.as_mut().poll(&mut cx).is_pending());
    sharer.leave();
    loader.until(Loading);
    drop(load);
    move || {
        release.send(()).unwrap();
        loads.done().expect("no deadlock").unwrap();
        loader.leave();
    }
}

#[test]
fn a_share_that_has_come_back_is_there_for_a_run_and_a_wait() {
    let interlock = Interlock::new();
    let mut running = interlock.enter();
    forsaken(&interlock, &mut running)();
    let id = running.id();
    assert_eq!(running.in_scope(|| interlock.run(|r| r.id())), id);
    let release = forsaken(&interlock, &mut running);
    assert!(matches!(
        running.in_scope(|| interlock.try_run(|_| ())),
        Err(AcquireError::WouldBlock)
    ));
    release();
    running
        .waiting(|| assert_eq!(crate::interlock::actor::count(&interlock, WaitingForChildren), 1))
        .expect("there are no children");
    assert!(running.has_share());
}

/// A share on top of a permit block that has not come back does not end the block.
#[test]
fn a_share_on_top_of_a_permit_block_may_end_before_it_is_back() {
    let interlock = Interlock::new();
    let mut running = interlock.enter();
    running
        .permit_loads(|| {
            let release = interlock.run(|r| forsaken(&interlock, r));
            assert_eq!(crate::interlock::actor::count(&interlock, Permitting), 1);
            release();
            interlock.run(|r| forsaken(&interlock, r)());
            assert_eq!(crate::interlock::actor::count(&interlock, Permitting), 1);
        })
        .expect("the only share");
    assert!(running.has_share());
    drop(running);
    interlock.unload(|_| ()).expect("no owner runs");
}

#[test]
fn a_task_permits_loads_at_its_awaits() {
    let interlock = Interlock::new();
    let mut running = interlock.enter();
    let loader = Actor::enter(&interlock);
    let (wait, nested) = (std::future::pending::<()>(), interlock.clone());
    {
        let mut permit = Task::new({
            let id = running.id();
            async move {
                let permitted = async {
                    assert_eq!(nested.run(|r| r.id()), id);
                    wait.await;
                };
                running.permit_loads_async(permitted).await.expect("the only share");
                running
            }
        });
        assert!(permit.poll().is_none());
        assert_eq!(crate::interlock::actor::count(&interlock, Permitting), 1);
        loader.tell(|r| r.load(|_| ())).done().expect("no deadlock");
    }
    loader.tell(|r| r.unload(|_| ())).done().expect("the permit block and its task are gone");
}

#[test]
fn a_future_in_scope_nests_whichever_thread_polls_it() {
    let interlock = Interlock::new();
    let running = interlock.enter();
    let id = running.id();
    let other = interlock.clone();
    let inner = block_on(running.in_scope_async(async move { other.run(|r| r.id()) }));
    assert_eq!(inner, id);
}

#[test]
fn a_dropped_unload_guard_does_not_drain() {
    let interlock = Interlock::new();
    let mut running = interlock.enter();
    let waits = Actor::enter(&interlock);
    let unloads = waits.tell_until(WaitingToUnload, |r| r.unload(|_| ()));
    drop(block_on(running.unload_async()).expect("no deadlock"));
    assert!(running.has_share() && unloads.is_stuck());
    assert!(matches!(interlock.try_enter(), Err(AcquireError::WouldBlock)));
    drop(running);
    unloads.done().expect("no deadlock");
    until(&interlock, Entering, 0);
}

/// A waker that uses the interlock when it is dropped.
struct Reenters(Interlock, Arc<AtomicUsize>);
impl Wake for Reenters {
    fn wake(self: Arc<Self>) {}
}
impl Drop for Reenters {
    fn drop(&mut self) {
        self.0.generation();
        self.1.fetch_add(1, SeqCst);
    }
}

/// Regression: a dropped recovery left its waker behind. The next user of the record dropped that waker under the
/// mutex.
#[test]
fn a_waker_is_dropped_with_its_future_and_under_no_lock() {
    crate::common::soon(|| {
        for is_used_again in [true, false] {
            let (interlock, dropped) = (Interlock::new(), Arc::new(AtomicUsize::new(0)));
            let (mut a, mut b) = (interlock.enter(), interlock.enter());
            let mut first = Box::pin(a.load_async());
            assert!(poll(&mut first).is_pending());
            let mut load = Box::pin(b.load_async());
            let Poll::Ready(Ok(guard)) = poll(&mut load) else {
                panic!("no other owner has a share")
            };
            drop(first);
            {
                let waker = Waker::from(Arc::new(Reenters(interlock.clone(), dropped.clone())));
                let mut second = Box::pin(a.load_async());
                let mut cx = Context::from_waker(&waker);
                assert!(second.as_mut().poll(&mut cx).is_pending());
            }
            assert_eq!(dropped.load(SeqCst), 1);
            if is_used_again {
                assert!(poll(&mut Box::pin(a.load_async())).is_pending());
            }
            drop(a);
            assert!(poll(&mut Box::pin(interlock.enter_async())).is_pending());
            drop(guard);
        }
    });
}

/// Regression: a dropped permit block dropped its future outside the block. A `run` in that drop was a newcomer,
/// behind an unload that waited for the end of the block.
#[test]
fn a_dropped_permit_block_drops_its_future_inside() {
    struct Runs(Interlock);
    impl Drop for Runs {
        fn drop(&mut self) {
            self.0.run(|_| ());
        }
    }
    let interlock = Interlock::new();
    let mut running = interlock.enter();
    let runs = Runs(interlock.clone());
    let mut permit = Task::new(async move {
        let permitted = async {
            let _runs = runs;
            std::future::pending::<()>().await;
        };
        running.permit_loads_async(permitted).await.expect("the only share");
    });
    assert!(permit.poll().is_none());
    let other = interlock.clone();
    let unloads = start(move || other.unload(|_| ()));
    until(&interlock, WaitingToUnload, 1);
    crate::common::soon(move || drop(permit));
    unloads.done().expect("no deadlock");
}
