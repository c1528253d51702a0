//! Who is told that it would wait for ever, and when: at once, by whoever closes the circle, whatever
//! others do meanwhile; and nobody else.

use crate::actor::{Actor, Doing, start, until};
use cabrank::execution::interlock::Deadlock;
use cabrank::execution::interlock::OwnerState::{
    Draining, Loading, Permitting, Running, WaitingForChildren, WaitingToLoad, WaitingToUnload,
};
use cabrank::{AcquireError, Interlock};
use std::future::{pending, poll_fn};
use std::mem::replace;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Sender, channel};
use std::task::{Context, Poll, Waker};

/// A child of this actor's execution, which loads when it is told to, and says what came of it.
fn child_that_loads(parent: &Actor) -> (Sender<()>, Doing<Result<(), AcquireError>>) {
    let child = parent.tell(|r| r.child()).done();
    let (tell, told) = channel();
    let loads = start(move || {
        child.run(|r| {
            told.recv().expect("it is told");
            r.load(|_| ())
        })
    });
    (tell, loads)
}

#[track_caller]
fn deadlock<T>(result: Result<T, AcquireError>) -> Box<Deadlock> {
    match result {
        Err(AcquireError::Deadlock(deadlock)) => deadlock,
        Err(other) => panic!("a deadlock, not {other}"),
        Ok(_) => panic!("a deadlock"),
    }
}

#[test]
fn a_child_that_closes_the_circle_is_told() {
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
    waits.done().expect("it was not told").unwrap();
    assert_eq!(parent.state(), Some(Running));
}

/// The child has asked first.
#[test]
fn a_parent_that_closes_the_circle_by_its_wait_is_told() {
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

/// An actor that waits for its children until it is told that they have ended.
fn waits(actor: &Actor, permits: bool) -> Sender<()> {
    let (over, wait) = channel::<()>();
    let until_told = move || {
        let _ = wait.recv();
    };
    match permits {
        true => drop(actor.tell_until(Permitting, |r| r.permit_waiting(until_told))),
        false => drop(actor.tell_until(WaitingForChildren, |r| r.waiting(until_told))),
    }
    over
}

/// A grandparent that keeps its share, its child that permits loads, and this one's child that loads: each
/// waits for the next.
#[test]
fn a_circle_through_a_permit_block_is_told_to_whoever_closes_it() {
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

/// It asks to load, and its section ends in a panic: so nobody else has a turn before it runs again.
fn fails_to_load(actor: &Actor) -> Doing<bool> {
    actor.tell_until(WaitingToLoad, |r| {
        let load = || r.load(|_| resume_unwind(Box::new("nothing to load")));
        catch_unwind(AssertUnwindSafe(load)).is_err()
    })
}

/// A child lets a stranger load first, which waits for the parent's share: the parent, whose own section
/// has ended without a turn for anybody, would wait for the child. `ILK-DEADLOCK-TOLD` left out who drains, and
/// nobody was told.
#[test]
fn a_parent_that_would_wait_for_a_child_that_drains_is_told() {
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
    others.done().expect("it waits no more");
    loaded.done().expect("it has loaded");
}

/// The same through a permit block, told to whoever of the two waits last.
#[test]
fn a_circle_through_a_permit_block_and_a_child_that_drains_is_told() {
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
        others.done().expect("nobody has a share");
        loaded.done().expect("it has loaded");
    }
}

/// Whoever asks for something else does not wait any more, though the future that did was never dropped.
#[test]
fn a_wait_for_children_that_was_leaked_is_over_when_the_share_is_given_up() {
    let interlock = Interlock::new();
    let parent = Actor::enter(&interlock);
    let child = Actor::enter_as(&interlock, parent.tell(|r| r.child()).done());
    let stranger = Actor::enter(&interlock);
    let leak = |r: &mut cabrank::execution::interlock::Running<'_>| {
        let mut waits = Box::pin(r.waiting_async(pending::<()>()));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(waits.as_mut().poll(&mut cx).is_pending());
        std::mem::forget(waits);
    };
    parent.tell(leak).done();
    assert_eq!(parent.state(), Some(WaitingForChildren));
    let loads = parent.tell_until(WaitingToLoad, |r| r.load(|_| ()));
    let theirs = child.tell_until(WaitingToLoad, |r| r.load(|_| ()));
    stranger.leave();
    loads.done().expect("the child waits for no share that is kept");
    theirs.done().expect("nobody waits for it");

    parent.tell(leak).done();
    parent
        .tell(move |r| {
            r.permit_loads(|| child.tell(|r| r.load(|_| ())).done().map(|()| child.leave()))
        })
        .done()
        .expect("the only share")
        .expect("it is permitted");
    parent.leave();
}

/// The block around it waits for nobody whom the interlock knows. A block that was leaked inside it went on
/// counting as one that waits for its children, by the number of blocks alone.
#[test]
fn a_permit_block_that_waits_for_children_and_was_leaked_is_over_with_its_share() {
    let interlock = Interlock::new();
    let grandparent = Actor::enter(&interlock);
    let parent = Actor::enter_as(&interlock, grandparent.tell(|r| r.child()).done());
    let (load, loads) = child_that_loads(&parent);
    let ((leaked, has_leaked), (end, permit)) = (channel(), channel::<()>());
    let inside = interlock.clone();
    let permits = parent.tell(move |r| {
        r.permit_loads(|| {
            inside.run(|r| {
                let mut waits = Box::pin(r.permit_waiting_async(pending::<()>()));
                let mut cx = Context::from_waker(Waker::noop());
                assert!(waits.as_mut().poll(&mut cx).is_pending());
                std::mem::forget(waits);
            });
            leaked.send(()).expect("the test waits for it");
            permit.recv()
        })
    });
    has_leaked.recv().expect("it is leaked");
    assert_eq!(parent.state(), Some(Permitting));
    let over = waits(&grandparent, false);
    load.send(()).unwrap();
    until(&interlock, WaitingToLoad, 1);
    end.send(()).unwrap();
    permits.done().expect("the only share").unwrap();
    parent.leave();
    drop(over);
    grandparent.leave();
    loads.done().expect("nobody waits for it");
}

/// Those have nothing to do with it: one runs, one permits, one has a token that it does not use.
#[test]
fn a_deadlock_beside_bystanders_is_told_at_once() {
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
    waits.done().expect("it was not told").unwrap();

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

/// A load that was granted, given up or refused is no wait any more.
#[test]
fn a_child_that_has_waited_is_no_circle() {
    let interlock = Interlock::new();
    let parent = Actor::enter(&interlock);
    let (load, loads) = child_that_loads(&parent);
    load.send(()).unwrap();
    until(&interlock, WaitingToLoad, 1);
    parent.tell(|r| r.permit_loads(|| loads.done())).done().unwrap().expect("it is permitted");
    parent.tell(|r| r.waiting(|| ())).done().expect("nobody waits");

    let child = parent.tell(|r| r.child()).done();
    let refused = start(move || {
        let mut child = child.enter();
        let refused = child.try_load(|_| ());
        (child, refused)
    });
    let (child, refused) = refused.done();
    assert!(matches!(refused, Err(AcquireError::WouldBlock)));
    parent.tell(|r| r.waiting(|| ())).done().expect("nobody waits");
    drop(child);
    parent.leave();
}

/// The child may have a permit block to end, which waits for the holder and cannot be refused.
#[test]
fn whoever_holds_may_not_wait_for_its_children() {
    let interlock = Interlock::new();
    let parent = Actor::enter(&interlock);
    let child = parent.tell(|r| r.child()).done();
    let (end, permit) = channel::<()>();
    let permits = start(move || child.run(|r| r.permit_loads(|| permit.recv())));
    until(&interlock, Permitting, 1);
    let inner = interlock.clone();
    let waits = parent.tell(move |r| {
        r.load(|_| {
            let waited = inner.run(|r| r.waiting(|| unreachable!("for ever")));
            let joined = inner.run(|r| r.join(std::thread::spawn(|| ())));
            let blocked = inner.run(|r| r.blocking(|| unreachable!("for ever")));
            (waited, joined, blocked)
        })
    });
    let (waited, joined, blocked) = waits.done().expect("the permit block lets it");
    assert!(matches!(waited, Err(AcquireError::Nested)));
    assert!(matches!(joined, Err(AcquireError::Nested)));
    assert!(matches!(blocked, Err(AcquireError::Nested)));
    end.send(()).unwrap();
    permits.done().expect("the only share").unwrap();
    let inner = interlock.clone();
    let waits = parent.tell(move |r| r.load(|_| inner.run(|r| r.waiting(|| 8))));
    assert_eq!(waits.done().expect("alone").expect("there are no children any more"), 8);
    let (unused, inner) = (parent.tell(|r| r.child()).done(), interlock.clone());
    let waits = parent.tell(move |r| {
        r.load(|_| {
            drop(unused);
            inner.run(|r| r.waiting(|| 9))
        })
    });
    assert_eq!(waits.done().expect("alone").expect("it will be no child"), 9);
}

/// Draining is no less a part of an execution than running: if the child queued up, its parent would
/// resume, and might permit loads and wait for it.
#[test]
fn a_child_may_not_unload_while_its_parent_drains() {
    use cabrank::execution::interlock::OwnerState::{Entering, Unloading};
    let interlock = Interlock::new();
    let (parent, other) = (Actor::enter(&interlock), Actor::enter(&interlock));
    let sharer = Actor::enter(&interlock);
    let child = parent.tell(|r| r.child()).done();
    let (release, hold) = channel::<()>();
    let unloads = parent.tell_until(WaitingToUnload, |r| r.unload(move |_| hold.recv()));
    let other_unloads = other.tell_until(WaitingToUnload, |r| r.unload(|_| ()));
    sharer.leave();
    parent.until(Unloading);
    let (go, ready) = channel::<()>();
    let refused = start(move || {
        child.run(|r| {
            ready.recv().unwrap();
            r.unload(|_| ())
        })
    });
    until(&interlock, Entering, 1);
    release.send(()).unwrap();
    parent.until(Draining);
    go.send(()).unwrap();
    assert!(matches!(refused.done(), Err(AcquireError::Child)));
    other_unloads.done().expect("no deadlock");
    unloads.done().expect("no deadlock").unwrap();
}

/// Nobody would wake who waits to load but the one that begins to wait to unload, whose share was all
/// that was in the way.
#[test]
fn whoever_begins_to_wait_lets_others_go_on() {
    let interlock = Interlock::new();
    let (a, b) = (Actor::enter(&interlock), Actor::enter(&interlock));
    let loads = a.tell_until(WaitingToLoad, |r| r.load(|_| ()));
    let unloads = b.tell(|r| r.unload(|_| ()));
    loads.done().expect("no deadlock");
    a.leave();
    unloads.done().expect("no deadlock");
    b.leave();
}

/// The same of who gives up: its entry kept a newcomer out.
#[test]
fn whoever_gives_up_lets_others_go_on() {
    let clock = cabrank::ManualClock::new();
    let interlock = Interlock::with_clock(clock.clock());
    let (a, b) = (Actor::enter(&interlock), Actor::enter(&interlock));
    let second = crate::common::SECOND;
    let unloads = a.tell_until(WaitingToUnload, move |r| r.unload_timeout(second, |_| ()));
    let theirs = interlock.clone();
    let enters = start(move || theirs.run(|_| ()));
    until(&interlock, cabrank::execution::interlock::OwnerState::Entering, 1);
    clock.advance(second);
    enters.done();
    assert!(matches!(unloads.done(), Err(AcquireError::TimedOut)));
    b.leave();
}

/// And of who has drained.
#[test]
fn whoever_has_drained_lets_others_go_on() {
    let interlock = Interlock::new();
    let (a, b) = (Actor::enter(&interlock), Actor::enter(&interlock));
    let (release, hold) = channel::<()>();
    let first = a.tell_until(WaitingToLoad, |r| r.load(move |_| hold.recv()));
    let second = b.tell(|r| r.load(|_| ()));
    a.until(Loading);
    let theirs = interlock.clone();
    let enters = start(move || theirs.run(|_| ()));
    until(&interlock, cabrank::execution::interlock::OwnerState::Entering, 1);
    release.send(()).unwrap();
    first.done().expect("no deadlock").unwrap();
    second.done().expect("no deadlock");
    enters.done();
}

/// The dump knew that a parent waits for an execution begun inside it by a guard, and nobody was told: only
/// those begun with a token counted. Now all do, and whoever closes the circle is refused.
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
    waits.done().expect("it was not told").unwrap();

    let other = interlock.clone();
    let mut guard = parent.tell(move |_| other.enter()).done();
    let loads = start(move || guard.load(|_| ()));
    until(&interlock, WaitingToLoad, 1);
    deadlock(parent.tell(|r| r.waiting(|| unreachable!("for ever"))).done());
    assert_eq!(interlock.dump().cycle(), None, "nobody waits for ever of whom nobody was told");
    parent.leave();
    loads.done().expect("nobody else has a share");
}

/// A guard that was refused, or has ended, is no child.
#[test]
fn a_guard_that_is_gone_is_no_child() {
    let interlock = Interlock::new();
    interlock.run(|r| {
        drop(interlock.enter());
        r.load(|_| {
            interlock.run(|r| assert!(interlock.try_enter().is_err() && r.waiting(|| ()).is_ok()))
        })
        .expect("nobody else runs");
    });
}

/// What this thread is in goes on only when the wait has ended: it waited for itself, in silence.
#[test]
fn a_wait_for_what_the_same_thread_is_in_is_told() {
    crate::common::soon(|| {
        let interlock = Interlock::new();
        let told = interlock.run(|r| (r.id(), deadlock(interlock.enter().load(|_| ()))));
        assert_eq!(told.1.cycle()[1], told.0);
        assert!(
            told.1.to_string().ends_with("0.1 is where the thread is that waits"),
            "{}",
            told.1
        );

        deadlock(interlock.run(|r| r.child().run(|c| c.load(|_| ()))));
        let mut stranger = interlock.enter();
        interlock.run(|_| deadlock(stranger.unload(|_| ())));
        // In a permit block loads are permitted, and unloads are not.
        interlock.run(|r| {
            let permitted = r.permit_loads(|| (stranger.load(|_| ()), stranger.unload(|_| ())));
            let (loaded, unloaded) = permitted.expect("the only share");
            loaded.expect("it is permitted");
            deadlock(unloaded);
        });
        interlock.run(|_| assert!(stranger.try_load(|_| ()).is_err()));
        stranger.unload(|_| ()).expect("nobody else is left");
    });
}

/// A permit block is polled inside another execution, which has begun to load: a share on top of it would wait for
/// the thread's own section.
#[test]
fn a_share_on_a_permit_block_inside_the_holder_of_the_same_thread_is_told() {
    crate::common::soon(|| {
        let (interlock, mut cx) = (Interlock::new(), Context::from_waker(Waker::noop()));
        let (mut other, (tell, told)) = (interlock.enter(), channel());
        let (inside, mut opens) = (interlock.clone(), true);
        let mut permit = Box::pin(other.permit_loads_async(async {
            poll_fn(|_| if replace(&mut opens, false) { Poll::Pending } else { Poll::Ready(()) })
                .await;
            let nested = inside.run_timeout(crate::common::SECOND, |_| ());
            tell.send(nested).expect("it is kept");
        }));
        assert!(permit.as_mut().poll(&mut cx).is_pending());
        let holder = interlock.run(|holder| {
            let mut loads = Box::pin(holder.load_async());
            let Poll::Ready(Ok(guard)) = loads.as_mut().poll(&mut cx) else {
                panic!("it is permitted")
            };
            assert!(permit.as_mut().poll(&mut cx).is_pending(), "somebody loads");
            drop(guard);
            drop(loads);
            holder.id()
        });
        assert!(permit.as_mut().poll(&mut cx).is_ready());
        drop(permit);
        let cycle = deadlock(told.recv().expect("it has asked")).cycle();
        assert_eq!(cycle, [other.id(), holder]);
    });
}

/// A child that enters where its thread loads waits for itself: it panics, as a guard does.
#[test]
#[should_panic(expected = "this thread loads or unloads")]
fn a_child_does_not_enter_where_its_thread_loads() {
    let interlock = Interlock::new();
    interlock.run(|r| {
        let child = r.child();
        let _ = r.load(|_| interlock.run(|_| child.run(|_| ())));
    });
}

/// An unload that waits for this thread would keep out the child of somebody who has left.
#[test]
fn a_child_enters_at_once_where_its_thread_is_in_an_execution() {
    let interlock = Interlock::new();
    let orphan = interlock.enter().child();
    let other = interlock.clone();
    let unloads = crate::common::soon(move || {
        let inside = other.clone();
        other.run(|_| {
            let unloads = start(move || inside.unload(|_| ()));
            until(&other, WaitingToUnload, 1);
            orphan.run(|_| ());
            unloads
        })
    });
    unloads.done().expect("no deadlock");
    drop(interlock);
}

/// As a thread does, so does a task that waits for its children say so.
#[test]
fn a_task_that_waits_for_its_children_is_told_of_a_circle() {
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
    assert_eq!(crate::actor::count(&interlock, WaitingForChildren), 1);
    let told = start(move || child.run(|r| r.load(|_| ()))).done();
    deadlock(told);
    drop(waits);
    assert!(interlock.dump().owners.is_empty());
}

/// Each waits, in a permit block, for its child. That the last one waits to load is counted all the way up, and
/// was so by recursion: the stack of whoever asked overflowed under the lock, which aborts the process.
#[test]
fn a_circle_through_a_long_line_of_permit_blocks_is_told_on_a_small_stack() {
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
