//! What the machine shows of the rulings themselves: true of them as they stand, and worth a look. If
//! a ruling is changed, so is the test that holds it here.

use cabrank_spec::configuration::{Config, Options};
use cabrank_spec::errata::counterexample;
use cabrank_spec::pool::{Action, Event, Failure, Pool, SpawnResult};

/// A rolling restart needs room for one more process. If `max` is lowered below the number of
/// processes while one is under way, and these stay busy, there may be none, and the old code serves for
/// ever: nothing detaches an outdated process without a successor.
#[test]
fn lowering_max_can_hold_up_a_rolling_restart() {
    let world = Config::new(vec![Options::new("a").rolling()], 2, 2).with(|env| {
        env.touch = true;
        env.set_max = vec![1];
    });
    let held_up = counterexample(&world, "PROP-RESTART-ENDS").expect("it is held up");
    assert!(held_up.actions.contains(&Action::SetMax(1)), "{held_up:?}");
    // Without that it always ends.
    let world = world.with(|env| env.set_max.clear());
    assert!(counterexample(&world, "PROP-RESTART-ENDS").is_err());
}

/// With nothing allowed beyond `max`, a full pool has no room for a successor either.
#[test]
fn a_full_pool_without_room_to_drain_cannot_restart_one_by_one() {
    let world = Config::new(vec![Options::new("a").rolling()], 2, 2).with(|env| env.touch = true);
    let world = world.but(|config| config.max_draining = Some(0));
    assert!(counterexample(&world, "PROP-RESTART-ENDS").is_ok());
}

/// A get that does not want to wait evicts nobody: for a new group, in a pool that is full of idle
/// processes of others, it fails again and again, though one that waits would be served.
#[test]
fn a_get_that_does_not_wait_evicts_nobody() {
    let groups = vec![Options::new("a"), Options::new("b")];
    let mut pool = Pool::new(Config::new(groups, 1, 1));
    pool.apply(&Action::Get { client: 0, group: 0 });
    pool.apply(&Action::SpawnEnds { ticket: 1, result: SpawnResult::Process });
    pool.apply(&Action::CloseSession { client: 0 });
    let why = Failure::WouldBlock;
    for _ in 0..3 {
        pool.apply(&Action::TryGet { client: 0, group: 1 });
        assert_eq!(pool.told, [Event::Failed { client: 0, why }]);
        assert_eq!(pool.inactive_apps, [1], "the other group's process is idle, and stays");
    }
    pool.apply(&Action::Get { client: 0, group: 1 });
    assert!(pool.told.contains(&Event::SpawnBegun { group: 1, ticket: 2, replaces: false }));
}
