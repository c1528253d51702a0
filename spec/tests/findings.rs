//! Surprising consequences of the rulings. If a ruling changes, its test here changes, too.

use cabrank_spec::application_pool::configuration::{Config, Options};
use cabrank_spec::application_pool::pool::{Action, Event, Failure, Pool, SpawnResult};
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
