//! Threads that end: thread-local values are dropped after the thread's other locals, among them the
//! pool's own.

use crate::common::{Pool, Rig, SECOND, Session, app, soon};
use crate::user_code::assert_usable;
use cabrank::in_memory::{Call, Spawn};
use std::cell::RefCell;

thread_local! {
    static KEPT: RefCell<Option<Session>> = const { RefCell::new(None) };
}

/// Runs a thread that keeps a session with `x` in a thread-local, calls `act`, and ends.
fn keep_session_and(pool: &Pool, act: impl FnOnce(&Pool, &Session) + Send + 'static) {
    let theirs = pool.clone();
    let thread = std::thread::spawn(move || {
        // Initialised before the pool's thread-local, so dropped after it.
        KEPT.with_borrow_mut(|kept| *kept = None);
        let session = theirs.get(&app("x")).expect("a session");
        act(&theirs, &session);
        KEPT.with_borrow_mut(|kept| *kept = Some(session));
    });
    soon(move || thread.join()).expect("no panic");
}

#[test]
fn a_session_may_be_closed_by_the_end_of_its_thread() {
    let rig = Rig::new(|b| b);
    keep_session_and(&rig.pool, |_, _| ());
    assert_eq!(rig.counts(), (0, 1));
    // The close then shuts the process down.
    keep_session_and(&rig.pool, |pool, session| assert!(pool.detach(Session::identifier(session))));
    assert_eq!(rig.counts(), (0, 0));
    assert_eq!(rig.gone(), [1]);
    assert_usable(&rig);
}

/// Returns the result of a get of another group that waits while the thread with the only session
/// ends.
fn result_of_a_waiter(rig: &Rig) -> Result<(), cabrank::application_pool::GetError> {
    let (ask, asked) = std::sync::mpsc::channel();
    let theirs = rig.pool.clone();
    keep_session_and(&rig.pool, move |pool, _| {
        let waiting = std::thread::spawn(move || theirs.get(&app("y")).map(drop));
        crate::common::before_long(|| pool.counts().waiting == 1);
        ask.send(waiting).expect("it is wanted");
    });
    let waiting = asked.recv().expect("it was sent");
    soon(move || waiting.join()).expect("no panic")
}

/// The pool spawns a process for the waiter.
#[test]
fn the_end_of_a_thread_makes_room_for_a_waiter() {
    let rig = Rig::new(|b| b.max(1));
    result_of_a_waiter(&rig).expect("served");
    assert_eq!(rig.gone(), [1]);
    assert_usable(&rig);
}

/// The spawn in whose favour the process is evicted has begun, and hangs. The close must not wait for it, although the
/// thread's first stack of its work is already dropped.
#[test]
fn a_process_may_close_the_pool_when_it_is_shut_down_by_the_end_of_a_thread() {
    let rig = Rig::new(|b| b.max(1));
    let weak = rig.pool.downgrade();
    rig.spawner.on_call(move |call| {
        if call == Call::ShutDown
            && let Some(pool) = weak.upgrade()
        {
            pool.close();
        }
    });
    rig.spawner.always("/srv/y", Spawn::ready().held());
    let result = result_of_a_waiter(&rig);
    assert!(matches!(result, Err(cabrank::application_pool::GetError::Closed)), "{result:?}");
    rig.spawner.release();
    let pool = rig.pool.clone();
    assert!(soon(move || pool.wait_closed(SECOND)));
}

/// Calls the pool in a destructor of a thread-local, outside all work of the pool.
struct Calls(Box<dyn FnOnce() + Send>);

impl Drop for Calls {
    fn drop(&mut self) {
        std::mem::replace(&mut self.0, Box::new(|| ()))();
    }
}

thread_local! {
    static CALLS: RefCell<Option<Calls>> = const { RefCell::new(None) };
}

/// The thread is in no call by the pool, so it may wait, although the pool's own locals are gone.
#[test]
fn the_end_of_a_thread_may_wait_for_a_process() {
    let rig = Rig::new(|b| b.max(1));
    let only = rig.pool.get(&app("x")).expect("a session");
    let (pool, (served, is_served)) = (rig.pool.clone(), std::sync::mpsc::channel());
    let thread = std::thread::spawn(move || {
        CALLS.with_borrow_mut(|calls| {
            let theirs = pool.clone();
            *calls = Some(Calls(Box::new(move || {
                served.send(theirs.get(&app("x")).map(drop)).expect("the test waits");
            })));
        });
        // Initialises the pool's own locals, which the thread drops first.
        assert!(pool.try_get(&app("x")).is_err());
    });
    crate::common::before_long(|| rig.pool.counts().waiting == 1);
    drop(only);
    is_served.recv().expect("it was called").expect("a session");
    soon(move || thread.join()).expect("no panic");
    assert_usable(&rig);
}
