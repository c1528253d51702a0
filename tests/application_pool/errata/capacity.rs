//! Capacity: which group may spawn, and which get waits (E3, E4, E11, E18, E20, E25).

use crate::common::files::Files;
use crate::common::{Getting, Rig, SECOND, app, eager, soon};
use cabrank::application_pool::{DetachReason, Event, GetError, ProcessState, ShutDown, WeakPool};
use cabrank::in_memory::{Call, InMemorySpawner, Spawn};
use cabrank::{ApplicationPool, ManualClock, Session};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::ThreadId;

/// In the pseudocode the spawn for X takes no place, so Y's process exceeds the maximum.
#[test] // E3
fn a_spawn_in_flight_takes_its_room() {
    let rig = Rig::new(|b| b.max(2));
    let first = rig.get(&app("x"));
    rig.spawner.next(Spawn::ready().held());
    let second = rig.queue_get(&app("x"));
    rig.await_spawns(2);
    let y = rig.queue_get(&app("y"));
    assert_eq!(rig.pool.counts().spawning, 1);
    rig.spawner.release();
    let second = second.session();
    assert_eq!((rig.counts(), rig.pool.counts().spawning), ((2, 2), 0));
    drop(first);
    drop(y.session());
    assert_eq!(rig.pool.counts().count, 2);
    drop(second);
}

#[test] // E3
fn a_newcomer_is_disposed_of_when_the_maximum_was_lowered_meanwhile() {
    for lower_the_pools in [true, false] {
        let rig = Rig::new(|b| b.max(2));
        let first = rig.get(&app("x"));
        rig.spawner.next(Spawn::ready().held());
        let second = rig.queue_get(&app("x"));
        rig.await_spawns(2);
        match lower_the_pools {
            true => rig.pool.set_max(1),
            false => rig.pool.set_max_per_app(1),
        }
        .expect("one is a valid maximum");
        rig.spawner.release();
        rig.until(|| rig.spawner.shut_down() == [(2, ShutDown::Drained)]);
        rig.eventually(|c| c.spawning == 0);
        assert_eq!(rig.counts(), (1, 1));
        drop(first);
        assert_eq!(second.session().pid(), 1);
        assert_eq!(rig.spawner.begun(), 2);
    }
}

#[test] // E4
fn a_hanging_first_spawn_blocks_no_other_group() {
    let rig = Rig::new(|b| b);
    rig.spawner.next(Spawn::hang());
    let hanging = rig.queue_get(&app("x"));
    rig.await_spawns(1);
    drop(rig.get(&app("y")));
    assert_eq!(rig.group(&app("x")).waiting, 1);
    assert!(rig.pool.detach_group("/srv/y"));
    assert!(hanging.is_pending());
    let pool = rig.pool.clone();
    soon(move || pool.close());
    assert!(matches!(hanging.error(), GetError::Closed));
}

#[test] // E4
fn every_get_that_waited_for_the_first_spawn_returns_its_error() {
    let rig = Rig::new(|b| b);
    rig.spawner.next(Spawn::fail("no database").held());
    let waiting = [rig.queue_get(&app("x")), rig.queue_get(&app("x")), rig.queue_get(&app("x"))];
    rig.spawner.release();
    for getting in waiting {
        let error = getting.error();
        assert!(matches!(&error, GetError::Spawn(e) if e.to_string() == "no database"));
    }
    assert_eq!(rig.spawner.begun(), 1);
}

/// No system grants a thread a stack of that size. In the pseudocode the group stays "spawning" for
/// ever (INV-SPAWNING).
#[test] // E11
fn a_thread_that_cannot_be_started_is_a_spawn_error_like_any_other() {
    let clock = ManualClock::new();
    let builder = ApplicationPool::builder(InMemorySpawner::new()).clock(clock.clock());
    let pool = builder.max(1).spawner_stack_size(usize::MAX).build().expect("a valid pool");
    for failures in 1..=3 {
        let theirs = pool.clone();
        let error = Getting::start(move || theirs.get(&app("x"))).error();
        assert!(
            matches!(&error, GetError::Spawn(e) if e.to_string().contains("thread")),
            "{error}"
        );
        let snapshot = pool.snapshot();
        assert_eq!((snapshot.spawning, snapshot.count, snapshot.waiting), (0, 0, 0));
        assert_eq!(snapshot.totals.spawns_failed, failures, "each get tries again");
        clock.advance(100 * SECOND);
    }
    pool.close();
    assert!(pool.wait_closed(SECOND));
}

/// One thread for each group that spawns, not one for each process.
#[test] // E11
fn the_thread_that_has_spawned_carries_out_the_next_order_of_its_group() {
    let rig = Rig::new(|b| b);
    let threads: Arc<Mutex<HashSet<ThreadId>>> = Arc::default();
    let theirs = threads.clone();
    rig.spawner.on_call(move |call| {
        if call == Call::Spawn {
            theirs.lock().expect("no panic in the thread").insert(std::thread::current().id());
        }
    });
    drop(rig.get(&app("x").with_min_processes(4)));
    rig.eventually(|c| c.count == 4);
    assert_eq!(threads.lock().expect("no panic in the thread").len(), 1);
}

/// The first order is cancelled before its thread starts, and a second one replaces it.
#[test] // E11
fn the_order_after_one_whose_thread_cannot_be_started_is_carried_out() {
    let files = Files::default();
    let restart_txt = app("x").restart_dir().join("restart.txt");
    let weak: Arc<OnceLock<WeakPool<InMemorySpawner>>> = Arc::default();
    let (theirs, again, touched) = (weak.clone(), files.clone(), restart_txt.clone());
    let tried = AtomicBool::new(false);
    let builder = ApplicationPool::builder(InMemorySpawner::new()).restart_files(files.look_up());
    let builder = builder.max(1).spawner_stack_size(usize::MAX).observer(move |event| {
        if matches!(event, Event::Restarting { .. })
            && !tried.swap(true, Ordering::SeqCst)
            && let Some(pool) = theirs.get().and_then(WeakPool::upgrade)
        {
            again.touch(&touched);
            assert!(matches!(pool.try_get(&app("x")), Err(GetError::WouldBlock)));
        }
    });
    let pool = builder.build().expect("a valid pool");
    weak.set(pool.downgrade()).expect("set once");
    let get = || {
        let pool = pool.clone();
        Getting::start(move || pool.get(&app("x"))).error()
    };
    get();
    files.touch(&restart_txt);
    assert!(matches!(get(), GetError::Spawn(_)));
    assert_eq!((pool.counts().spawning, pool.counts().waiting), (0, 0));
    assert_eq!(pool.snapshot().groups[0].generation, 2);
}

/// In the pseudocode `active` never falls below `max` while each process always has a session. The deadline of a drain
/// makes room.
#[test] // E18, E37
fn a_new_group_is_served_although_sessions_overlap_for_ever() {
    let rig = Rig::without_cleaner(|b| b.max(1).drain_timeout(60 * SECOND));
    rig.spawner.always("/srv/x", Spawn::ready().concurrency(None));
    let mut overlapping = rig.get(&app("x"));
    let y = rig.queue_get(&app("y"));
    for _ in 0..59 {
        overlapping = rig.pool.try_get(&app("x")).expect("the process has room, and its place");
        assert_eq!(rig.group(&app("x")).processes[0].state, ProcessState::Retiring);
        rig.clock.advance(SECOND);
        rig.pool.clean();
        assert!(y.is_pending());
    }
    rig.clock.advance(SECOND);
    rig.pool.clean();
    assert_eq!(rig.next_detached(), (1, DetachReason::Evicted));
    let y = y.session();
    assert_eq!(rig.pool.counts().draining, 1, "its sessions end in peace");
    let x = rig.queue_get(&app("x"));
    drop((overlapping, y));
    drop(x.session());
}

/// One endless session in a group with room, and one get for another group.
#[test] // E37
fn an_endless_session_stops_neither_its_group_nor_another() {
    for concurrency in [2, 100] {
        let rig = Rig::new(|b| b.max(1).drain_timeout(60 * SECOND));
        rig.spawner.always("/srv/x", Spawn::ready().concurrency(concurrency));
        let _endless = rig.get(&app("x"));
        let y = rig.queue_get(&app("y"));
        for _ in 0..3 {
            drop(rig.pool.try_get(&app("x")).expect("its group has room"));
        }
        rig.clock.advance(60 * SECOND);
        assert_eq!(y.session().request("r"), "r from /srv/y");
    }
}

/// With one session a process, the first process that is freed makes room, although gets of its own group wait.
#[test] // E37
fn whichever_process_is_freed_first_makes_room() {
    let rig = Rig::without_cleaner(|b| b.max(3));
    let x = app("x");
    let _endless = rig.get(&x);
    let sessions = [rig.get(&x), rig.get(&x)];
    let y = rig.queue_get(&app("y"));
    let waiting = [rig.queue_get(&x), rig.queue_get(&x)];
    let [freed, other] = sessions;
    drop(freed);
    assert_eq!(rig.next_detached(), (2, DetachReason::Evicted));
    let _y = y.session();
    assert!(rig.group(&x).processes.iter().all(|p| p.state == ProcessState::Busy));
    drop(other);
    let [first, second] = waiting;
    drop(first.session());
    drop(second.session());
}

/// A group at its minimum gives up no process while another is above its own.
#[test] // E37, E29
fn a_group_at_its_minimum_makes_room_last() {
    let rig = Rig::without_cleaner(|b| b.max(3));
    let (least, most) = (app("least").with_min_processes(1), app("most"));
    let busy = rig.get(&least);
    let others = [rig.get(&most), rig.get(&most)];
    let y = rig.queue_get(&app("y"));
    let next = rig.queue_get(&least);
    drop(busy);
    let next = next.session();
    assert!(y.is_pending());
    let [first, _second] = others;
    drop(first);
    let _y = y.session();
    // No get of its own group waits for it, and no other process is idle.
    let z = rig.queue_get(&app("z"));
    drop(next);
    drop(z.session());
}

/// The cleaner sleeps until the deadline, also after a pass that comes before it.
#[test] // E37
fn the_cleaner_makes_room_at_the_deadline() {
    let rig = Rig::new(|b| b.max(1).drain_timeout(60 * SECOND));
    let _endless = rig.get(&app("x"));
    let y = rig.queue_get(&app("y"));
    rig.clock.advance(59 * SECOND);
    std::thread::sleep(SECOND / 20);
    assert!(y.is_pending());
    rig.clock.advance(SECOND);
    drop(y.session());
}

/// The other process of the group drains and keeps the newcomer waiting. At the deadline one more that drains would not help.
#[test] // E37
fn the_marked_process_stays_where_only_draining_ones_are_in_the_way() {
    let rig = Rig::without_cleaner(|b| b.max(2).max_draining(0).drain_timeout(60 * SECOND));
    let (first, second) = (rig.get(&app("x")), rig.get(&app("x")));
    let y = rig.queue_get(&app("y"));
    rig.clock.advance(30 * SECOND);
    let retires = |id| {
        let groups = rig.pool.snapshot().groups;
        let mut all = groups.iter().flat_map(|group| &group.processes);
        all.any(|process| process.identifier == id && process.state == ProcessState::Retiring)
    };
    let ids = [Session::identifier(&first), Session::identifier(&second)];
    let other = ids.into_iter().find(|id| !retires(*id)).expect("one of the two is marked");
    assert!(rig.pool.detach(other));
    rig.clock.advance(30 * SECOND);
    rig.pool.clean();
    assert_eq!((rig.pool.counts().count, rig.pool.counts().draining), (1, 1));
    assert!(y.is_pending());
    rig.clock.advance(30 * SECOND);
    rig.pool.clean();
    drop(y.session());
    drop((first, second));
}

/// Every session is endless, and no further process may live beside those that drain.
#[test] // E37
fn endless_sessions_hold_no_place_for_longer_than_two_drains() {
    let rig = Rig::without_cleaner(|b| b.max(2).max_draining(0).drain_timeout(60 * SECOND));
    let _endless = [rig.get(&app("x")), rig.get(&app("x"))];
    let y = rig.queue_get(&app("y"));
    for (seconds, draining) in [(59, 0), (1, 1), (59, 1)] {
        rig.clock.advance(seconds * SECOND);
        rig.pool.clean();
        assert_eq!(rig.pool.counts().draining, draining);
        assert!(y.is_pending());
    }
    rig.clock.advance(SECOND);
    rig.pool.clean();
    drop(y.session());
}

/// Each group has its own deadline, and each takes one place.
#[test] // E37
fn each_group_that_waits_takes_one_place_at_its_deadline() {
    let rig = Rig::without_cleaner(|b| b.max(2).drain_timeout(60 * SECOND));
    let _endless = [rig.get(&app("x")), rig.get(&app("x"))];
    let y = rig.queue_get(&app("y"));
    rig.clock.advance(30 * SECOND);
    let z = rig.queue_get(&app("z"));
    rig.clock.advance(30 * SECOND);
    rig.pool.clean();
    let _y = y.session();
    assert!(z.is_pending());
    assert_eq!(rig.pool.counts().draining, 1);
    rig.clock.advance(30 * SECOND);
    rig.pool.clean();
    let _z = z.session();
    assert_eq!(rig.pool.counts().draining, 2);
}

/// A get whose process refused the connection waits for its group's first process, before the growth of another group.
/// Its options are not the group's any more, which settles the group.
#[test] // E38
fn a_refused_get_with_other_options_comes_before_the_growth_of_a_group() {
    let rig = Rig::new(|b| b.max(2));
    rig.idle(&app("a"), 1);
    let busy = rig.get(&app("b"));
    let growth = rig.queue_get(&app("b"));
    rig.spawner.processes()[0].kill();
    let gate = rig.gate_at(Call::Connect);
    let refused = rig.start_get(&app("a"));
    gate.await_arrivals(1);
    assert!(matches!(rig.pool.try_get(&app("a")), Err(GetError::WouldBlock)));
    gate.open();
    assert_eq!(refused.session().request("r"), "r from /srv/a");
    assert!(growth.is_pending());
    drop(busy);
    drop(growth.session());
}

#[test] // E18
fn the_victim_is_the_least_busy_of_the_group_furthest_above_its_minimum() {
    let rig = Rig::new(|b| b.max(4));
    for root in ["/srv/a", "/srv/b"] {
        rig.spawner.always(root, Spawn::ready().concurrency(None));
    }
    let (a, b) = (app("a").with_min_processes(2), eager("b"));
    let mut sessions = vec![rig.get(&a)];
    rig.eventually(|c| c.count == 2);
    sessions.push(rig.get(&a));
    for count in [3, 4] {
        sessions.push(rig.get(&b));
        rig.eventually(|c| c.count == count && c.spawning == 0);
        sessions.push(rig.get(&b));
    }
    sessions.push(rig.get(&b));
    // Of B, one process has three sessions and the other two.
    let load = |rig: &Rig| -> Vec<_> {
        rig.group(&b).processes.iter().map(|p| (p.sessions, p.state)).collect()
    };
    let loads: Vec<usize> = load(&rig).iter().map(|(sessions, _)| *sessions).collect();
    let least = loads.iter().position(|&n| n == *loads.iter().min().expect("two")).expect("one");
    assert_ne!(loads[0], loads[1]);
    let y = rig.queue_get(&app("y"));
    assert_eq!(load(&rig)[least].1, ProcessState::Retiring);
    assert_eq!(load(&rig)[1 - least].1, ProcessState::Busy);
    assert!(rig.group(&a).processes.iter().all(|p| p.state == ProcessState::Busy));
    drop(sessions);
    drop(y.session());
}

/// The mark goes with the group that needs the place (INV-MARKED).
#[test] // E18
fn a_process_is_unmarked_when_the_group_waits_no_longer() {
    let rig = Rig::without_cleaner(|b| b.max(1).drain_timeout(60 * SECOND));
    rig.spawner.always("/srv/x", Spawn::ready().concurrency(None));
    let _busy = rig.get(&app("x"));
    let mut y = rig.task(&app("y"));
    assert!(y.poll().is_none());
    assert_eq!(rig.group(&app("x")).processes[0].state, ProcessState::Retiring);
    drop(y);
    assert_eq!(rig.group(&app("x")).processes[0].state, ProcessState::Busy);
    rig.clock.advance(60 * SECOND);
    rig.pool.clean();
    assert_eq!(rig.counts(), (1, 1));
}

/// The marked process is chosen last, so that it becomes idle if the others of its group can do its work.
#[test] // E37
fn a_marked_process_is_chosen_last() {
    let rig = Rig::without_cleaner(|b| b.max(2));
    rig.spawner.always("/srv/x", Spawn::ready().concurrency(None));
    let first = rig.get(&eager("x"));
    let second = rig.get(&eager("x"));
    rig.eventually(|c| c.count == 2 && c.spawning == 0);
    // One of the two processes is idle by now, or has the second session.
    let third = rig.get(&eager("x"));
    let y = rig.queue_get(&app("y"));
    let marked = rig.group(&app("x")).processes;
    let marked = marked.iter().find(|p| p.state == ProcessState::Retiring).expect("one is marked");
    let marked = marked.pid.expect("a pid");
    let more: Vec<_> =
        (0..5).map(|_| rig.pool.try_get(&eager("x")).expect("there is room")).collect();
    assert!(more.iter().all(|session| session.pid() != marked));
    drop((first, second, third));
    assert_eq!(rig.next_detached(), (marked, DetachReason::Evicted));
    drop(y.session());
}

/// Each group waits in the line of its want (INV-WANT).
#[test] // E20
fn raising_the_maximum_serves_the_groups_in_the_order_in_which_they_waited() {
    let rig = Rig::new(|b| b.max(1));
    let busy = rig.get(&app("x"));
    let waiting = ["a", "b", "c"].map(|name| rig.queue_get(&app(name)));
    rig.pool.set_max(3).expect("three is a valid maximum");
    let [a, b, c] = waiting;
    let (a, b) = (a.session(), b.session());
    rig.eventually(|c| c.spawning == 0);
    assert!(c.is_pending());
    assert_eq!((rig.counts(), rig.pool.counts().waiting), ((3, 3), 1));
    drop((a, b, busy));
    drop(c.session());
}

/// The pseudocode has no such operation, so no waiter would wake (PROP-WORK-CONSERVING).
#[test] // E20
fn raising_a_groups_maximum_wakes_its_waiters() {
    let rig = Rig::new(|b| b.max(4).max_per_app(1));
    let (_x, _y) = (rig.get(&app("x")), rig.get(&app("y")));
    let first = rig.queue_get(&app("x"));
    let second = rig.queue_get(&app("x"));
    assert_eq!(rig.pool.counts().spawning, 0);
    rig.pool.set_max_per_app(2).expect("not zero");
    let _first = first.session();
    rig.eventually(|c| c.spawning == 0);
    assert!(second.is_pending());
    assert_eq!(rig.spawner.begun(), 3);
    rig.pool.set_max_per_app(None).expect("not zero");
    drop(second.session());
}

#[test] // E20
fn a_shortened_idle_time_counts_at_once() {
    let rig = Rig::new(|b| b.max_idle_time(1000 * SECOND));
    rig.idle(&app("x"), 1);
    rig.clock.advance(20 * SECOND);
    assert_eq!(rig.counts(), (0, 1));
    rig.pool.set_max_idle_time(10 * SECOND).expect("not zero");
    rig.eventually(|c| c.count == 0);
}

#[test] // E25
fn a_spawn_waits_for_a_drain_when_too_many_drain() {
    let rig = Rig::new(|b| b.max(1).max_draining(1));
    let first = rig.get(&app("x"));
    rig.pool.detach(Session::identifier(&first));
    let second = rig.get(&app("x"));
    assert_eq!((rig.counts(), rig.pool.counts().draining), ((1, 1), 1));
    rig.pool.detach(Session::identifier(&second));
    let third = rig.queue_get(&app("x"));
    assert_eq!((rig.counts(), rig.pool.counts().draining), ((0, 0), 2));
    assert_eq!(rig.pool.counts().spawning, 0, "two drain: there is no room for a third process");
    drop(second);
    drop(third.session());
    assert_eq!(rig.pool.counts().draining, 1);
    drop(first);
}

/// The default: as many processes may drain as may serve (INV-LIVE).
#[test] // E25
fn as_many_drain_as_there_may_be() {
    let rig = Rig::watching(|b| b.max(2));
    let old: Vec<_> = (0..2).map(|_| rig.get(&app("x"))).collect();
    rig.touch(&app("x"));
    let new: Vec<_> = (0..2).map(|_| rig.get(&app("x"))).collect();
    assert_eq!((rig.counts(), rig.pool.counts().draining), ((2, 2), 2));
    rig.touch(&app("x"));
    let newest = rig.queue_get(&app("x"));
    assert_eq!((rig.pool.counts().spawning, rig.pool.counts().draining), (0, 4));
    drop(old);
    drop(newest.session());
    drop(new);
}

/// With `max_draining` 0 an idle process is still evicted.
#[test] // E25
fn eviction_makes_room_where_no_process_may_drain() {
    let rig = Rig::new(|b| b.max(1).max_draining(0));
    rig.idle(&app("x"), 1);
    assert_eq!(rig.get(&app("y")).request("hello"), "hello from /srv/y");
    let busy = rig.get(&app("y"));
    rig.pool.detach(Session::identifier(&busy));
    let waiting = rig.queue_get(&app("x"));
    assert_eq!((rig.pool.counts().spawning, rig.pool.counts().draining), (0, 1));
    drop(busy);
    drop(waiting.session());
}

#[test] // E20
fn lowering_a_groups_maximum_holds_its_waiters_back() {
    let rig = Rig::new(|b| b.max(2));
    let (x, y) = (rig.get(&app("x")), rig.get(&app("y")));
    let waiting = rig.queue_get(&app("x"));
    let other = rig.queue_get(&app("y"));
    rig.pool.set_max_per_app(1).expect("not zero");
    rig.pool.set_max(4).expect("four is a valid maximum");
    assert_eq!(
        (rig.spawner.begun(), rig.pool.counts().waiting),
        (2, 2),
        "there is room, not for them"
    );
    drop(y);
    drop(other.session());
    drop(x);
    drop(waiting.session());
    assert_eq!(rig.spawner.begun(), 2);
}
