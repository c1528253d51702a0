//! Executions of tasks: the same queues, with cancellation at every await.

use crate::common::task::{Task, block_on};
use crate::interlock::actor::{
    Actor, Doing, count, deadlock, newcomer_waits, start, start_unload, until,
};
use crate::polling::{poll, yield_once};
use cabrank::Interlock;
use cabrank::execution::interlock::OwnerState::{
    Loading, Permitting, Resuming, Unloading, WaitingToLoad,
};
use cabrank::execution::interlock::{AcquireError, OwnerId, Running as Share};
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{Sender, channel};
use std::task::{Context, Poll, Wake, Waker};

/// Loads until the test sends.
fn holder(interlock: &Interlock) -> (Doing<bool>, Sender<()>) {
    let (release, wait) = channel::<()>();
    let other = interlock.clone();
    let load = move || other.run(|r| r.load(|_| wait.recv().is_ok()));
    let holds = start(move || load().expect("no time limit").expect("no time limit"));
    until(interlock, Loading, 1);
    (holds, release)
}

#[test]
fn a_task_waits_to_enter_and_is_woken_once() {
    let interlock = Interlock::new();
    let (holds, release) = holder(&interlock);
    let other = interlock.clone();
    let mut task = Task::new(async move { other.run_async(async |r| r.id()).await });
    assert!(task.poll().is_none() && task.poll().is_none());
    assert_eq!(task.wakes(), 0);
    release.send(()).unwrap();
    holds.done();
    crate::common::before_long(|| task.wakes() == 1);
    task.poll().expect("it has entered").expect("no time limit");
    assert!(interlock.dump().owners.is_empty());
}

#[test]
fn a_dropped_load_gets_its_share_back_when_the_holder_has_released() {
    let interlock = Interlock::new();
    let (mut task, finish) = given_up(&interlock);
    assert_eq!(count(&interlock, Resuming), 1);
    assert!(task.poll().is_none(), "its next operation waits for the share");
    finish();
    assert!(task.finish());
    assert!(interlock.dump().owners.is_empty(), "{}", interlock.dump());
}

/// An execution that ends meanwhile leaves.
#[test]
fn a_task_without_its_share_may_end() {
    let interlock = Interlock::new();
    let (task, finish) = given_up(&interlock);
    drop(task);
    assert_eq!(count(&interlock, Resuming), 0);
    finish();
    assert!(interlock.dump().owners.is_empty(), "{}", interlock.dump());
}

/// A task in an execution, whose load was dropped while another owner held. Its share comes back later.
fn given_up(interlock: &Interlock) -> (Task<bool>, impl FnOnce() + use<>) {
    let (sharer, loader) = (Actor::enter(interlock), Actor::enter(interlock));
    let theirs = interlock.clone();
    let mut task = Task::new(async move {
        let body = async |r: &mut Share<'_>| {
            yield_once().await;
            let mut load = Box::pin(r.load_async(async |_| ()));
            assert!(poll(&mut load).is_pending());
            yield_once().await;
            drop(load);
            assert!(!r.has_share());
            yield_once().await;
            // Its next operation may be another execution, too.
            let nested = theirs.run_async(async |nested| nested.has_share()).await;
            assert!(nested.expect("it has its share back first"));
            r.load_async(async |_| ()).await.expect("no deadlock");
            r.has_share()
        };
        theirs.run_async(body).await.expect("no time limit")
    });
    assert!(task.poll().is_none());
    let (release, wait) = channel::<()>();
    let loads = loader.order_until(WaitingToLoad, move |r| r.load(|_| wait.recv().is_ok()));
    assert!(task.poll().is_none());
    sharer.leave();
    loader.until(Loading);
    assert!(task.poll().is_none());
    let finish = move || {
        release.send(()).unwrap();
        assert!(loads.done().expect("no deadlock"));
        loader.leave();
    };
    (task, finish)
}

#[test]
fn a_task_permits_loads_at_its_awaits() {
    let interlock = Interlock::new();
    let loader = Actor::enter(&interlock);
    let theirs = interlock.clone();
    let mut permit = Task::new(async move {
        let id = |r: &mut Share<'_>| r.id();
        let body = async |r: &mut Share<'_>| {
            let outer = r.id();
            let permitted = async {
                let inner: OwnerId = theirs.run(id).expect("no deadlock");
                assert_ne!(inner, outer);
                pending::<()>().await;
            };
            r.permit_loads_async(permitted).await
        };
        theirs.run_async(body).await
    });
    assert!(permit.poll().is_none());
    assert_eq!(count(&interlock, Permitting), 1);
    loader.order(|r| r.load(|_| ())).done().expect("no deadlock");
    drop(permit);
    loader.leave();
    interlock.unload(|_| ()).expect("the permit block and its task are gone");
}

/// The same holds on each thread that polls it, and whether it awaits or blocks.
#[test]
fn executions_nest_inside_a_task() -> Result<(), AcquireError> {
    let interlock = Interlock::new();
    let theirs = interlock.clone();
    let task = async move {
        let body = async |r: &mut Share<'_>| {
            let outer = r.id();
            yield_once().await;
            assert_eq!(theirs.run(|inner| inner.id())?, outer);
            assert_eq!(theirs.run_async(async |inner| inner.id()).await?, outer);
            theirs.run(|inner| inner.load(|_| ()))??;
            deadlock(theirs.unload_async(async |_| ()).await);
            r.load_async(async |_| theirs.run(|inner| inner.id()).is_ok_and(|id| id == outer)).await
        };
        theirs.run_async(body).await
    };
    let mut task = Task::new(task);
    assert!(task.poll().is_none());
    assert!(start(move || task.finish()).done()??);
    Ok(())
}

/// Branches of one task share one execution. While one of them waits, the other has no share, and cannot wait, too.
#[test]
fn concurrent_branches_share_one_wait() -> Result<(), AcquireError> {
    let interlock = Interlock::new();
    let sharer = Actor::enter(&interlock);
    let theirs = interlock.clone();
    let mut task = Task::new(async move {
        theirs
            .run_async(async |r| {
                let mut load = Box::pin(r.load_async(async |_| ()));
                assert!(poll(&mut load).is_pending());
                theirs
                    .run_async(async |branch| {
                        assert!(!branch.has_share());
                        deadlock(branch.load_async(async |_| ()).await);
                        deadlock(branch.load(|_| ()));
                        deadlock(branch.permit_loads(|| ()));
                    })
                    .await?;
                load.await
            })
            .await?
    });
    assert!(task.poll().is_none());
    sharer.leave();
    task.finish()?;
    assert!(interlock.dump().owners.is_empty());
    Ok(())
}

/// A future that began in an execution of a thread has moved to another thread, which that execution may wait for.
#[test]
fn a_future_that_has_left_its_thread_is_refused() -> Result<(), AcquireError> {
    let interlock = Interlock::new();
    let theirs = interlock.clone();
    let mut task = Task::new(async move {
        theirs
            .run_async(async |r| {
                yield_once().await;
                deadlock(r.load_async(async |_| ()).await);
                deadlock(r.permit_loads_async(async {}).await);
            })
            .await
    });
    interlock.run(|_| {
        assert!(task.poll().is_none());
        start(move || task.finish()).done()
    })?
}

/// A section whose future is dropped counts as an unload.
#[test]
fn a_dropped_section_ends() -> Result<(), AcquireError> {
    let interlock = Interlock::new();
    let mut unload = Box::pin(interlock.unload_async(async |_| pending::<()>().await));
    assert!(poll(&mut unload).is_pending());
    assert_eq!(count(&interlock, Unloading), 1);
    assert!(newcomer_waits(&interlock));
    drop(unload);
    assert_eq!(interlock.generation(), 1);
    let load = interlock.run_async(async |r| {
        let mut load = Box::pin(r.load_async(async |_| pending::<()>().await));
        assert!(poll(&mut load).is_pending());
        drop(load);
        assert!(r.has_share());
        r.load_async(async |_| ()).await
    });
    let Poll::Ready(loaded) = poll(load) else { panic!("no other owner runs") };
    loaded?
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

#[test]
fn a_waker_is_dropped_with_its_future_and_under_no_lock() {
    crate::common::soon(|| {
        let (interlock, dropped) = (Interlock::new(), Arc::new(AtomicUsize::new(0)));
        let (holds, release) = holder(&interlock);
        let waker = Waker::from(Arc::new(Reenters(interlock.clone(), dropped.clone())));
        for by_another_waker in [false, true] {
            let before = dropped.load(SeqCst);
            let waker = Waker::from(Arc::new(Reenters(interlock.clone(), dropped.clone())));
            let mut enters = Box::pin(interlock.run_async(async |_| ()));
            assert!(enters.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            drop(waker);
            if by_another_waker {
                assert!(poll(&mut enters).is_pending());
            } else {
                drop(enters);
            }
            assert_eq!(dropped.load(SeqCst), before + 1);
        }
        drop(waker);
        release.send(()).unwrap();
        holds.done();
    });
}

/// A future may be polled by another task than before. The last one is woken.
#[test]
fn a_task_that_waits_is_woken_by_the_waker_that_polled_it_last() {
    let interlock = Interlock::new();
    let (holds, release) = holder(&interlock);
    let theirs = interlock.clone();
    let mut enters = Task::new(async move { theirs.run_async(async |_| ()).await });
    assert!(enters.poll_with(Waker::noop()).is_none() && enters.poll().is_none());
    release.send(()).unwrap();
    holds.done();
    enters.finish().expect("no deadlock");
}

/// The drop of the block's future is inside the block. An execution that begins there passes the unload that waits for
/// the block.
#[test]
fn a_dropped_permit_block_drops_its_future_inside() {
    struct Runs(Interlock);
    impl Drop for Runs {
        fn drop(&mut self) {
            self.0.run(|_| ()).expect("no time limit");
        }
    }
    let interlock = Interlock::new();
    let theirs = interlock.clone();
    let mut permit = Task::new(async move {
        let body = async |r: &mut Share<'_>| {
            let permitted = async {
                let _runs = Runs(theirs.clone());
                pending::<()>().await;
            };
            r.permit_loads_async(permitted).await
        };
        theirs.run_async(body).await
    });
    assert!(permit.poll().is_none());
    let unloads = start_unload(&interlock, |_| ());
    crate::common::soon(move || drop(permit));
    unloads.done().expect("no deadlock");
}

/// A waker that panics stops no other wake-up.
#[test]
fn a_panic_of_a_waker_is_contained() {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("a waker");
        }
    }
    let interlock = Interlock::new();
    let (holds, release) = holder(&interlock);
    let mut first = Box::pin(interlock.run_async(async |_| ()));
    let waker = Waker::from(Arc::new(Panics));
    assert!(first.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    let theirs = interlock.clone();
    let mut second = Task::new(async move { theirs.run_async(async |_| ()).await });
    assert!(second.poll().is_none());
    release.send(()).unwrap();
    holds.done();
    second.finish().expect("no time limit");
    block_on(first).expect("no time limit");
}
