//! Sessions, leases and handles that are dropped by a panic, on a thread that unwinds: each counts as any other drop.

use crate::common::{Pool, Rig, SECOND, app, soon};
use crate::user_code::ON_PURPOSE;
use cabrank::Session;
use cabrank::application_pool::ShutDown;

/// Runs `work` on a thread of its own, which panics after it with all that `work` returns still alive.
#[track_caller]
fn unwind_with<T>(work: impl FnOnce() -> T + Send + 'static) {
    let thread = std::thread::spawn(move || {
        let _held = work();
        // Panics without calling the panic hook.
        std::panic::resume_unwind(Box::new(ON_PURPOSE));
    });
    assert!(soon(move || thread.join()).is_err(), "it panics");
}

/// Asserts that a get is served at once: each place is free.
#[track_caller]
fn assert_free(pool: &Pool, processed: usize) {
    assert_eq!((pool.counts().active, pool.counts().draining), (0, 0));
    assert_eq!(pool.snapshot().groups[0].processes[0].processed, processed);
    drop(pool.try_checkout(&app("x")).expect("the process is free"));
}

#[test]
fn a_session_that_a_panic_drops_is_closed() {
    let rig = Rig::new(|b| b.max(1));
    let pool = rig.pool.clone();
    unwind_with(move || pool.get(&app("x")).expect("a session"));
    assert_free(&rig.pool, 1);
}

#[test]
fn a_lease_that_a_panic_drops_is_closed() {
    let rig = Rig::new(|b| b.max(1));
    let pool = rig.pool.clone();
    unwind_with(move || pool.checkout(&app("x")).expect("a lease"));
    assert_free(&rig.pool, 1);
}

/// Where the destructor of a user's value ends a session or lease, a panic elsewhere may have called it.
#[test]
fn sessions_and_leases_may_be_ended_while_a_thread_unwinds() {
    struct Ends(Option<Box<dyn FnOnce() + Send>>);
    impl Drop for Ends {
        fn drop(&mut self) {
            self.0.take().expect("once")();
        }
    }
    type End = fn(&Pool);
    let ends: [(End, usize, usize); 6] = [
        (|pool| pool.checkout(&app("x")).expect("a lease").cancel(), 0, 1),
        (|pool| pool.checkout(&app("x")).expect("a lease").fail(), 0, 0),
        (|pool| Session::cancel(pool.get(&app("x")).expect("a session")), 0, 1),
        (|pool| Session::close(pool.get(&app("x")).expect("a session")), 1, 1),
        (|pool| Session::fail(pool.get(&app("x")).expect("a session")), 0, 0),
        (|pool| assert!(pool.detach_group("/srv/x")), 0, 0),
    ];
    for (end, processed, left) in ends {
        let rig = Rig::new(|b| b.max(1));
        rig.idle(&app("x"), 1);
        let before = rig.pool.snapshot().totals.processed;
        let pool = rig.pool.clone();
        unwind_with(move || Ends(Some(Box::new(move || end(&pool)))));
        assert_eq!(rig.counts(), (0, left));
        assert_eq!(rig.pool.snapshot().totals.processed - before, processed as u64);
        rig.eventually(|c| c.spawning == 0);
    }
}

/// A session of a detached process: its end shuts the process down.
#[test]
fn a_panic_that_drops_the_last_session_of_a_drain_ends_it() {
    let rig = Rig::new(|b| b.max(1));
    let pool = rig.pool.clone();
    unwind_with(move || {
        let session = pool.get(&app("x")).expect("a session");
        assert!(pool.detach(Session::identifier(&session)));
        session
    });
    assert_eq!(rig.spawner.shut_down(), [(1, ShutDown::Drained)]);
    assert_eq!(rig.pool.counts().draining, 0);
}

#[test]
fn a_get_that_waits_is_served_when_a_panic_drops_the_session() {
    let rig = Rig::new(|b| b.max(1));
    let session = rig.get(&app("x"));
    let waits = rig.queue_get(&app("x"));
    let mut task = rig.task(&app("x"));
    assert!(task.poll().is_none());
    unwind_with(move || session);
    drop(waits.session());
    drop(task.finish().expect("a session"));
}

/// Its place goes to the next get, and a session that it was granted passes on.
#[test]
fn a_future_that_a_panic_drops_leaves_the_queue() {
    let rig = Rig::new(|b| b.max(1));
    let session = rig.get(&app("x"));
    let [mut waits, mut granted, mut next] = [(); 3].map(|()| rig.task(&app("x")));
    assert!([&mut waits, &mut granted, &mut next].into_iter().all(|task| task.poll().is_none()));
    unwind_with(move || waits);
    assert_eq!(rig.pool.counts().waiting, 2);
    drop(session);
    assert_eq!((granted.wakes(), next.wakes()), (1, 0));
    unwind_with(move || granted);
    assert_eq!(next.wakes(), 1);
    drop(next.poll().expect("it was granted").expect("a session"));
    assert_eq!((rig.counts(), rig.pool.counts().waiting), ((0, 1), 0));
}

#[test]
fn a_pool_whose_last_handle_a_panic_drops_is_closed() {
    let rig = Rig::new(|b| b);
    rig.idle(&app("x"), 1);
    let session = rig.get(&app("y"));
    let (weak, spawner) = (rig.pool.downgrade(), rig.spawner.clone());
    let Rig { pool, .. } = rig;
    unwind_with(move || pool);
    assert!(weak.upgrade().is_none());
    assert_eq!(spawner.shut_down(), [(1, ShutDown::Drained)], "the idle one");
    drop(session);
    assert_eq!(spawner.shut_down().len(), 2);
}

#[test]
fn each_clone_of_a_weak_handle_finds_the_pool_and_keeps_it_from_no_close() {
    let rig = Rig::new(|b| b);
    rig.idle(&app("x"), 1);
    let weak = rig.pool.downgrade();
    let clones = [weak.clone(), weak.clone().clone(), rig.pool.clone().downgrade()];
    for weak in &clones {
        let pool = weak.upgrade().expect("a handle keeps it open");
        assert_eq!(pool.counts().count, 1);
        drop(pool);
        assert!(!rig.pool.snapshot().closed, "another handle is left");
    }
    let upgraded = clones[1].upgrade().expect("a handle keeps it open");
    let Rig { pool, spawner, .. } = rig;
    drop(pool);
    assert_eq!(spawner.shut_down(), [], "the upgraded handle keeps it open");
    drop(upgraded);
    assert_eq!(spawner.shut_down().len(), 1);
    assert!(clones.iter().chain([&weak]).all(|weak| weak.upgrade().is_none()));
}

/// A nested call of the library from user code does not end the outer one: the thread still works for the pool, so a
/// close from within does not wait for that very code.
#[test]
fn user_code_may_close_its_pool_after_a_nested_call() {
    let rig = Rig::new(|b| b);
    let (first, second) = (rig.get(&app("x")), rig.get(&app("y")));
    let inner = std::sync::Mutex::new(Some(second));
    let (weak, (sender, ended)) = (rig.pool.downgrade(), std::sync::mpsc::channel());
    rig.spawner.on_call(move |call| {
        if call != cabrank::in_memory::Call::ShutDown {
            return;
        }
        let nested = inner.lock().expect("no panic under this lock").take();
        let Some((pool, session)) = weak.upgrade().zip(nested) else { return };
        // This shuts another process down, and so runs effects of its own.
        Session::fail(session);
        let in_time = pool.wait_closed(100 * SECOND);
        let left = pool.close_timeout(100 * SECOND).map_err(|left| left.shutting_down());
        let _ = sender.send((in_time, left));
    });
    let thread = std::thread::spawn(move || Session::fail(first));
    soon(move || thread.join()).expect("no panic");
    assert_eq!(ended.recv(), Ok((false, Err(1))));
}

/// The next session finds the process free of the connection, and a process is shut down without one.
#[test]
fn each_end_of_a_session_drops_its_connection_first() {
    use cabrank::in_memory::Call::{DropConnection, ShutDown};
    let ends: [fn(Session<cabrank::in_memory::InMemorySpawner>); 4] =
        [Session::fail, Session::cancel, Session::close, drop];
    for end in ends {
        let rig = Rig::new(|b| b);
        let session = rig.get(&app("x").with_max_requests(1));
        let calls = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let (seen, weak) = (calls.clone(), rig.pool.downgrade());
        rig.spawner.on_call(move |call| {
            if let (DropConnection | ShutDown, Some(pool)) = (call, weak.upgrade()) {
                seen.lock().expect("no panic under this lock").push((call, pool.counts().draining));
            }
        });
        end(session);
        let calls = calls.lock().expect("no panic under this lock").clone();
        assert_eq!(calls, [(DropConnection, 1), (ShutDown, 0)]);
    }
}
