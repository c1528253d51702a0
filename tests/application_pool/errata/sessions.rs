//! Counting: `active`, `size`, sessions and requests (E1, E5 to E10, E14 to E16, E31, E33); names of groups (E39).

use crate::common::{Rig, SECOND, app, before_long, eager, soon};
use cabrank::application_pool::{DetachReason, GetError, ProcessState};
use cabrank::in_memory::Spawn;
use cabrank::{PoolOptions, Session};
use std::ffi::OsStr;
use std::path::Path;
use std::sync::{Arc, Barrier};

/// The pseudocode sets `max` where it means `active` (INV-ACTIVE).
#[test] // E1
fn using_an_idle_process_leaves_the_maximum_alone() {
    let rig = Rig::new(|b| b.max(6));
    rig.idle(&app("x"), 1);
    let session = rig.get(&app("x"));
    assert_eq!((rig.pool.snapshot().max, rig.counts()), (6, (1, 1)));
    drop(session);
    assert_eq!((rig.pool.snapshot().max, rig.counts()), (6, (0, 1)));
}

/// In the pseudocode it has never been used, so the cleaner's next pass takes it for long idle
/// (PROP-IDLE-TIME).
#[test] // E5
fn a_process_born_in_the_background_is_not_reaped_at_birth() {
    let rig = Rig::without_cleaner(|b| b.max_idle_time(10 * SECOND));
    rig.clock.advance(1000 * SECOND);
    rig.spawner.always("/srv/x", Spawn::ready().concurrency(None));
    let (_first, _second) = (rig.get(&eager("x")), rig.get(&eager("x")));
    rig.eventually(|c| c.count == 2);
    rig.pool.clean();
    assert_eq!(rig.counts(), (1, 2));
    rig.clock.advance(9 * SECOND);
    rig.pool.clean();
    assert_eq!(rig.counts(), (1, 2));
    rig.clock.advance(SECOND);
    rig.pool.clean();
    assert_eq!(rig.counts(), (1, 1));
}

/// The pseudocode removes the requester's group in place of the one it has emptied
/// (INV-GROUP-ACCESSIBLE).
#[test] // E6
fn eviction_empties_the_group_of_the_evicted() {
    let rig = Rig::new(|b| b.max(1));
    for name in ["x", "y", "x", "z", "y"] {
        assert_eq!(rig.get(&app(name)).request("hello"), format!("hello from /srv/{name}"));
        let sizes = rig.pool.snapshot().groups.into_iter().filter(|g| !g.processes.is_empty());
        assert_eq!(sizes.map(|g| g.name).collect::<Vec<_>>(), [format!("/srv/{name}")]);
    }
}

/// In the pseudocode `app_root` is never passed on, and `processed` has two names.
#[test] // E7
fn the_spawner_receives_the_root_and_requests_are_counted() {
    let rig = Rig::new(|b| b);
    let x = app("x").with_app_group_name("shop");
    for _ in 0..3 {
        drop(rig.get(&x));
    }
    assert_eq!(rig.spawner.processes()[0].app_root().as_os_str(), "/srv/x");
    assert_eq!(rig.group(&x).processes[0].processed, 3);
    assert_eq!(rig.pool.snapshot().totals.processed, 3);
}

/// A lossy conversion gives both directories one name, and then one group.
#[cfg(unix)]
#[test] // E39
fn directories_that_differ_in_bytes_that_are_not_unicode_have_groups_of_their_own() {
    use std::os::unix::ffi::OsStrExt;
    let rig = Rig::new(|b| b);
    let roots = [&b"/srv/caf\xe9"[..], b"/srv/caf\xe8", "/srv/caf\u{fffd}".as_bytes()];
    for (nth, root) in roots.map(|root| Path::new(OsStr::from_bytes(root))).into_iter().enumerate()
    {
        drop(rig.get(&PoolOptions::new(root)));
        let served_by = rig.spawner.processes();
        assert_eq!((served_by.len(), served_by[nth].app_root()), (nth + 1, root));
        assert!(rig.pool.snapshot().groups.iter().any(|group| group.app_root == root));
    }
}

#[test] // E39
fn a_trailing_slash_makes_no_other_group() {
    let rig = Rig::new(|b| b);
    let x = rig.idle(&app("x"), 1);
    for root in ["/srv/x/", "/srv//x", "/srv/./x/."] {
        assert_eq!(rig.idle(&PoolOptions::new(root), 1), x);
    }
    assert!(rig.pool.detach_group("/srv/x"));
    assert_eq!(rig.counts(), (0, 0));
}

/// The pseudocode's invariants find groups by root and negate `detached` (PROP-DETACHED-STATED).
#[test] // E8
fn groups_are_found_by_name_and_detached_processes_are_not_found() {
    let rig = Rig::new(|b| b);
    let (shop, blog) = (app("x").with_app_group_name("shop"), app("x").with_app_group_name("blog"));
    let session = rig.get(&shop);
    let identifier = Session::identifier(&session);
    rig.idle(&blog, 1);
    assert_eq!(rig.counts(), (1, 2), "one root, two groups");
    assert!(!rig.pool.detach_group("/srv/x"));
    assert!(rig.pool.detach_group("blog"));
    assert!(rig.pool.detach(identifier));
    assert!(!rig.pool.detach(identifier));
    assert_eq!(rig.counts(), (0, 0));
}

/// A long history of every operation that removes processes from lists. The pool asserts every
/// invariant after each step; the test checks the sums from outside (INV-GROUP-SIZE, INV-COUNT,
/// INV-SIZE-WITHIN-COUNT, INV-INACTIVE-SIZE).
#[test] // E9, E10
fn sizes_and_lists_agree_through_a_long_history() {
    let rig = Rig::without_cleaner(|b| b.max(4).max_idle_time(5 * SECOND));
    rig.spawner.always("/srv/b", Spawn::ready().concurrency(2));
    let apps = [app("a"), app("b").with_max_requests(3), app("c").with_min_processes(1)];
    let mut random = 1_u32;
    let mut below = move |n: usize| {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (random >> 8) as usize % n
    };
    let mut sessions = Vec::new();
    for _ in 0..1500 {
        let app = &apps[below(3)];
        match below(12) {
            0..=5 => sessions.extend(rig.pool.try_get(app)),
            6..=8 if !sessions.is_empty() => drop(sessions.swap_remove(below(sessions.len()))),
            6..=8 => {}
            9 => {
                rig.clock.advance(SECOND);
                rig.pool.clean();
            }
            10 if below(4) == 0 => drop(rig.pool.detach_group(app.app_group_name())),
            10 => rig.pool.set_max(2 + below(4)).expect("at least two"),
            _ => {
                if let Some(session) = sessions.last() {
                    rig.pool.detach(Session::identifier(session));
                }
            }
        }
        let s = rig.pool.snapshot();
        let all = s.groups.iter().flat_map(|g| &g.processes);
        let draining = all.clone().filter(|p| p.state == ProcessState::Draining).count();
        let idle = all.clone().filter(|p| p.state == ProcessState::Idle).count();
        assert_eq!((all.clone().count(), draining), (s.count + s.draining, s.draining));
        assert_eq!(idle, s.count - s.active);
        // Processes spawned meanwhile arrive by the next step, or the one after.
        if below(4) == 0 {
            rig.eventually(|c| c.spawning == 0);
        }
    }
    let totals = rig.pool.snapshot().totals;
    assert!(totals.detached > 100 && totals.processed > 100, "it was a lively one: {totals:?}");
    drop(sessions);
    assert_eq!((rig.pool.counts().active, rig.pool.counts().draining), (0, 0));
}

/// With the pseudocode's private queue, sessions beyond the limit may already be open when the pool
/// notices (INV-MAX-REQUESTS).
#[test] // E14
fn a_process_is_given_no_session_beyond_its_maximum() {
    let rig = Rig::new(|b| b.max(1).max_draining(0));
    rig.spawner.always("/srv/x", Spawn::ready().concurrency(None));
    let x = app("x").with_max_requests(3);
    let mut sessions: Vec<_> = (0..3).map(|_| rig.get(&x)).collect();
    let fourth = rig.queue_get(&x);
    for left in [2, 1] {
        drop(sessions.remove(0));
        assert_eq!(rig.group(&x).processes[0].sessions, left, "every close counts down");
    }
    assert!(fourth.is_pending(), "the draining process takes the only place");
    drop(sessions.remove(0));
    assert_eq!(fourth.session().pid(), 2);
    assert_eq!(rig.next_detached(), (1, DetachReason::MaxRequests));
    assert_eq!(rig.counts(), (0, 1));
}

/// One event stream on a process that was given its last session (PROP-LAST-SESSION).
#[test] // E36
fn an_endless_last_session_holds_no_place() {
    let rig = Rig::new(|b| b.max(1));
    let x = app("x").with_max_requests(1);
    let stream = rig.get(&x);
    assert_eq!(rig.next_detached(), (1, DetachReason::MaxRequests));
    let [process] = &rig.group(&x).processes[..] else { panic!("one process") };
    assert_eq!((process.state, process.sessions), (ProcessState::Draining, 1));
    for _ in 0..3 {
        drop(rig.get(&x));
    }
    assert!(rig.gone().iter().all(|&pid| pid != 1), "the stream's process lives");
    drop(stream);
    rig.until(|| rig.gone().contains(&1));
}

/// The drain's deadline applies to the last session, too.
#[test] // E36
fn an_endless_last_session_ends_at_the_deadline_of_the_drain() {
    let rig = Rig::without_cleaner(|b| b.max(1).max_draining(0).drain_timeout(60 * SECOND));
    let x = app("x").with_max_requests(1);
    let _stream = rig.get(&x);
    let waiting = rig.queue_get(&x);
    rig.clock.advance(59 * SECOND);
    rig.pool.clean();
    assert!(waiting.is_pending());
    rig.clock.advance(SECOND);
    rig.pool.clean();
    assert_eq!(waiting.session().pid(), 2);
}

/// A session that is given back unused was given all the same.
#[test] // E36
fn a_last_session_that_is_cancelled_ends_its_process() {
    let rig = Rig::new(|b| b.max(1));
    let x = app("x").with_max_requests(1);
    soon({
        let (pool, x) = (rig.pool.clone(), x.clone());
        move || pool.checkout(&x).expect("a process").cancel()
    });
    rig.until(|| rig.gone() == [1]);
    assert_eq!(rig.get(&x).pid(), 2);
}

/// An application that keeps state in memory has one process, however many sessions overlap (PROP-GROWTH).
#[test] // E35
fn a_group_with_unlimited_concurrency_never_grows_beyond_its_minimum() {
    let rig = Rig::new(|b| b);
    rig.spawner.always("/srv/x", Spawn::ready().concurrency(None));
    for minimum in [0, 1, 2] {
        let x = app("x").with_min_processes(minimum);
        let sessions: Vec<_> = (0..20).map(|_| rig.get(&x)).collect();
        rig.eventually(|c| c.spawning == 0 && c.count == minimum.max(1));
        drop(sessions);
    }
    assert_eq!(rig.spawner.begun(), 2);
}

#[test] // E35
fn a_group_grows_when_no_process_has_room() {
    let rig = Rig::new(|b| b);
    rig.spawner.always("/srv/x", Spawn::ready().concurrency(2));
    let _two = [rig.get(&app("x")), rig.get(&app("x"))];
    assert_eq!((rig.spawner.begun(), rig.counts()), (1, (1, 1)));
    assert_eq!(rig.get(&app("x")).pid(), 2);
}

/// The group of a marked process with room is served by it (PROP-SERVES-ON), and does not grow (PROP-GROWTH).
#[test] // E35, E37
fn a_group_whose_process_is_marked_does_not_grow() {
    let rig = Rig::new(|b| b.max(1));
    rig.spawner.always("/srv/x", Spawn::ready().concurrency(None));
    let _busy = rig.get(&app("x"));
    let y = rig.queue_get(&app("y"));
    let second = rig.get(&app("x"));
    rig.pool.set_max(3).expect("not zero");
    assert_eq!(second.pid(), 1);
    drop(y.session());
    assert_eq!(rig.spawner.begun(), 2);
}

/// A close that may or may not see, without the lock, that its process was detached
/// (INV-PROCESS-HERE).
#[test] // E15
fn closing_and_detaching_at_the_same_moment_count_once() {
    let rig = Rig::new(|b| b);
    for round in 1..=200 {
        let session = rig.get(&app("x"));
        let identifier = Session::identifier(&session);
        let (pool, barrier) = (rig.pool.clone(), Arc::new(Barrier::new(2)));
        let theirs = barrier.clone();
        let closing = std::thread::spawn(move || {
            theirs.wait();
            drop(session);
        });
        barrier.wait();
        assert!(pool.detach(identifier));
        closing.join().expect("closing does not panic");
        let counts = pool.counts();
        assert_eq!((counts.count, counts.active, counts.draining), (0, 0, 0));
        before_long(|| rig.gone().len() == round);
    }
}

/// The caller has no session, so none may be counted (PROP-SESSIONS).
#[test] // E16
fn a_panicking_connect_leaves_no_session_behind() {
    let rig = Rig::new(|b| b);
    rig.idle(&app("x"), 1);
    rig.spawner.processes()[0].panic_on_connect();
    let error = rig.start_get(&app("x")).error();
    assert!(matches!(&error, GetError::Connect(e) if e.is_local()), "{error}");
    assert_eq!(rig.counts(), (0, 1), "the process may not be at fault: it stays");
    assert_eq!(rig.get(&app("x")).pid(), 1);
}

/// The get leaves the queue (INV-WAITING).
#[test] // E16
fn a_get_that_times_out_is_not_counted_any_more() {
    let rig = Rig::new(|b| b.max(1));
    let busy = rig.get(&app("x"));
    let (pool, x) = (rig.pool.clone(), app("x"));
    let waiting = soon_started(move || pool.get_timeout(&x, SECOND).err());
    rig.eventually(|c| c.waiting == 1);
    rig.clock.advance(SECOND);
    assert!(matches!(waiting(), Some(GetError::TimedOut)));
    assert_eq!((rig.counts(), rig.pool.counts().waiting), ((1, 1), 0));
    drop(busy);
    assert_eq!(rig.counts(), (0, 1), "the process is idle");
}

/// Starts `work` at once. The returned closure waits for its result.
fn soon_started<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> impl FnOnce() -> T {
    let thread = std::thread::spawn(work);
    move || soon(move || thread.join().expect("no panic"))
}

#[test] // E16
fn a_dropped_future_leaves_no_trace_at_any_await() {
    let rig = Rig::new(|b| b.max(1));
    let x = app("x");
    // Before the first poll.
    drop(rig.task(&x));
    assert_eq!(rig.pool.counts().spawning + rig.pool.counts().waiting, 0);

    // While its first process is being spawned.
    rig.spawner.next(Spawn::ready().held());
    let mut task = rig.task(&x);
    assert!(task.poll().is_none());
    assert_eq!((rig.pool.counts().waiting, rig.pool.counts().spawning), (1, 1));
    drop(task);
    assert_eq!(rig.pool.counts().waiting, 0);
    rig.spawner.release();
    rig.eventually(|c| c.count == 1 && c.active == 0);

    // While all processes are busy.
    let busy = rig.get(&x);
    let mut task = rig.task(&x);
    assert!(task.poll().is_none());
    assert_eq!(rig.pool.counts().waiting, 1);
    drop(task);
    assert_eq!(rig.pool.counts().waiting, 0);

    // Served, but not polled since.
    let mut task = rig.task(&x);
    assert!(task.poll().is_none());
    drop(busy);
    assert_eq!(rig.counts(), (1, 1), "the session is its own already");
    drop(task);
    assert_eq!(rig.counts(), (0, 1));
    assert_eq!(rig.group(&x).processes[0].processed, 1, "it was not a request");

    // In its second attempt, after a process turned out to be dead.
    rig.spawner.processes()[0].kill();
    rig.spawner.next(Spawn::ready().held());
    let mut task = rig.task(&x);
    assert!(task.poll().is_none());
    assert_eq!((rig.counts(), rig.pool.counts().waiting), ((0, 0), 1));
    drop(task);
    rig.spawner.release();
    rig.eventually(|c| c.count == 1 && c.waiting == 0 && c.active == 0);
}

/// In the pseudocode the process would be detached (PROP-LOCAL-FAILURE).
#[test] // E31
fn a_local_connect_error_goes_to_the_caller_and_detaches_no_process() {
    let rig = Rig::new(|b| b);
    rig.idle(&app("x"), 1);
    rig.spawner.processes()[0].run_out_of_descriptors(1);
    let error = rig.start_get(&app("x")).error();
    assert!(matches!(&error, GetError::Connect(e) if e.is_local()), "{error}");
    assert_eq!(rig.counts(), (0, 1));
    assert_eq!(rig.get(&app("x")).pid(), 1);
}

#[test] // E31
fn a_connect_error_of_the_process_is_tried_ten_times() {
    let rig = Rig::new(|b| b.max(11));
    rig.idle(&app("x"), 11);
    rig.spawner.processes().iter().for_each(|process| process.kill());
    let error = rig.start_get(&app("x")).error();
    assert!(matches!(&error, GetError::Connect(e) if !e.is_local()), "{error}");
    assert_eq!((rig.counts(), rig.gone().len()), ((0, 1), 10));
}

/// The choice of the pseudocode's scan (PROP-CHOICE), from a list kept in order (INV-GROUP-SORTED).
#[test] // E33
fn the_least_busy_process_is_chosen() {
    let rig = Rig::new(|b| b.max(3));
    rig.spawner.always("/srv/x", Spawn::ready().concurrency(None));
    let x = app("x").with_min_processes(3);
    drop(rig.get(&x));
    rig.eventually(|c| c.count == 3);
    let sessions: Vec<_> = (0..7).map(|_| rig.get(&x)).collect();
    let busy = |pid| sessions.iter().filter(|s| s.pid() == pid).count();
    let mut load = [busy(1), busy(2), busy(3)];
    load.sort_unstable();
    assert_eq!(load, [2, 2, 3]);
    // One process loses all its sessions but keeps its place in the order of age.
    let (of_two, others): (Vec<_>, Vec<_>) = sessions.into_iter().partition(|s| s.pid() == 2);
    drop(of_two);
    assert_eq!([rig.get(&x).pid(), rig.get(&x).pid()], [2, 2]);
    drop(others);
}

/// An idle process precedes all busy ones (INV-GROUP-ORDER), and the other idle ones.
#[test] // E33
fn among_idle_ones_the_most_recently_freed_is_chosen() {
    let rig = Rig::new(|b| b);
    let [a, b, c] = [(); 3].map(|()| rig.get(&app("x")));
    let pid = b.pid();
    drop(a);
    drop(c);
    drop(b);
    assert_eq!(rig.get(&app("x")).pid(), pid);
}

/// The pseudocode adds it to the front.
#[test] // E33
fn among_idle_ones_a_newcomer_comes_first() {
    let rig = Rig::new(|b| b);
    rig.spawner.next(Spawn::ready().concurrency(None));
    rig.spawner.next(Spawn::ready().held());
    drop((rig.get(&eager("x")), rig.get(&eager("x"))));
    rig.spawner.release();
    rig.eventually(|c| c.count == 2);
    assert_eq!(rig.get(&eager("x")).pid(), 2);
}

#[test] // E33
fn among_equally_busy_ones_they_take_turns() {
    let rig = Rig::new(|b| b.max(3));
    rig.spawner.always("/srv/x", Spawn::ready().concurrency(None));
    let x = app("x").with_min_processes(3);
    drop(rig.get(&x));
    rig.eventually(|c| c.count == 3);
    let sessions: Vec<_> = (0..9).map(|_| rig.get(&x)).collect();
    let pids: Vec<u32> = sessions.iter().map(|s| s.pid()).collect();
    assert_eq!(pids[0..3], pids[3..6], "least recently chosen first");
    assert_eq!(pids[0..3], pids[6..9]);
}

/// A close in between does not make its process the first of its equals again.
#[test] // E33
fn the_least_recently_chosen_comes_first_after_a_close_too() {
    let rig = Rig::new(|b| b.max(2));
    rig.spawner.always("/srv/x", Spawn::ready().concurrency(None));
    let first = rig.get(&eager("x"));
    drop(rig.get(&eager("x")));
    rig.eventually(|c| c.count == 2);
    let second = rig.get(&eager("x"));
    let third = rig.get(&eager("x"));
    assert_eq!((first.pid(), second.pid(), third.pid()), (1, 2, 1));
    drop(first);
    assert_eq!(rig.get(&eager("x")).pid(), 2);
    drop((second, third));
}
