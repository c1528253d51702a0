//! `get_async` and `checkout_async` without a runtime: the test polls futures by hand, or threads sleep until
//! they are woken. `errata/sessions.rs` drops a future at each of its awaits (E16).

use crate::common::task::{Task, block_on};
use crate::common::{Pool, Rig, SECOND, Session, app, soon};
use cabrank::application_pool::{GetError, Process};
use cabrank::in_memory::{InMemoryConnection, InMemorySpawner, Spawn};
use std::task::Waker;

#[test]
fn a_get_is_served_at_once_if_a_process_is_idle() {
    let rig = Rig::new(|b| b);
    rig.idle(&app("x"), 1);
    let mut task = rig.task(&app("x"));
    let session = task.poll().expect("at once").expect("a session");
    assert_eq!(session.request("hello"), "hello from /srv/x");
    assert_eq!((rig.counts(), task.wakes()), ((1, 1), 0));
}

#[test]
fn a_get_is_woken_once_when_its_process_has_been_spawned() {
    let rig = Rig::new(|b| b);
    rig.spawner.next(Spawn::ready().held());
    let mut task = rig.task(&app("x"));
    assert!(task.poll().is_none());
    assert_eq!(rig.pool.counts().waiting, 1);
    rig.spawner.release();
    rig.until(|| task.wakes() == 1);
    assert_eq!(
        (rig.counts(), rig.pool.counts().waiting),
        ((1, 1), 0),
        "it has its session already"
    );
    drop(task.poll().expect("it is ready").expect("a session"));
    assert_eq!(task.wakes(), 1);
}

#[test]
fn a_get_is_woken_once_with_the_error_of_its_spawn() {
    let rig = Rig::new(|b| b);
    rig.spawner.next(Spawn::fail("no database").held());
    let mut task = rig.task(&app("x"));
    assert!(task.poll().is_none());
    rig.spawner.release();
    rig.until(|| task.wakes() == 1);
    let error = task.poll().expect("it is ready").expect_err("no process");
    assert!(matches!(&error, GetError::Spawn(e) if e.to_string() == "no database"));
    assert_eq!(rig.pool.counts().waiting, 0);
}

#[test]
fn a_poll_without_a_wake_up_changes_no_state() {
    let rig = Rig::new(|b| b.max(1));
    let busy = rig.get(&app("x"));
    let mut task = rig.task(&app("x"));
    for _ in 0..5 {
        assert!(task.poll().is_none());
        assert_eq!((rig.pool.counts().waiting, task.wakes()), (1, 0));
    }
    drop(busy);
    assert_eq!(task.wakes(), 1);
    assert!(task.poll().expect("it is ready").is_ok());
}

/// A task may move to another executor between two polls.
#[test]
fn the_waker_of_the_latest_poll_is_woken() {
    let rig = Rig::new(|b| b.max(1));
    let busy = rig.get(&app("x"));
    let mut task = rig.task(&app("x"));
    assert!(task.poll_with(Waker::noop()).is_none());
    assert!(task.poll().is_none());
    drop(busy);
    assert_eq!(task.wakes(), 1);
    assert!(task.poll().expect("it is ready").is_ok());
}

#[test]
fn a_dropped_future_is_skipped() {
    let rig = Rig::new(|b| b.max(1));
    let busy = rig.get(&app("x"));
    let [mut first, mut second, mut third] = [(); 3].map(|()| rig.task(&app("x")));
    assert!(first.poll().is_none() && second.poll().is_none() && third.poll().is_none());
    drop(second);
    assert_eq!(rig.pool.counts().waiting, 2);
    drop(busy);
    assert_eq!([first.wakes(), third.wakes()], [1, 0]);
    drop(first.poll().expect("it is ready").expect("a session"));
    assert_eq!(third.wakes(), 1);
    assert!(third.poll().expect("it is ready").is_ok());
}

#[test]
fn a_dropped_future_passes_on_its_grant() {
    let rig = Rig::new(|b| b.max(1));
    let busy = rig.get(&app("x"));
    let [mut first, mut second] = [(); 2].map(|()| rig.task(&app("x")));
    assert!(first.poll().is_none() && second.poll().is_none());
    drop(busy);
    assert_eq!([first.wakes(), second.wakes()], [1, 0]);
    drop(first);
    assert_eq!((second.wakes(), rig.counts()), (1, (1, 1)));
    let session = second.poll().expect("it is ready").expect("a session");
    assert_eq!(rig.group(&app("x")).processes[0].processed, 1, "the first was no request");
    drop(session);
}

#[test]
fn tasks_and_threads_wait_in_one_queue() {
    let rig = Rig::new(|b| b.max(1));
    let busy = rig.get(&app("x"));
    let mut first = rig.task(&app("x"));
    assert!(first.poll().is_none());
    let second = rig.queue_get(&app("x"));
    let mut third = rig.task(&app("x"));
    assert!(third.poll().is_none());
    drop(busy);
    let session = first.poll().expect("it is ready").expect("a session");
    assert!(second.is_pending());
    drop(session);
    let session = second.session();
    assert_eq!(third.wakes(), 0);
    drop(session);
    assert!(third.poll().expect("it is ready").is_ok());
}

#[test]
fn a_dead_process_is_replaced_within_the_same_future() {
    let rig = Rig::new(|b| b);
    rig.idle(&app("x"), 2);
    rig.clock.advance(30 * SECOND); // They do not die early.
    rig.spawner.processes().iter().for_each(|process| process.kill());
    let session = rig.task(&app("x")).finish().expect("a session");
    assert_eq!((session.pid(), rig.counts()), (3, (1, 1)));
}

#[test]
fn a_checkout_gives_the_process_and_leaves_connecting_to_the_caller() {
    let rig = Rig::new(|b| b);
    let (pool, x) = (rig.pool.clone(), app("x"));
    let checkout = || {
        let (pool, x) = (pool.clone(), x.clone());
        Task::new(async move { pool.checkout_async(&x).await }).finish().expect("a lease")
    };
    let lease = checkout();
    assert_eq!(rig.counts(), (1, 1));
    let connection = lease.process().connect().expect("a connection");
    let session: Session = lease.connected(connection);
    assert_eq!(session.request("hello"), "hello from /srv/x");
    drop(session);
    assert_eq!(rig.group(&x).processes[0].processed, 1);

    checkout().cancel();
    assert_eq!((rig.counts(), rig.group(&x).processes[0].processed), ((0, 1), 1));
    checkout().close();
    assert_eq!((rig.counts(), rig.group(&x).processes[0].processed), ((0, 1), 2));
    checkout().fail();
    assert_eq!(rig.counts(), (0, 0));
}

#[test]
fn a_checkout_that_waits_is_woken_and_may_be_dropped() {
    let rig = Rig::new(|b| b.max(1));
    let busy = rig.get(&app("x"));
    let task = || {
        let pool = rig.pool.clone();
        Task::new(async move { pool.checkout_async(&app("x")).await })
    };
    let (mut first, mut second) = (task(), task());
    assert!(first.poll().is_none() && second.poll().is_none());
    drop(first);
    drop(busy);
    assert_eq!(second.wakes(), 1);
    drop(second.poll().expect("it is ready").expect("a lease"));
    assert_eq!((rig.counts(), rig.pool.counts().waiting), ((0, 1), 0));
}

#[test]
fn threads_that_sleep_until_they_are_woken_are_all_served() {
    let rig = Rig::new(|b| b.max(2));
    let clients: Vec<_> = (0..8)
        .map(|client| {
            let pool = rig.pool.clone();
            std::thread::spawn(move || {
                let served = (0..20).filter(|round| {
                    let app = app(["x", "y", "z"][(client + round) % 3]);
                    block_on(pool.get_async(&app)).is_ok()
                });
                served.count()
            })
        })
        .collect();
    for client in clients {
        assert_eq!(soon(move || client.join()).expect("no panic"), 20);
    }
    rig.eventually(|c| c.active == 0 && c.waiting == 0 && c.spawning == 0);
}

/// One thread polls the future, a second wakes it, and a third finishes it.
#[test]
fn a_get_may_move_between_threads() {
    let rig = Rig::new(|b| b.max(1));
    let busy = rig.get(&app("x"));
    let mut task = rig.task(&app("x"));
    assert!(task.poll().is_none());
    let finishing = std::thread::spawn(move || task.finish());
    std::thread::spawn(move || drop(busy)).join().expect("no panic");
    let session = soon(move || finishing.join()).expect("no panic").expect("a session");
    assert_eq!(session.pid(), 1);
}

/// The compiler checks this.
#[test]
fn futures_sessions_and_pools_may_be_sent_and_handles_shared() {
    fn is_send<T: Send>(_: &T) {}
    fn is_shared<T: Send + Sync + 'static>() {}
    let rig = Rig::new(|b| b);
    let (pool, x) = (rig.pool.clone(), app("x"));
    is_send(&pool.get_async(&x));
    is_send(&pool.checkout_async(&x));
    is_send(&rig.get(&x));
    is_send(&rig.pool.try_checkout(&x));
    is_shared::<Pool>();
    is_shared::<cabrank::application_pool::WeakPool<InMemorySpawner>>();
    is_shared::<cabrank::PoolOptions>();
    is_shared::<GetError>();
    is_shared::<InMemoryConnection>();
}
