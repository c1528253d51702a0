//! Groups that are not used for a time are forgotten.

use crate::common::{Rig, SECOND, app, before_long, soon};
use cabrank::application_pool::{Event, GetError};
use cabrank::in_memory::{Call, Spawn};

fn names(rig: &Rig) -> Vec<String> {
    rig.pool.snapshot().groups.into_iter().map(|group| group.name).collect()
}

/// A rig that reaps at once, and forgets after 10 s.
fn rig() -> Rig {
    Rig::without_cleaner(|b| b.max_idle_time(SECOND).forget_groups_after(10 * SECOND))
}

fn pass(rig: &Rig, seconds: u32) {
    rig.clock.advance(seconds * SECOND);
    rig.pool.clean();
}

#[test]
fn a_group_is_forgotten_when_it_was_unused_for_a_time() {
    let rig = rig();
    for name in ["x", "y", "z"] {
        drop(rig.get(&app(name)));
    }
    pass(&rig, 1); // no process is left
    pass(&rig, 5);
    let busy = rig.get(&app("z"));
    drop(rig.get(&app("y")));
    pass(&rig, 4);
    assert_eq!(names(&rig).len(), 3);
    pass(&rig, 1);
    assert_eq!(names(&rig), ["/srv/y", "/srv/z"]);
    pass(&rig, 10);
    assert_eq!(names(&rig), ["/srv/z"], "it has a session");
    drop(busy);
    pass(&rig, 1);
    pass(&rig, 10);
    assert_eq!(names(&rig), [""; 0]);
}

/// A group that returns may have new code by now.
#[test]
fn the_first_spawn_of_a_group_that_was_forgotten_reloads() {
    let rig = rig();
    drop(rig.get(&app("x")));
    drop(rig.get(&app("x")));
    pass(&rig, 1);
    drop(rig.get(&app("x")));
    assert_eq!(rig.spawner.reloaded().len(), 1, "once, and not for each process");
    pass(&rig, 1);
    pass(&rig, 10);
    assert_eq!(names(&rig), [""; 0]);
    drop(rig.get(&app("x")));
    assert_eq!(rig.spawner.reloaded().len(), 2);
}

#[test]
fn a_group_that_waits_backs_off_or_has_a_minimum_is_not_forgotten() {
    let rig = Rig::without_cleaner(|b| {
        b.forget_groups_after(SECOND).back_off(60 * SECOND, 60 * SECOND).max(2)
    });
    rig.spawner.next(Spawn::fail("no database"));
    assert!(matches!(rig.start_get(&app("x")).error(), GetError::Spawn(_)));
    rig.pool.pre_start(&app("min").with_min_processes(1)).expect("an open pool");
    rig.eventually(|c| c.count == 1);
    rig.spawner.next(Spawn::ready().held());
    let waits = rig.queue_get(&app("y"));
    pass(&rig, 10);
    assert_eq!(names(&rig), ["/srv/min", "/srv/x", "/srv/y"]);
    rig.spawner.release();
    drop(waits.session());
    pass(&rig, 50); // the end of the back-off
    pass(&rig, 1);
    assert_eq!(names(&rig), ["/srv/min", "/srv/y"]);
    // By name it is forgotten at once, though it is in line to be forgotten.
    rig.pool.pre_start(&app("none")).expect("an open pool");
    assert!(rig.pool.detach_group("/srv/none"));
    assert_eq!(names(&rig), ["/srv/min", "/srv/y"]);
}

/// The cleaner's thread does it at the time.
#[test]
fn the_cleaner_forgets_in_time() {
    let rig = Rig::new(|b| b.max_idle_time(SECOND).forget_groups_after(10 * SECOND));
    drop(rig.get(&app("x")));
    rig.clock.advance(SECOND);
    rig.eventually(|c| c.count == 0);
    rig.clock.advance(10 * SECOND);
    rig.until(|| names(&rig).is_empty());
}

/// No get of its own follows, which would note that it is unused.
#[test]
fn a_group_whose_last_process_made_room_for_another_is_forgotten() {
    let rig = Rig::without_cleaner(|b| b.max(1).max_idle_time(None).forget_groups_after(SECOND));
    drop(rig.get(&app("x")));
    let busy = rig.get(&app("y"));
    assert_eq!(names(&rig), ["/srv/x", "/srv/y"]);
    pass(&rig, 1);
    assert_eq!(names(&rig), ["/srv/y"]);
    // So is one whose process makes room as soon as it is idle.
    let waits = rig.queue_get(&app("x"));
    drop(busy);
    let session = waits.session();
    pass(&rig, 1);
    assert_eq!(names(&rig), ["/srv/x"]);
    drop(session);
}

/// It has no process yet: the pool is full, or its limit for one application.
#[test]
fn a_group_that_wants_its_minimum_is_not_forgotten() {
    let rig = Rig::without_cleaner(|b| b.max(1).forget_groups_after(SECOND));
    let busy = rig.get(&app("x"));
    let minimum = app("y").with_min_processes(1);
    rig.pool.pre_start(&minimum).expect("an open pool");
    pass(&rig, 10);
    assert_eq!(names(&rig), ["/srv/x", "/srv/y"]);
    rig.pool.set_max(2).expect("not zero");
    rig.eventually(|c| c.count == 2);
    drop(busy);
}

/// Its last error is a value of the user's, whose drop may call the pool.
#[test]
fn the_error_of_a_forgotten_group_may_call_the_pool_back() {
    for by_name in [true, false] {
        let rig = Rig::without_cleaner(|b| b.back_off(SECOND, SECOND).forget_groups_after(SECOND));
        rig.spawner.next(Spawn::fail("no database"));
        drop(rig.start_get(&app("x")).error());
        // The last clones are the group's and those of events, which the rig reads.
        rig.until(|| rig.pool.counts().spawning == 0);
        let dropped = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let (weak, counted) = (rig.pool.downgrade(), dropped.clone());
        rig.spawner.on_call(move |call| {
            if call == Call::DropError {
                // The rig may have ended before the last clone is dropped.
                if let Some(pool) = weak.upgrade() {
                    pool.counts();
                }
                counted.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            }
        });
        rig.event(|event| matches!(event, Event::SpawnFailed { .. }).then_some(()));
        let forgotten = soon(move || {
            match by_name {
                true => assert!(rig.pool.detach_group("/srv/x")),
                false => {
                    pass(&rig, 1); // the end of the back-off
                    pass(&rig, 1);
                }
            }
            names(&rig)
        });
        assert_eq!(forgotten, [""; 0]);
        // The thread that has notified the observer may drop its event later, and with it the last clone.
        before_long(|| dropped.load(std::sync::atomic::Ordering::SeqCst) == 1);
    }
}
