//! Deadlocks between parents and children, in threads or tasks: the owner that closes the cycle is refused at once.

use crate::interlock::actor::{Actor, Doing, child_that_loads, deadlock, start, until, waits};
use cabrank::Interlock;
use cabrank::execution::interlock::AcquireError;
use cabrank::execution::interlock::OwnerState::{
    Draining, Permitting, Running, WaitingForChildren, WaitingToLoad,
};
use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::channel;
use std::task::{Context, Waker};

#[test]
fn a_child_that_closes_the_cycle_is_refused() {
    let interlock = Interlock::new();
    let parent = Actor::enter(&interlock);
    let (load, loads) = child_that_loads(&parent);
    let (end, wait) = channel::<()>();
    let waits = parent.tell_until(WaitingForChildren, move |r| r.waiting(|| wait.recv()));
    load.send(()).unwrap();
    let told = deadlock(loads.done());
    let cycle = told.cycle();
    assert_eq!((cycle.len(), cycle[1]), (2, parent.id));
    assert_eq!(told.dump().owner(parent.id).unwrap().state, WaitingForChildren);
    assert!(waits.is_stuck());
    end.send(()).unwrap();
    waits.done().expect("the wait is not refused").unwrap();
    assert_eq!(parent.state(), Some(Running));
}

/// The child has requested first.
#[test]
fn a_parent_whose_wait_closes_the_cycle_is_refused() {
    let interlock = Interlock::new();
    let parent = Actor::enter(&interlock);
    let (load, loads) = child_that_loads(&parent);
    load.send(()).unwrap();
    until(&interlock, WaitingToLoad, 1);
    let waited = parent.tell(|r| r.waiting(|| unreachable!("for ever"))).done();
    assert_eq!(deadlock(waited).cycle()[0], parent.id);
    assert!(loads.is_stuck());
    parent.leave();
    loads.done().expect("the wait was not begun");
}

/// A grandparent keeps its share, its child permits loads, and the grandchild loads. Each waits for the next.
#[test]
fn the_owner_that_closes_a_cycle_through_a_permit_block_is_refused() {
    let interlock = Interlock::new();
    let family = || {
        let grandparent = Actor::enter(&interlock);
        let token = grandparent.tell(|r| r.child()).done();
        let parent = Actor::enter_as(&interlock, token);
        let (load, loads) = child_that_loads(&parent);
        (grandparent, parent, load, loads)
    };
    let told = |by: Result<(), AcquireError>, last: &str| {
        let told = deadlock(by);
        assert_eq!(told.cycle().len(), 3, "{last}: {told}");
        told.cycle()[0]
    };

    let (grandparent, parent, load, _) = family();
    let _over = waits(&parent, true);
    load.send(()).unwrap();
    until(&interlock, WaitingToLoad, 1);
    let refused = grandparent.tell(|r| r.waiting(|| unreachable!("for ever"))).done();
    assert_eq!(told(refused, "the grandparent"), grandparent.id);
    grandparent.leave();
    drop(_over);
    parent.leave();

    let (grandparent, parent, load, _) = family();
    let _over = waits(&grandparent, false);
    load.send(()).unwrap();
    until(&interlock, WaitingToLoad, 1);
    let refused = parent.tell(|r| r.permit_waiting(|| unreachable!("for ever"))).done();
    assert_eq!(told(refused, "the parent"), parent.id);
    assert_eq!(parent.state(), Some(Running), "it has not begun its permit block");
    parent.leave();
    drop(_over);
    grandparent.leave();

    let (grandparent, parent, load, loads) = family();
    let _over = (waits(&grandparent, false), waits(&parent, true));
    load.send(()).unwrap();
    let child = told(loads.done(), "the child");
    assert!(child != grandparent.id && child != parent.id);
    drop(_over);
    parent.leave();
    grandparent.leave();
}

/// Requests a load whose section panics, so no other owner has a turn before it runs again.
fn fails_to_load(actor: &Actor) -> Doing<bool> {
    actor.tell_until(WaitingToLoad, |r| {
        let load = || r.load(|_| resume_unwind(Box::new("no value to load")));
        catch_unwind(AssertUnwindSafe(load)).is_err()
    })
}

/// A child drains for another owner's load, which waits for the parent's share. The parent, whose own section ended
/// without draining, then waits for the child. Regression: `INV-ILK-DEADLOCK-REPORTED` ignored draining owners, and no
/// owner was refused.
#[test]
fn a_parent_that_would_wait_for_a_draining_child_is_refused() {
    let interlock = Interlock::new();
    let parent = Actor::enter(&interlock);
    let child = Actor::enter_as(&interlock, parent.tell(|r| r.child()).done());
    let stranger = Actor::enter(&interlock);
    let failed = fails_to_load(&parent);
    let others = stranger.tell_until(WaitingToLoad, |r| r.load(|_| ()));
    let loaded = child.tell(|r| r.load(|_| ()));
    assert!(failed.done());
    assert_eq!(child.state(), Some(Draining));

    let told = deadlock(parent.tell(|r| r.waiting(|| unreachable!("for ever"))).done());
    assert_eq!(told.cycle(), [parent.id, child.id, stranger.id]);
    assert!(others.is_stuck() && loaded.is_stuck());
    parent.leave();
    others.done().expect("its wait has ended");
    loaded.done().expect("it has loaded");
}

/// The same through a permit block. The later of the two waits is refused.
#[test]
fn a_cycle_through_a_permit_block_and_a_draining_child_is_refused() {
    let interlock = Interlock::new();
    for grandparent_is_last in [true, false] {
        let grandparent = Actor::enter(&interlock);
        let token = grandparent.tell(|r| r.child()).done();
        let parent = Actor::enter_as(&interlock, token);
        let child = Actor::enter_as(&interlock, parent.tell(|r| r.child()).done());
        let stranger = Actor::enter(&interlock);
        let (end, permit) = channel::<()>();
        let over = match grandparent_is_last {
            true => waits(&parent, true),
            false => {
                drop(parent.tell_until(Permitting, |r| r.permit_loads(move || permit.recv())));
                end
            }
        };
        let failed = fails_to_load(&grandparent);
        let others = stranger.tell_until(WaitingToLoad, |r| r.load(|_| ()));
        let loaded = child.tell(|r| r.load(|_| ()));
        assert!(failed.done());
        assert_eq!(child.state(), Some(Draining));

        if grandparent_is_last {
            let refused = grandparent.tell(|r| r.waiting(|| unreachable!("for ever"))).done();
            let cycle = deadlock(refused).cycle();
            assert_eq!(cycle, [grandparent.id, parent.id, child.id, stranger.id]);
            drop(over);
        } else {
            drop(over);
            parent.until(Running);
            let _over = waits(&grandparent, false);
            let refused = parent.tell(|r| r.permit_waiting(|| unreachable!("for ever"))).done();
            let cycle = deadlock(refused).cycle();
            assert_eq!(cycle, [parent.id, child.id, stranger.id, grandparent.id]);
        }
        parent.leave();
        grandparent.leave();
        others.done().expect("no owner has a share");
        loaded.done().expect("it has loaded");
    }
}

/// The bystanders are unrelated: one runs, one permits, one has an unused token.
#[test]
fn a_deadlock_beside_bystanders_is_refused_at_once() {
    let interlock = Interlock::new();
    let bystanders = [(); 3].map(|()| Actor::enter(&interlock));
    let (end, permit) = channel::<()>();
    let permits = bystanders[1].tell_until(Permitting, |r| r.permit_loads(move || permit.recv()));
    let unused = bystanders[2].tell(|r| r.child()).done();

    let parent = Actor::enter(&interlock);
    let (load, loads) = child_that_loads(&parent);
    let (over, wait) = channel::<()>();
    let waits = parent.tell_until(WaitingForChildren, move |r| r.waiting(|| wait.recv()));
    load.send(()).unwrap();
    deadlock(loads.done());
    over.send(()).unwrap();
    waits.done().expect("the wait is not refused").unwrap();

    let (load, loads) = child_that_loads(&parent);
    load.send(()).unwrap();
    until(&interlock, WaitingToLoad, 1);
    deadlock(parent.tell(|r| r.waiting(|| unreachable!("for ever"))).done());

    drop(unused);
    end.send(()).unwrap();
    permits.done().expect("the only share").unwrap();
    bystanders.into_iter().for_each(Actor::leave);
    parent.leave();
    loads.done().expect("all have left");
}

/// Regression: only children begun with a token counted, so a cycle through an execution that a guard began inside
/// another was not refused.
#[test]
fn an_execution_that_a_guard_began_inside_another_is_its_child() {
    let interlock = Interlock::new();
    let parent = Actor::enter(&interlock);
    let other = interlock.clone();
    let mut guard = parent.tell(move |_| other.enter()).done();
    let (end, wait) = channel::<()>();
    let waits = parent.tell_until(WaitingForChildren, move |r| r.waiting(|| wait.recv()));
    assert_eq!(interlock.dump().cycle(), None);
    let told = start(move || deadlock(guard.load(|_| ()))).done();
    assert_eq!(told.cycle()[1], parent.id);
    end.send(()).unwrap();
    waits.done().expect("the wait is not refused").unwrap();

    let other = interlock.clone();
    let mut guard = parent.tell(move |_| other.enter()).done();
    let loads = start(move || guard.load(|_| ()));
    until(&interlock, WaitingToLoad, 1);
    deadlock(parent.tell(|r| r.waiting(|| unreachable!("for ever"))).done());
    assert_eq!(interlock.dump().cycle(), None, "every deadlock was refused");
    parent.leave();
    loads.done().expect("no other owner has a share");
}

/// A task declares a wait for its children as a thread does.
#[test]
fn a_task_that_waits_for_its_children_is_refused_in_a_cycle() {
    use crate::common::task::Task;
    let interlock = Interlock::new();
    let parent = interlock.enter();
    let child = parent.child();
    let mut waits = Task::new(async move {
        let waited = parent.waiting_async(pending::<()>()).await;
        drop(parent);
        waited
    });
    assert!(waits.poll().is_none());
    assert_eq!(crate::interlock::actor::count(&interlock, WaitingForChildren), 1);
    let told = start(move || child.run(|r| r.load(|_| ()))).done();
    deadlock(told);
    drop(waits);
    assert!(interlock.dump().owners.is_empty());
}

/// Each waits for its child in a permit block. Regression: the recursion up to the first of them overflowed the
/// stack under the lock, which aborts the process.
#[test]
fn a_cycle_through_many_permit_blocks_is_refused_on_a_small_stack() {
    const LINE: usize = 400;
    let interlock = Interlock::new();
    let mut cx = Context::from_waker(Waker::noop());
    let first = interlock.enter();
    let mut token = first.child();
    let mut line = Vec::new();
    for _ in 0..LINE {
        let (tell, next) = channel();
        let mut waits = Box::pin(async move {
            let mut running = token.enter();
            tell.send(running.child()).expect("the test waits for it");
            running.permit_waiting_async(pending::<()>()).await
        });
        assert!(waits.as_mut().poll(&mut cx).is_pending());
        token = next.recv().expect("it has a child");
        line.push(waits);
    }
    let mut declared = Box::pin(first.waiting_async(pending::<()>()));
    assert!(declared.as_mut().poll(&mut cx).is_pending());
    let small = std::thread::Builder::new().stack_size(64 << 10);
    let asks = move || {
        token.run(|r| r.load(|_| ()).map_err(|told| matches!(told, AcquireError::Deadlock(_))))
    };
    let refused = small.spawn(asks).expect("a thread").join();
    assert_eq!(refused.expect("no panic"), Err(true));
    drop(declared);
    while let Some(last) = line.pop() {
        drop(last);
    }
    drop(first);
    assert!(interlock.dump().owners.is_empty());
}
