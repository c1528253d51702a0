//! Each end that callers wait for ends the wait of all of them: two threads wait in each test, and two tasks where a
//! task can wait.

use crate::common::task::Task;
use crate::common::{Gate, Getting, Got, Rig, SECOND, app, before_long, soon};
use cabrank::PoolOptions;
use cabrank::application_pool::{CloseTimedOut, GetError, RestartMode};
use cabrank::in_memory::{Call, Spawn};
use std::thread::{JoinHandle, spawn};
use std::time::Duration;

/// Two threads and two tasks that get a session.
struct Four {
    threads: [Getting; 2],
    tasks: [Task<Got>; 2],
}

impl Four {
    /// Returns once all four wait in the queue of the group.
    fn wait(rig: &Rig, options: &PoolOptions) -> Four {
        let threads = [(); 2].map(|()| rig.queue_get(options));
        let mut tasks = [(); 2].map(|()| rig.task(options));
        assert!(tasks.iter_mut().all(|task| task.poll().is_none()));
        rig.eventually(|c| c.waiting == 4);
        Four { threads, tasks }
    }
    /// Asserts that each of the four was woken, and fails as expected.
    #[track_caller]
    fn all_fail(self, as_expected: impl Fn(&GetError) -> bool) {
        for thread in self.threads {
            let error = thread.error();
            assert!(as_expected(&error), "{error}");
        }
        for mut task in self.tasks {
            before_long(|| task.wakes() == 1);
            let error = task.poll().expect("it was woken").expect_err("no session");
            assert!(as_expected(&error), "{error}");
        }
    }
    /// Asserts that each of the four was woken, and is served.
    #[track_caller]
    fn all_are_served(self) {
        for thread in self.threads {
            drop(thread.session());
        }
        for mut task in self.tasks {
            before_long(|| task.wakes() == 1);
            drop(task.poll().expect("it was woken").expect("a session"));
        }
    }
}

#[test]
fn a_close_ends_the_wait_of_each_get() {
    let rig = Rig::new(|b| b.max(1));
    let _busy = rig.get(&app("x"));
    let four = Four::wait(&rig, &app("x"));
    rig.pool.close();
    four.all_fail(|error| matches!(error, GetError::Closed));
}

#[test]
fn a_failed_spawn_ends_the_wait_of_each_get() {
    let rig = Rig::new(|b| b);
    rig.spawner.next(Spawn::fail("no database").held());
    let four = Four::wait(&rig, &app("x"));
    rig.spawner.release();
    four.all_fail(|error| matches!(error, GetError::Spawn(e) if e.to_string() == "no database"));
}

/// The process takes any number of sessions.
#[test]
fn a_new_process_serves_each_get_that_waits() {
    let rig = Rig::new(|b| b);
    rig.spawner.next(Spawn::ready().concurrency(None).held());
    let four = Four::wait(&rig, &app("x"));
    rig.spawner.release();
    four.all_are_served();
}

/// All four end in one pass.
#[test]
fn one_pass_ends_each_wait_whose_time_in_the_queue_is_over() {
    let rig = Rig::without_cleaner(|b| b.max(1));
    let _busy = rig.get(&app("x"));
    let four = Four::wait(&rig, &app("x").with_max_queue_time(SECOND));
    rig.clock.advance(SECOND);
    rig.pool.clean();
    assert_eq!(rig.pool.counts().waiting, 0);
    four.all_fail(|error| matches!(error, GetError::QueuedTooLong));
}

#[test]
fn one_pass_ends_each_drain_and_each_idle_process_and_forgets_each_group() {
    let rig = Rig::without_cleaner(|b| {
        b.max(4).drain_timeout(SECOND).max_idle_time(SECOND).forget_groups_after(SECOND)
    });
    let busy = ["a", "b"].map(|name| rig.get(&app(name)));
    assert!(["a", "b"].iter().all(|name| rig.pool.detach_group(app(name).app_group_name())));
    drop(["c", "d"].map(|name| rig.get(&app(name))));
    rig.clock.advance(SECOND);
    rig.pool.clean();
    assert_eq!((rig.counts(), rig.pool.counts().draining), ((0, 0), 0));
    assert_eq!(rig.gone().len(), 4);
    rig.clock.advance(SECOND);
    rig.pool.clean();
    assert_eq!(rig.pool.snapshot().groups, []);
    drop(busy);
}

#[test]
fn one_pass_ends_each_back_off() {
    let rig = Rig::without_cleaner(|b| b.back_off(SECOND, SECOND));
    for name in ["x", "y"] {
        rig.spawner.next(Spawn::fail("no database"));
        let minimum = app(name).with_min_processes(1);
        assert!(matches!(rig.start_get(&minimum).error(), GetError::Spawn(_)));
    }
    rig.clock.advance(SECOND);
    rig.pool.clean();
    rig.eventually(|c| c.count == 2);
}

/// Two gets wait for the look in flight, where a throttle lets it do for both, or for the next one.
#[test]
fn a_look_ends_the_wait_of_each_get() {
    for throttle in [SECOND, Duration::ZERO] {
        let gate = Gate::default();
        let held = gate.clone();
        let rig = Rig::new(|b| {
            b.stat_throttle(throttle).restart_files(move |_| {
                held.pass();
                Err(std::io::ErrorKind::NotFound.into())
            })
        });
        rig.spawner.always("/srv/x", Spawn::ready().concurrency(None));
        let mut tasks = [(); 2].map(|()| rig.task(&app("x")));
        assert!(tasks.iter_mut().all(|task| task.poll().is_none()));
        let timed = [(); 2].map(|()| {
            let pool = rig.pool.clone();
            Getting::start(move || pool.get_timeout(&app("x"), 100 * SECOND))
        });
        gate.await_arrivals(1);
        gate.open();
        for thread in timed {
            drop(thread.session());
        }
        for task in tasks {
            drop(task.finish().expect("a session"));
        }
    }
}

/// Starts two threads that wait for the same end.
fn two<T: Send + 'static>(
    rig: &Rig,
    wait: impl Fn(&crate::common::Pool) -> T + Clone + Send + 'static,
) -> [JoinHandle<T>; 2] {
    [(); 2].map(|()| {
        let (pool, wait) = (rig.pool.clone(), wait.clone());
        spawn(move || wait(&pool))
    })
}

/// Lets the threads fall asleep. They may also come late, which changes no outcome.
fn fall_asleep<T>(threads: &[JoinHandle<T>]) {
    for _ in 0..2000 {
        assert!(threads.iter().all(|thread| !thread.is_finished()), "the end has not come");
        std::thread::yield_now();
    }
    std::thread::sleep(Duration::from_millis(20));
}

fn join<T: Send + 'static>(threads: [JoinHandle<T>; 2]) -> [T; 2] {
    threads.map(|thread| soon(move || thread.join().expect("no panic")))
}

#[test]
fn the_end_of_the_spawns_ends_each_close() {
    let rig = Rig::new(|b| b);
    let gate = rig.gate_at(Call::Spawn);
    assert!(rig.pool.try_get(&app("x")).is_err(), "it orders a process");
    gate.await_arrivals(1);
    let closing = two(&rig, |pool| pool.close());
    before_long(|| rig.pool.snapshot().closed);
    fall_asleep(&closing);
    gate.open();
    join(closing);
}

#[test]
fn the_end_of_the_pool_ends_each_wait_for_it() {
    let rig = Rig::new(|b| b);
    let session = rig.get(&app("x"));
    rig.pool.close();
    let waiting = two(&rig, |pool| pool.wait_closed(100 * SECOND));
    let closing = two(&rig, |pool| pool.close_timeout(100 * SECOND));
    fall_asleep(&waiting);
    fall_asleep(&closing);
    drop(session);
    assert_eq!(join(waiting), [true, true]);
    for closed in join(closing) {
        closed.expect("it has ended");
    }
}

/// The last process is being shut down, and so belongs to neither a session nor a spawn.
#[test]
fn the_end_of_a_shut_down_ends_each_wait_for_the_pool() {
    let rig = Rig::new(|b| b);
    let session = rig.get(&app("x"));
    rig.pool.close();
    let gate = rig.gate_at(Call::ShutDown);
    let ending = spawn(move || drop(session));
    gate.await_arrivals(1);
    let waiting = two(&rig, |pool| pool.wait_closed(100 * SECOND));
    fall_asleep(&waiting);
    gate.open();
    assert_eq!(join(waiting), [true, true]);
    soon(move || ending.join()).expect("no panic");
}

/// Each has a limit of its own.
#[test]
fn the_deadline_ends_each_wait_for_the_pool() {
    let rig = Rig::without_cleaner(|b| b);
    let session = rig.get(&app("x"));
    rig.pool.close();
    let early = two(&rig, |pool| pool.wait_closed(SECOND));
    let closing = two(&rig, |pool| pool.close_timeout(SECOND));
    let late = two(&rig, |pool| pool.wait_closed(100 * SECOND));
    fall_asleep(&early);
    fall_asleep(&closing);
    fall_asleep(&late);
    rig.clock.advance(SECOND);
    assert_eq!(join(early), [false, false]);
    let left = join(closing).map(|closed| closed.expect_err("a session is open"));
    assert_eq!(left.map(|error: CloseTimedOut| error.sessions()), [1, 1]);
    fall_asleep(&late);
    drop(session);
    assert_eq!(join(late), [true, true]);
}

#[test]
fn a_moved_clock_ends_each_get_whose_time_is_over() {
    let rig = Rig::without_cleaner(|b| b.max(1));
    let _busy = rig.get(&app("x"));
    let late = [(); 2].map(|()| {
        let pool = rig.pool.clone();
        Getting::start(move || pool.get_timeout(&app("x"), SECOND))
    });
    rig.eventually(|c| c.waiting == 2);
    let others = [(); 2].map(|()| rig.queue_get(&app("x")));
    rig.clock.advance(SECOND);
    for get in late {
        assert!(matches!(get.error(), GetError::TimedOut));
    }
    assert!(others.iter().all(Getting::is_pending));
    assert_eq!(rig.pool.counts().waiting, 2);
    rig.pool.close();
    for get in others {
        assert!(matches!(get.error(), GetError::Closed));
    }
}

/// The gets of a group wait on, and its next process serves them.
#[test]
fn a_restart_ends_no_wait() {
    for mode in [RestartMode::Immediate, RestartMode::Rolling] {
        let rig = Rig::new(|b| b);
        rig.spawner.next(Spawn::ready().held());
        rig.spawner.next(Spawn::ready().concurrency(None).held());
        let four = Four::wait(&rig, &app("x"));
        assert!(rig.pool.restart_group("/srv/x", mode));
        rig.await_spawns(2);
        rig.spawner.release();
        four.all_are_served();
    }
}
