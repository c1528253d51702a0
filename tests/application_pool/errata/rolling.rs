//! Rolling restarts (E34): old processes serve until new ones are ready.

use crate::common::{Rig, SECOND, app};
use cabrank::PoolOptions;
use cabrank::application_pool::{DetachReason, Event, RestartMode};
use cabrank::in_memory::Spawn;

fn rolling() -> PoolOptions {
    app("x").with_restart_mode(RestartMode::Rolling)
}
/// Returns how many of the group's processes run old code.
#[track_caller]
fn outdated(rig: &Rig) -> usize {
    rig.group(&rolling()).processes.iter().filter(|p| p.outdated).count()
}
/// Gives the rig `n` processes with old code, and holds every further spawn.
#[track_caller]
fn with_old_processes(n: usize, rig: Rig) -> Rig {
    rig.spawner.set_code("/srv/x", "old");
    rig.idle(&rolling(), n);
    rig.spawner.set_code("/srv/x", "new");
    rig.spawner.always("/srv/x", Spawn::ready().held());
    rig.touch(&rolling());
    rig
}

#[test] // E34
fn the_old_serve_until_a_new_process_is_ready() {
    let rig = with_old_processes(2, Rig::watching(|b| b));
    for _ in 0..3 {
        assert_eq!(rig.get(&rolling()).code(), "old", "at once, while the new code boots");
    }
    assert_eq!((rig.pool.counts().count, outdated(&rig)), (2, 2));
    assert!(rig.group(&rolling()).restarting);
    rig.spawner.release();
    assert_eq!(rig.next_detached(), (1, DetachReason::Restarted), "the oldest first");
    rig.until(|| outdated(&rig) == 1);
    assert_eq!(rig.pool.counts().count, 2, "one by one");
    rig.spawner.release();
    assert_eq!(rig.next_detached(), (2, DetachReason::Restarted));
    rig.until(|| !rig.group(&rolling()).restarting);
    assert_eq!(rig.pids(&rolling()), [3, 4]);
    let sessions = [rig.get(&rolling()), rig.get(&rolling())];
    assert!(sessions.iter().all(|s| s.code() == "new"));
    assert_eq!(rig.spawner.begun(), 4);
}

/// The events come in the order in which things happen: the group always has a process
/// (PROP-ROLLING).
#[test] // E34
fn the_new_process_comes_before_the_old_one_goes() {
    let rig = with_old_processes(1, Rig::watching(|b| b.max(1)));
    drop(rig.get(&rolling()));
    rig.spawner.release();
    let comes_or_goes = || {
        rig.event(|event| match event {
            Event::Spawned { pid: Some(pid), .. } => Some(("comes", *pid)),
            Event::Detached { pid: Some(pid), .. } => Some(("goes", *pid)),
            _ => None,
        })
    };
    let events = [(); 3].map(|()| comes_or_goes());
    assert_eq!(events, [("comes", 1), ("comes", 2), ("goes", 1)]);
}

#[test] // E34
fn a_busy_old_process_drains_when_it_is_replaced() {
    let rig = with_old_processes(1, Rig::watching(|b| b));
    let session = rig.get(&rolling());
    rig.spawner.release();
    rig.eventually(|c| c.draining == 1);
    assert_eq!(rig.pids(&rolling()), [2]);
    assert_eq!(rig.get(&rolling()).code(), "new");
    assert_eq!(session.code(), "old");
    assert!(rig.gone().is_empty());
    drop(session);
    assert_eq!(rig.gone(), [1]);
}

/// The pool has room for a replacement, because the old process drains, but not for an addition. In
/// the end all are new (PROP-RESTART-ENDS).
#[test] // E34
fn a_full_pool_is_renewed_one_by_one() {
    let rig = with_old_processes(2, Rig::watching(|b| b.max(2).max_draining(1)));
    let busy = [rig.get(&rolling()), rig.get(&rolling())];
    assert_eq!(rig.counts(), (2, 2));
    rig.spawner.release();
    rig.eventually(|c| c.draining == 1 && c.spawning == 0);
    assert_eq!(rig.pool.counts().count, 2);
    assert_eq!(rig.spawner.begun(), 3, "the next waits for the drain: erratum E25");
    // Of two idle processes the one freed last is chosen first.
    let [second, first] = busy;
    assert_eq!(first.pid(), 1);
    drop(first);
    rig.spawner.release();
    rig.until(|| rig.group(&rolling()).processes.len() == 3 && outdated(&rig) == 1);
    assert_eq!(rig.pids(&rolling()), [3, 4]);
    drop(second);
    rig.until(|| !rig.group(&rolling()).restarting);
    assert_eq!(rig.counts(), (0, 2));
}

/// A group at its own maximum, too.
#[test] // E34
fn a_group_at_its_maximum_is_renewed() {
    let rig = with_old_processes(1, Rig::watching(|b| b.max_per_app(1)));
    assert_eq!(rig.get(&rolling()).code(), "old");
    rig.spawner.release();
    rig.until(|| !rig.group(&rolling()).restarting);
    assert_eq!(rig.get(&rolling()).code(), "new");
    assert_eq!(rig.counts(), (0, 1));
}

#[test] // E34
fn code_that_does_not_boot_leaves_the_old_in_service() {
    let rig = with_old_processes(2, Rig::watching(|b| b));
    rig.spawner.next(Spawn::fail("syntax error"));
    rig.spawner.next(Spawn::fail("another one"));
    assert_eq!(rig.get(&rolling()).code(), "old");
    assert_eq!(rig.next_back_off(), SECOND);
    let group = rig.group(&rolling());
    assert_eq!(group.last_error.as_deref(), Some("syntax error"));
    assert_eq!((group.restarting, group.backing_off), (true, Some(SECOND)));
    for _ in 0..3 {
        assert_eq!(rig.get(&rolling()).code(), "old");
    }
    assert_eq!((rig.spawner.begun(), rig.gone()), (3, vec![]));
    // It tries again by itself.
    rig.clock.advance(SECOND);
    assert_eq!(rig.next_back_off(), 2 * SECOND);
    rig.clock.advance(2 * SECOND);
    rig.spawner.release();
    rig.spawner.release();
    rig.until(|| !rig.group(&rolling()).restarting);
    assert_eq!(rig.get(&rolling()).code(), "new");
    assert_eq!(rig.group(&rolling()).last_error, None);
}

#[test] // E34
fn a_second_touch_while_rolling_begins_again_with_the_newest_code() {
    let rig = with_old_processes(2, Rig::watching(|b| b));
    assert_eq!(rig.get(&rolling()).code(), "old");
    rig.spawner.release();
    rig.until(|| outdated(&rig) == 1 && rig.spawner.begun() == 4);
    // One of two is new, and the other is being spawned.
    rig.spawner.set_code("/srv/x", "newest");
    rig.touch(&rolling());
    drop(rig.get(&rolling()));
    assert_eq!(outdated(&rig), 2, "the new process is outdated now");
    rig.spawner.release();
    rig.spawner.release();
    rig.until(|| !rig.group(&rolling()).restarting);
    let sessions = [rig.get(&rolling()), rig.get(&rolling())];
    assert!(sessions.iter().all(|s| s.code() == "newest"));
    assert_eq!(rig.counts(), (2, 2));
    assert_eq!(rig.group(&rolling()).generation, 2);
}

/// The group is empty, so its next get brings the new code.
#[test] // E34
fn an_empty_group_is_renewed_by_its_next_spawn() {
    let rig = Rig::watching(|b| b.max(1));
    rig.idle(&rolling(), 1);
    rig.idle(&app("y"), 1);
    rig.touch(&rolling());
    assert_eq!(rig.get(&rolling()).pid(), 3);
    assert_eq!(rig.spawner.reloaded(), ["/srv/x"]);
    assert!(!rig.group(&rolling()).restarting);
}

/// Its replacement is in flight and now counts as an addition (INV-OUTDATED).
#[test] // E34
fn an_old_process_that_dies_first_is_replaced_all_the_same() {
    let rig = with_old_processes(1, Rig::watching(|b| b.max(1)));
    assert_eq!(rig.get(&rolling()).code(), "old");
    rig.spawner.processes()[0].kill();
    let getting = rig.queue_get(&rolling());
    assert_eq!(rig.counts(), (0, 0));
    rig.spawner.release();
    assert_eq!(getting.session().code(), "new");
    assert_eq!(rig.counts(), (0, 1));
}
