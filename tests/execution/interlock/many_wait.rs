//! Each end at which others go on, with two threads and two tasks that wait for it. A load ends, an unload, a permit
//! block, or the last execution.

use crate::common::before_long;
use crate::common::task::Task;
use crate::interlock::actor::{Actor, Doing, count, start, until};
use cabrank::Interlock;
use cabrank::execution::interlock::OwnerState::{
    Entering, Loading, Permitting, Resuming, Running, Unloading, WaitingToUnload,
};
use cabrank::execution::interlock::{AcquireError, OwnerState};
use std::cell::RefCell;
use std::sync::mpsc::{Receiver, Sender, channel};

/// Starts two threads and two tasks that do this, and waits until four more owners are in the state.
#[track_caller]
fn four<T: Send + 'static>(
    interlock: &Interlock,
    state: OwnerState,
    thread: fn(&Interlock) -> T,
    task: impl AsyncTask<T>,
) -> ([Doing<T>; 2], [Task<T>; 2]) {
    let before = count(interlock, state);
    let threads = [(); 2].map(|()| {
        let theirs = interlock.clone();
        start(move || thread(&theirs))
    });
    let tasks = [(); 2].map(|()| {
        let mut task = task.start(interlock);
        assert!(task.poll().is_none(), "it waits");
        task
    });
    until(interlock, state, before + 4);
    (threads, tasks)
}

trait AsyncTask<T> {
    fn start(&self, interlock: &Interlock) -> Task<T>;
}

impl<T, F: Fn(Interlock) -> Task<T>> AsyncTask<T> for F {
    fn start(&self, interlock: &Interlock) -> Task<T> {
        self(interlock.clone())
    }
}

type Ended = Result<(), AcquireError>;

fn enters(interlock: &Interlock) -> Ended {
    interlock.run(|_| ())
}
fn task_enters(interlock: Interlock) -> Task<Ended> {
    Task::new(async move { interlock.run_async(async |_| ()).await })
}

#[track_caller]
fn all_end((threads, tasks): ([Doing<Ended>; 2], [Task<Ended>; 2])) {
    for task in tasks {
        task.finish().expect("no time limit");
    }
    for thread in threads {
        thread.done().expect("no time limit");
    }
}

/// Does this until the test drops the sender.
fn hold(
    interlock: &Interlock,
    state: OwnerState,
    hold: impl FnOnce(&Interlock, Receiver<()>) + Send + 'static,
) -> (Doing<()>, Sender<()>) {
    let (release, held) = channel();
    let theirs = interlock.clone();
    let holds = start(move || hold(&theirs, held));
    until(interlock, state, 1);
    (holds, release)
}

fn loads(interlock: &Interlock, held: Receiver<()>) {
    interlock.run(|r| r.load(|_| held.recv().is_ok())).expect("no limit").expect("no limit");
}
fn unloads(interlock: &Interlock, held: Receiver<()>) {
    interlock.unload(|_| held.recv().is_ok()).expect("no limit");
}

#[test]
fn the_end_of_a_load_or_of_an_unload_lets_each_newcomer_enter() {
    type Hold = fn(&Interlock, Receiver<()>);
    for (state, holder) in [(Loading, loads as Hold), (Unloading, unloads)] {
        let interlock = Interlock::new();
        let (holds, release) = hold(&interlock, state, holder);
        let newcomers = four(&interlock, Entering, enters, task_enters);
        drop(release);
        holds.done();
        all_end(newcomers);
        assert!(interlock.dump().owners.is_empty(), "{}", interlock.dump());
    }
}

/// Each of them is woken once, and by the section that lets it go on.
#[test]
fn an_unload_that_is_given_up_lets_each_newcomer_enter() {
    let interlock = Interlock::new();
    let sharer = Actor::enter(&interlock);
    let theirs = interlock.clone();
    let mut unload = Task::new(async move { theirs.unload_async(async |_| ()).await });
    assert!(unload.poll().is_none());
    let (threads, tasks) = four(&interlock, Entering, enters, task_enters);
    drop(unload);
    assert_eq!(tasks.each_ref().map(Task::wakes), [1, 1]);
    all_end((threads, tasks));
    sharer.leave();
}

/// Their shares come back together. They wait for the holder only.
#[test]
fn the_end_of_a_load_gives_each_share_back_after_a_permit_block() {
    let interlock = Interlock::new();
    let (end, block) = channel::<()>();
    let block = std::sync::Arc::new(std::sync::Mutex::new(block));
    let threads = [(); 2].map(|()| {
        let (theirs, block) = (interlock.clone(), block.clone());
        start(move || {
            let in_block = || block.lock().expect("no panic").recv().is_err();
            theirs.run(|r| (r.permit_loads(in_block), r.has_share()))
        })
    });
    let tasks = [(); 2].map(|()| {
        let theirs = interlock.clone();
        let mut task = Task::new(async move {
            let body = async |r: &mut cabrank::execution::interlock::Running<'_>| {
                (r.permit_loads_async(crate::polling::yield_once()).await, r.has_share())
            };
            theirs.run_async(body).await
        });
        assert!(task.poll().is_none());
        task
    });
    until(&interlock, Permitting, 4);
    let (holds, release) = hold(&interlock, Loading, loads);
    drop(end);
    let mut tasks = tasks;
    assert!(tasks.iter_mut().all(|task| task.poll().is_none()));
    until(&interlock, Resuming, 4);
    let woken = tasks.each_ref().map(Task::wakes);
    drop(release);
    holds.done();
    assert_eq!(tasks.each_ref().map(Task::wakes), woken.map(|wakes| wakes + 1));
    for task in tasks {
        let (permitted, has_share) = task.finish().expect("no limit");
        assert!(permitted.is_ok() && has_share);
    }
    for thread in threads {
        let (permitted, has_share) = thread.done().expect("no limit");
        assert!(permitted.expect("no limit") && has_share);
    }
}

/// One after the other: each unload ends the wait of the next one.
#[test]
fn the_last_leave_lets_each_unload_begin_in_turn() {
    let interlock = Interlock::new();
    let sharer = Actor::enter(&interlock);
    let unload = |interlock: Interlock| {
        let mut task = Task::new(async move { interlock.unload_async(async |_| ()).await });
        assert!(task.poll().is_none());
        task
    };
    // Each has entered before the next one asks: a waiting unload keeps newcomers out.
    let first = unload(interlock.clone());
    let others = four(&interlock, Entering, |interlock| interlock.unload(|_| ()), unload);
    assert_eq!(count(&interlock, WaitingToUnload), 1);
    sharer.leave();
    first.finish().expect("no limit");
    // The newcomers enter together, and then wait for each other.
    let (threads, tasks) = others;
    let left = RefCell::new(Vec::from(tasks));
    before_long(|| {
        left.borrow_mut().retain_mut(|task| task.poll().is_none());
        left.borrow().is_empty()
    });
    threads.into_iter().for_each(|thread| thread.done().expect("no limit"));
    assert_eq!(interlock.generation(), 5);
    assert!(interlock.dump().owners.is_empty(), "{}", interlock.dump());
}

/// A permit block lets loads begin, but no unload. Its end lets both of two unloads begin.
#[test]
fn the_end_of_a_permit_block_lets_each_unload_begin() {
    let interlock = Interlock::new();
    let permits = Actor::enter(&interlock);
    let (end, block) = channel::<()>();
    let ends = permits.order_until(Permitting, move |r| r.permit_loads(|| block.recv().is_err()));
    let unloads = [(); 2].map(|()| {
        let theirs = interlock.clone();
        start(move || theirs.unload(|_| ()))
    });
    until(&interlock, WaitingToUnload, 2);
    drop(end);
    assert!(ends.done().expect("no limit"));
    assert_eq!(permits.state(), Some(Running));
    assert!(unloads.iter().all(Doing::is_stuck));
    permits.leave();
    unloads.into_iter().for_each(|unload| unload.done().expect("no limit"));
    assert_eq!(interlock.generation(), 2);
}
