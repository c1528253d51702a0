//! Surprising consequences of the rulings. If a ruling changes, its test here changes, too.

use cabrank_spec::application_pool::configuration::{Config, Options};
use cabrank_spec::application_pool::pool::{Action, Event, Failure, Pool, Reason, SpawnResult};
use cabrank_spec::checking::check::counterexample;

/// A rolling restart needs room for one more process. If `max` falls below the number of processes during
/// a restart, and these stay busy, the old code serves for ever. An outdated process is detached only after
/// its successor is attached.
#[test]
fn lowering_max_can_stop_a_rolling_restart() {
    let world = Config::new(vec![Options::new("a").rolling()], 2, 2).with(|env| {
        env.touch = true;
        env.set_max = vec![1];
    });
    let stopped = counterexample(&world, "PROP-RESTART-ENDS").expect("the restart stops");
    assert!(stopped.actions.contains(&Action::SetMax(1)), "{stopped:?}");
    // With a constant max the restart always ends.
    let world = world.with(|env| env.set_max.clear());
    assert!(counterexample(&world, "PROP-RESTART-ENDS").is_none());
}

/// With `max_draining` 0, a full pool has no room for a successor.
#[test]
fn a_full_pool_without_room_to_drain_cannot_restart_one_by_one() {
    let world = Config::new(vec![Options::new("a").rolling()], 2, 2).with(|env| env.touch = true);
    let world = world.but(|config| config.max_draining = Some(0));
    assert!(counterexample(&world, "PROP-RESTART-ENDS").is_some());
}

/// If `max` falls below the size of a group that starves, the group takes idle processes of others, and is given none for
/// them. The pool shrinks to its new `max`, even below the minimum of the other group.
#[test]
fn a_group_beyond_a_lowered_max_takes_idle_processes_in_vain() {
    let groups = vec![Options::new("a").min(1), Options::new("b")];
    let world = Config::new(groups, 2, 3).with(|env| env.time = true);
    let mut pool = Pool::new(world);
    let ready = |ticket| Action::SpawnEnds { ticket, result: SpawnResult::Process };
    let get = |client, group| Action::Get { client, group };
    let serve = [get(0, 0), ready(1), get(1, 1), ready(2), Action::CloseSession { client: 0 }];
    let starve = [get(2, 1), Action::SetMax(1), Action::Tick, Action::Tick];
    serve.iter().chain(&starve).for_each(|action| pool.apply(action));
    assert_eq!(pool.inactive_apps, [1]);
    pool.apply(&Action::Clean);
    let reason = Reason::Evicted(Some(1));
    assert!(pool.events.contains(&Event::Detached { process: 1, group: 0, reason, busy: false }));
    assert_eq!((pool.count, pool.reserved, pool.groups[1].size), (1, 0, 1));
}

/// A get that does not wait evicts no process. For a new group, in a pool full of idle processes of other
/// groups, it always fails, although a waiting get would be served.
#[test]
fn a_get_that_does_not_wait_evicts_no_process() {
    let groups = vec![Options::new("a"), Options::new("b")];
    let mut pool = Pool::new(Config::new(groups, 1, 1));
    pool.apply(&Action::Get { client: 0, group: 0 });
    pool.apply(&Action::SpawnEnds { ticket: 1, result: SpawnResult::Process });
    pool.apply(&Action::CloseSession { client: 0 });
    let why = Failure::WouldBlock;
    for _ in 0..3 {
        pool.apply(&Action::TryGet { client: 0, group: 1 });
        assert_eq!(pool.events, [Event::Failed { client: 0, why }]);
        assert_eq!(pool.inactive_apps, [1], "the other group's process is idle, and stays");
    }
    pool.apply(&Action::Get { client: 0, group: 1 });
    assert!(pool.events.contains(&Event::SpawnBegun { group: 1, ticket: 2, replaces: false }));
}
