//! Variants of the same request: without a share, by a child, once only, without waiting, with a deadline, by a
//! task.

use crate::common::soon;
use crate::common::task::{Task, block_on};
use crate::interlock::actor::{Actor, count, start, until};
use cabrank::Interlock;
use cabrank::execution::interlock::AcquireError;
use cabrank::execution::interlock::OwnerState::{Loading, Permitting, WaitingToUnload};
use std::future::pending;
use std::sync::mpsc::channel;
use std::time::Duration;

const BRIEF: Duration = Duration::from_millis(20);

#[test]
fn a_request_without_a_share_is_refused_or_timed_out_beside_somebody() {
    let interlock = Interlock::new();
    let running = interlock.enter();
    let theirs = interlock.clone();
    let refused = soon(move || [theirs.try_load(|_| ()), theirs.try_unload(|_| ())]);
    assert!(refused.iter().all(|refused| matches!(refused, Err(AcquireError::WouldBlock))));
    let theirs = interlock.clone();
    let late =
        soon(move || [theirs.load_timeout(BRIEF, |_| ()), theirs.unload_timeout(BRIEF, |_| ())]);
    assert!(late.iter().all(|late| matches!(late, Err(AcquireError::TimedOut))));
    assert_eq!((interlock.dump().owners.len(), interlock.generation()), (1, 0));
    drop(running);
    interlock.try_load(|_| ()).expect("no owner runs");
    interlock.load_timeout(BRIEF, |_| ()).expect("no owner runs");
    interlock.try_unload(|_| ()).expect("no owner runs");
    assert_eq!(interlock.generation(), 1);
}

#[test]
fn a_request_without_a_share_may_load_beside_a_permit_block() {
    let interlock = Interlock::new();
    let permits = Actor::enter(&interlock);
    let (end, wait) = channel::<()>();
    let permitted = permits.tell_until(Permitting, move |r| r.permit_loads(|| wait.recv()));
    interlock.try_load(|_| ()).expect("it is permitted");
    assert!(matches!(interlock.try_unload(|_| ()), Err(AcquireError::WouldBlock)));
    end.send(()).unwrap();
    permitted.done().expect("the only share").unwrap();
    permits.leave();
}

/// A refused child is no longer a child. A child waits for the holder only.
#[test]
fn a_child_enters_at_once_or_not_at_all() {
    let interlock = Interlock::new();
    let parent = Actor::enter(&interlock);
    let tokens = parent.tell(|r| [(); 6].map(|()| r.child())).done();
    let (release, hold) = channel::<()>();
    let loads = parent.tell_until(Loading, move |r| r.load(|_| hold.recv()));
    let [one, two, three, four, five, six] = tokens;
    let refused = soon(move || (one.try_enter().err(), two.try_run(|_| ()).err()));
    let (Some(AcquireError::WouldBlock), Some(AcquireError::WouldBlock)) = refused else {
        panic!("{refused:?}")
    };
    let late =
        soon(move || (three.enter_timeout(BRIEF).err(), four.run_timeout(BRIEF, |_| ()).err()));
    let (Some(AcquireError::TimedOut), Some(AcquireError::TimedOut)) = late else {
        panic!("{late:?}")
    };
    release.send(()).unwrap();
    loads.done().expect("no other owner runs").unwrap();

    let other = interlock.clone();
    let unloads = start(move || other.unload(|_| ()));
    until(&interlock, WaitingToUnload, 1);
    assert!(matches!(interlock.try_enter(), Err(AcquireError::WouldBlock)));
    soon(move || {
        drop(five.try_enter().expect("it is let in"));
        six.run_timeout(BRIEF, |_| ()).expect("it is let in");
    });
    let inside = interlock.clone();
    let alone = parent.tell(move |r| r.load(|_| inside.run(|r| r.waiting(|| ()))));
    alone.done().expect("no other owner runs").expect("there are no children any more");
    parent.leave();
    unloads.done().expect("no owner runs");
}

#[test]
fn unload_once_unloads_once_in_every_form() {
    let interlock = Interlock::new();
    let sharer = interlock.enter();
    let mut running = interlock.enter();
    assert!(matches!(running.try_unload_once(0, |_| ()), Err(AcquireError::WouldBlock)));
    let late = running.unload_once_timeout(0, BRIEF, |_| ());
    assert!(matches!(late, Err(AcquireError::TimedOut)));
    // An unload that was already done needs no wait.
    assert!(running.try_unload_once(7, |_| ()).expect("the unload is already done").is_none());
    assert!(
        running
            .unload_once_timeout(7, BRIEF, |_| ())
            .expect("the unload is already done")
            .is_none()
    );
    drop(sharer);
    assert_eq!(running.try_unload_once(0, |_| 1).expect("no other owner runs"), Some(1));
    assert_eq!(running.unload_once_timeout(1, BRIEF, |_| 2).expect("no other owner runs"), Some(2));
    assert_eq!(running.try_unload_once(1, |_| 3).expect("the unload is already done"), None);
    assert_eq!(interlock.generation(), 2);
}

/// Another task unloads while this one waits. This one then holds, sees that, and lets the next go first.
#[test]
fn one_of_two_tasks_that_unload_once_does() {
    let interlock = Interlock::new();
    let sharer = interlock.enter();
    let mut tasks = [interlock.enter(), interlock.enter()].map(|mut running| {
        Task::new(async move {
            let unloading = running.unload_once_async(0).await.expect("no deadlock");
            match unloading {
                Some(unloading) => {
                    unloading.finish().await;
                    true
                }
                None => false,
            }
        })
    });
    assert!(tasks.iter_mut().all(|task| task.poll().is_none()));
    assert_eq!(count(&interlock, WaitingToUnload), 2);
    drop(sharer);
    let [mut first, mut second] = tasks;
    assert!(first.poll().is_none(), "it lets the other go first");
    assert_eq!(second.poll(), Some(false));
    assert_eq!(first.poll(), Some(true));
    assert_eq!(interlock.generation(), 1);
}

/// Each of three owners waits for the next: the child for its grandparent's share, the grandparent for the parent,
/// and the parent, in a permit block, for the child.
#[test]
fn a_task_that_permits_and_waits_for_its_children_is_refused_in_a_cycle() {
    for child_first in [false, true] {
        let interlock = Interlock::new();
        let grandparent = interlock.enter();
        let mut parent = grandparent.child().enter();
        let mut child = parent.child().enter();
        let mut waits = Box::pin(grandparent.waiting_async(pending::<()>()));
        let mut permits = Box::pin(parent.permit_waiting_async(pending::<()>()));
        let mut loads = Box::pin(child.load_async());
        let cx = &mut std::task::Context::from_waker(std::task::Waker::noop());
        assert!(waits.as_mut().poll(cx).is_pending());
        let told = if child_first {
            assert!(loads.as_mut().poll(cx).is_pending());
            let std::task::Poll::Ready(told) = permits.as_mut().poll(cx) else {
                panic!("{}", interlock.dump())
            };
            told.err()
        } else {
            assert!(permits.as_mut().poll(cx).is_pending());
            let std::task::Poll::Ready(told) = loads.as_mut().poll(cx) else {
                panic!("{}", interlock.dump())
            };
            told.map(drop).err()
        };
        let Some(AcquireError::Deadlock(deadlock)) = told else { panic!("{told:?}") };
        assert_eq!(deadlock.cycle().len(), 3, "{deadlock}");
        drop((waits, permits, loads));
        assert!(grandparent.has_share() && parent.has_share() && child.has_share());
    }
}

/// The parent no longer waits, in whatever block it was, so a load does not close a cycle through it.
#[test]
fn a_permit_block_that_is_dropped_waits_for_no_children() {
    let interlock = Interlock::new();
    let mut parent = interlock.enter();
    let (id, inside) = (parent.id(), interlock.clone());
    let does = move || inside.dump().owner(id).map(|owner| owner.does);
    let told = parent.permit_loads(|| {
        interlock.run(|r| {
            let mut waits = Box::pin(r.permit_waiting_async(pending::<()>()));
            let cx = &mut std::task::Context::from_waker(std::task::Waker::noop());
            assert!(waits.as_mut().poll(cx).is_pending());
            assert_eq!(does(), Some("permits loads and waits for its children"));
        });
        does()
    });
    assert_eq!(told.expect("the only share"), Some("permits loads"));
}

#[test]
fn a_task_joins_another_and_permits_loads_meanwhile() {
    let interlock = Interlock::new();
    let mut running = interlock.enter();
    let mut other = interlock.enter();
    let joined = running.join_async(async move { other.try_load(|_| 7) });
    assert_eq!(block_on(joined).expect("the only share").expect("it is permitted"), 7);
    assert!(running.has_share());
}
