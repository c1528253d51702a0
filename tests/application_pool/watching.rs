//! The operator's view: each event with all that it says, the snapshot of groups that come and go, and the words of each
//! error beside the event that belongs to it.

use crate::common::{self, Getting, Pool, Rig, SECOND, app, before_long, soon};
use cabrank::application_pool::{DetachReason, Event, GetError, Identifier, RestartMode};
use cabrank::in_memory::{Call, Spawn};
use cabrank::{PoolOptions, Session};
use std::time::Duration;

/// Returns the next events, up to the first for which `is_last` holds.
fn events_until(rig: &Rig, is_last: impl Fn(&Event) -> bool) -> Vec<Event> {
    let mut all = Vec::new();
    rig.event(|event| {
        all.push(event.clone());
        is_last(event).then_some(())
    });
    all
}

/// Returns the next reason of a detach, and asserts that the event names the process as it was announced.
#[track_caller]
fn reason_of(rig: &Rig, spawned: &Event) -> DetachReason {
    rig.event(|event| match event {
        Event::Detached { reason, .. } => {
            assert_eq!(process_of(event), process_of(spawned));
            Some(*reason)
        }
        _ => None,
    })
}

/// Returns the process that the event is about, and its group.
fn process_of(event: &Event) -> (&str, Identifier, Option<u32>) {
    match event {
        Event::Spawned { group, identifier, pid }
        | Event::Detached { group, identifier, pid, .. } => (group, *identifier, *pid),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn next_spawned(rig: &Rig) -> Event {
    rig.event(|event| matches!(event, Event::Spawned { .. }).then(|| event.clone()))
}

#[test]
fn the_event_of_a_spawn_names_the_group_and_the_process() {
    let rig = Rig::new(|b| b);
    let session = rig.get(&app("x").with_app_group_name("shop"));
    let Event::Spawned { group, identifier, pid } = next_spawned(&rig) else { unreachable!() };
    assert_eq!((&*group, identifier), ("shop", Session::identifier(&session)));
    assert_eq!(pid, Some(session.pid()));
}

/// Each way in which a process leaves is reported once, with its reason.
#[test]
fn each_way_out_has_its_reason() {
    use DetachReason::*;
    type Leave = fn(&Rig, common::Session);
    let ways: [(DetachReason, Leave); 8] = [
        (Requested, |rig, session| assert!(rig.pool.detach(Session::identifier(&session)))),
        (Requested, |rig, _| assert!(rig.pool.detach_group("/srv/x"))),
        (Gone, |rig, s| assert!(rig.pool.process_is_gone(Session::identifier(&s)))),
        (Failed, |_, session| Session::fail(session)),
        (Failed, |rig, s| assert!(rig.pool.process_has_failed(Session::identifier(&s)))),
        (Restarted, |rig, _| assert!(rig.pool.restart_group("/srv/x", RestartMode::Immediate))),
        (Closed, |rig, _| rig.pool.close()),
        (MaxRequests, |_, session| drop(session)),
    ];
    for (reason, leave) in ways {
        let rig = Rig::without_cleaner(|b| b);
        let max_requests = (reason == MaxRequests).then_some(1);
        let session = rig.get(&app("x").with_max_requests(max_requests));
        let spawned = next_spawned(&rig);
        leave(&rig, session);
        assert_eq!(reason_of(&rig, &spawned), reason);
        assert_eq!(rig.pool.snapshot().totals.detached, 1);
    }
    let rig = Rig::without_cleaner(|b| b.max(1).max_idle_time(SECOND));
    drop(rig.get(&app("x")));
    let evicted = next_spawned(&rig);
    drop(rig.get(&app("y")));
    // The spawn begins before the process is shut down. Either event may come first.
    let mut events = events_until(&rig, |event| matches!(event, Event::Detached { .. }));
    let last = events.pop().expect("a detach");
    assert!(matches!(last, Event::Detached { reason: Evicted, .. }), "{last:?}");
    assert_eq!(process_of(&last), process_of(&evicted));
    let spawned = events.into_iter().find(|event| matches!(event, Event::Spawned { .. }));
    let spawned = spawned.unwrap_or_else(|| next_spawned(&rig));
    rig.clock.advance(SECOND);
    rig.pool.clean();
    assert_eq!(reason_of(&rig, &spawned), Idle);
    rig.spawner.next(Spawn::ready().held());
    assert!(rig.pool.try_get(&app("z")).is_err(), "it orders a process");
    rig.await_spawns(3);
    assert!(rig.pool.detach_group("/srv/z"));
    rig.spawner.release();
    rig.eventually(|c| c.spawning == 0);
    // Its spawn was cancelled, or it was ready before and is not wanted.
    let totals = rig.pool.snapshot().totals;
    if totals.unwanted == 1 {
        let spawned = next_spawned(&rig);
        assert_eq!(reason_of(&rig, &spawned), Unwanted);
    }
}

#[test]
fn a_newcomer_that_is_not_wanted_is_announced_and_taken_back() {
    let rig = Rig::new(|b| b);
    let gate = rig.gate_at(Call::Spawn);
    assert!(rig.pool.try_get(&app("x")).is_err(), "it orders a process");
    gate.await_arrivals(1);
    assert!(rig.pool.detach_group("/srv/x"));
    gate.open();
    let spawned = next_spawned(&rig);
    assert!(matches!(spawned, Event::Spawned { pid: Some(1), .. }), "{spawned:?}");
    assert_eq!(reason_of(&rig, &spawned), DetachReason::Unwanted);
    rig.eventually(|c| c.spawning == 0 && c.shutting_down == 0);
    let totals = rig.pool.snapshot().totals;
    assert_eq!((totals.spawned, totals.detached, totals.unwanted), (1, 1, 1));
}

#[test]
fn each_reason_reads_differently_and_as_documented() {
    use DetachReason::*;
    let words = [Requested, Failed, Idle, Evicted, MaxRequests, Restarted, Closed, Unwanted];
    let words = words.map(|reason| reason.to_string());
    let expected = [
        "requested",
        "it failed",
        "idle for too long",
        "made room for another group",
        "maximum of requests reached",
        "restarted",
        "the pool was closed",
        "no longer wanted",
    ];
    assert_eq!(words, expected);
}

#[test]
fn the_event_of_a_restart_says_how_it_is_carried_out() {
    for mode in [RestartMode::Immediate, RestartMode::Rolling] {
        type Restart = fn(&Rig, &PoolOptions);
        let ways: [Restart; 3] = [
            |rig, options| drop(rig.get(options)),
            // The look that this get begins sees the file.
            |rig, options| drop(rig.pool.get_timeout(options, Duration::ZERO)),
            |rig, options| {
                assert!(rig.pool.restart_group("/srv/x", options.restart_mode()));
            },
        ];
        for (nth, restart) in ways.into_iter().enumerate() {
            let rig = Rig::watching(|b| b);
            let options = app("x").with_restart_mode(mode);
            drop(rig.get(&options));
            if nth < 2 {
                rig.touch(&options);
            }
            restart(&rig, &options);
            let (group, told) = rig.event(|event| match event {
                Event::Restarting { group, mode } => Some((group.clone(), *mode)),
                _ => None,
            });
            assert_eq!((&*group, told), ("/srv/x", mode));
        }
    }
}

/// A get of each kind that waits two seconds.
#[test]
fn each_kind_of_get_reports_its_wait_once() {
    type Get = fn(&Pool, &PoolOptions) -> Result<(), GetError>;
    let kinds: [Get; 6] = [
        |pool, x| pool.get(x).map(drop),
        |pool, x| pool.get_timeout(x, 100 * SECOND).map(drop),
        |pool, x| crate::common::task::block_on(pool.get_async(x)).map(drop),
        |pool, x| pool.checkout(x).map(drop),
        |pool, x| pool.checkout_timeout(x, 100 * SECOND).map(drop),
        |pool, x| crate::common::task::block_on(pool.checkout_async(x)).map(drop),
    ];
    for get in kinds {
        let rig = Rig::new(|b| b.max(1));
        rig.idle(&app("x"), 1);
        let busy = rig.get(&app("x"));
        let pool = rig.pool.clone();
        let waits = std::thread::spawn(move || get(&pool, &app("x")));
        rig.eventually(|c| c.waiting == 1);
        rig.clock.advance(2 * SECOND);
        drop(busy);
        soon(move || waits.join().expect("no panic")).expect("served");
        // This one does not wait, and its event comes last.
        drop(rig.get(&app("x")));
        rig.pool.close();
        let all = events_until(&rig, |event| matches!(event, Event::Detached { .. }));
        let waits: Vec<Duration> = all
            .iter()
            .filter_map(|event| match event {
                Event::Waited { group, waited } => (&**group == "/srv/x").then_some(*waited),
                _ => None,
            })
            .collect();
        // The first get has waited for its process.
        assert_eq!(waits, [Duration::ZERO, 2 * SECOND]);
        assert_eq!(rig.pool.snapshot().totals.waited, 2);
    }
}

/// A get that gives up has waited, and is not reported as served.
#[test]
fn a_get_that_gives_up_reports_no_wait() {
    let rig = Rig::without_cleaner(|b| b.max(1));
    let busy = rig.get(&app("x"));
    let mut task = rig.task(&app("x"));
    assert!(task.poll().is_none());
    drop(task);
    let pool = rig.pool.clone();
    let late = Getting::start(move || pool.get_timeout(&app("x"), Duration::ZERO));
    assert!(matches!(late.error(), GetError::TimedOut));
    let hurried = rig.queue_get(&app("x").with_max_queue_time(Duration::ZERO));
    rig.pool.clean();
    assert!(matches!(hurried.error(), GetError::QueuedTooLong));
    assert_eq!(rig.pool.snapshot().totals.waited, 4, "served or not");
    drop(busy);
    rig.pool.close();
    let all = events_until(&rig, |event| matches!(event, Event::Detached { .. }));
    let reported = all.iter().filter(|event| matches!(event, Event::Waited { .. }));
    assert_eq!(reported.count(), 1, "the first one: {all:?}");
}

/// The error of each get, its event, and what the snapshot says until a spawn succeeds.
#[test]
fn a_failed_spawn_is_told_to_the_get_the_observer_and_the_operator() {
    let rig = Rig::without_cleaner(|b| b.back_off(2 * SECOND, 60 * SECOND));
    for (nth, retry_in) in [(1, 2), (2, 4)] {
        rig.spawner.next(Spawn::fail(format!("no database {nth}")));
        let GetError::Spawn(told) = rig.start_get(&app("x")).error() else { panic!("no spawn") };
        let (group, observed, after) = rig.event(|event| match event {
            Event::SpawnFailed { group, error, retry_in } => {
                Some((group.clone(), error.to_string(), *retry_in))
            }
            _ => None,
        });
        let expected = format!("no database {nth}");
        assert_eq!((told.to_string(), observed), (expected.clone(), expected.clone()));
        assert_eq!((&*group, after), ("/srv/x", retry_in * SECOND));
        let shown = rig.group(&app("x"));
        assert_eq!(shown.last_error, Some(expected));
        assert_eq!(shown.backing_off, Some(retry_in * SECOND));
        rig.clock.advance(SECOND);
        assert_eq!(rig.group(&app("x")).backing_off, Some((retry_in - 1) * SECOND));
        rig.clock.advance((retry_in - 1) * SECOND);
    }
    drop(rig.get(&app("x")));
    let shown = rig.group(&app("x"));
    assert_eq!((shown.last_error, shown.backing_off), (None, None));
}

/// A process that dies early is shown as the last failure, though its spawn has succeeded.
#[test]
fn an_early_death_is_shown_as_the_last_failure() {
    let rig = Rig::without_cleaner(|b| b);
    for _ in 0..2 {
        let process = Session::identifier(&rig.get(&app("x")));
        assert!(rig.pool.process_has_failed(process));
    }
    let error = rig.start_get(&app("x")).error();
    let GetError::Spawn(cause) = error else { panic!("{error}") };
    assert_eq!(cause.to_string(), "a process failed soon after it was ready");
    let shown = rig.group(&app("x"));
    assert_eq!(shown.last_error, Some(cause.to_string()));
    assert!(shown.backing_off.is_some());
}

/// The snapshot has a group from its first get until it is forgotten, with what its latest get says.
#[test]
fn the_snapshot_shows_a_group_until_it_is_forgotten_and_anew() {
    let rig = Rig::without_cleaner(|b| b.forget_groups_after(SECOND).max_idle_time(SECOND));
    let old = app("x").with_app_group_name("shop").with_environment("staging");
    let session = rig.get(&old.clone().with_min_processes(1));
    assert!(rig.pool.restart_group("shop", RestartMode::Rolling));
    rig.until(|| rig.group(&old).processes.len() == 2 && !rig.group(&old).restarting);
    let new = app("y").with_app_group_name("shop").with_min_processes(2);
    rig.pool.pre_start(&new).expect("an open pool");
    rig.eventually(|c| c.count == 2 && c.spawning == 0);
    let shown = rig.group(&new);
    assert_eq!((shown.name.as_str(), shown.environment.as_str()), ("shop", "production"));
    assert_eq!((shown.app_root, shown.min_processes, shown.generation), ("/srv/y".into(), 2, 1));
    // By name: it drains, and is gone with its last session.
    assert!(rig.pool.detach_group("shop"));
    let draining = rig.group(&new);
    assert_eq!((draining.processes.len(), draining.processes[0].sessions), (1, 1));
    drop(session);
    assert_eq!(rig.pool.snapshot().groups, []);
    assert!(!rig.pool.detach_group("shop"));
    // It begins anew.
    drop(rig.get(&app("z").with_app_group_name("shop")));
    let shown = rig.group(&new);
    assert_eq!((shown.app_root, shown.generation), ("/srv/z".into(), 0));
    // By time.
    (0..2).for_each(|_| {
        rig.clock.advance(SECOND);
        rig.pool.clean();
    });
    assert_eq!(rig.pool.snapshot().groups, []);
    assert!(!rig.pool.restart_group("shop", RestartMode::Rolling));
}

/// A get in user code of the pool, where it would have to wait.
#[test]
fn a_get_in_a_callback_says_why_it_does_not_wait() {
    let rig = Rig::new(|b| b.max(1));
    let (weak, (sender, told)) = (rig.pool.downgrade(), std::sync::mpsc::channel());
    rig.spawner.on_call(move |call| {
        if call == Call::Spawn
            && let Some(pool) = weak.upgrade()
        {
            let _ = sender.send(pool.get(&app("y")).map(drop));
        }
    });
    drop(rig.get(&app("x")));
    let error = told.recv().expect("it was called").expect_err("it would have to wait");
    assert!(matches!(error, GetError::InCallback), "{error}");
    let says =
        "no process is free now, and user code that the pool calls must not wait for this pool";
    assert_eq!(error.to_string(), says);
    assert_eq!(rig.pool.counts().waiting, 0);
    before_long(|| rig.pool.counts().spawning == 0);
}
