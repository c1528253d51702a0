//! The cost of a failed spawn, minima, and the choice of eviction victims (E26 to E29).

use crate::common::{self, Rig, SECOND, app, before_long, eager};
use cabrank::application_pool::{
    DetachReason, Event, GetError, Identifier, SpawnError, SpawnRequest, Spawner, WeakPool,
};
use cabrank::in_memory::{InMemorySpawner, Spawn};
use cabrank::{ApplicationPool, ManualClock, PoolOptions, Session};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// In the pseudocode one failed spawn drops them all (PROP-HEALTHY-STAY).
#[test] // E26
fn healthy_processes_stay_when_a_spawn_fails() {
    let rig = Rig::new(|b| b);
    let busy: Vec<_> = (0..2).map(|_| rig.get(&app("x"))).collect();
    rig.spawner.next(Spawn::panic());
    let waiting = rig.start_get(&app("x"));
    rig.next_back_off();
    assert_eq!(rig.counts(), (2, 2));
    let group = rig.group(&app("x"));
    assert!(group.last_error.is_some_and(|error| error.contains("panicked")));
    drop(busy);
    drop(waiting.session());
    assert!(rig.gone().is_empty());
}

#[test] // E26
fn the_back_off_doubles_up_to_its_cap_and_success_ends_it() {
    let rig = Rig::new(|b| b.back_off(SECOND, 30 * SECOND));
    rig.spawner.always("/srv/x", Spawn::fail("no database"));
    for seconds in [1, 2, 4, 8, 16].into_iter().chain([30; 15]) {
        assert!(matches!(rig.start_get(&app("x")).error(), GetError::Spawn(_)));
        assert_eq!(rig.next_back_off(), seconds * SECOND);
        assert_eq!(rig.group(&app("x")).backing_off, Some(seconds * SECOND));
        rig.clock.advance(seconds * SECOND);
    }
    rig.spawner.always("/srv/x", Spawn::ready());
    rig.idle(&app("x"), 1);
    let group = rig.group(&app("x"));
    assert_eq!((group.last_error, group.backing_off), (None, None));
    rig.pool.detach(group.processes[0].identifier);
    rig.spawner.always("/srv/x", Spawn::fail("no database"));
    assert!(rig.start_get(&app("x")).end().is_err());
    assert_eq!(rig.next_back_off(), SECOND, "from the beginning");
}

#[test] // E26
fn the_back_off_doubles_to_a_distant_cap() {
    let cap = 24 * 3600 * SECOND;
    let rig = Rig::new(|b| b.back_off(Duration::from_millis(10), cap));
    rig.spawner.always("/srv/x", Spawn::fail("no database"));
    for doubled in 0..40 {
        assert!(matches!(rig.start_get(&app("x")).error(), GetError::Spawn(_)));
        let retry_in = rig.next_back_off();
        assert_eq!(retry_in, cap.min(Duration::from_millis(10 << doubled)));
        rig.clock.advance(retry_in);
    }
}

/// A minimum is refilled when the back-off ends. Without a pause, one thread after the other would spawn and fail.
#[test] // E26
fn a_back_off_of_zero_is_ten_milliseconds() {
    let rig = Rig::new(|b| b.back_off(Duration::ZERO, Duration::ZERO));
    rig.spawner.always("/srv/x", Spawn::fail("no database"));
    for failures in 1..5 {
        assert!(rig.start_get(&app("x").with_min_processes(1)).end().is_err());
        assert_eq!(rig.next_back_off(), Duration::from_millis(10));
        assert_eq!(rig.spawner.begun(), failures);
        rig.clock.advance(Duration::from_millis(10));
    }
}

/// Such a process would otherwise be replaced again and again: the minimum orders its successor (PROP-EARLY-DEATH).
#[test] // E26
fn a_process_that_fails_soon_after_it_was_ready_counts_as_a_failed_spawn() {
    let rig = Rig::new(|b| b.back_off(SECOND, 8 * SECOND));
    let x = app("x").with_min_processes(1);
    let ready = || rig.eventually(|c| c.count == 1 && c.spawning == 0);
    let fails = || assert!(rig.pool.process_has_failed(rig.group(&x).processes[0].identifier));
    assert!(rig.pool.try_get(&x).is_err(), "it orders the first process");
    ready();
    fails();
    ready(); // The first is replaced at once.
    for seconds in [2, 4, 8, 8] {
        fails();
        let group = rig.group(&x);
        assert_eq!(group.backing_off, Some(seconds * SECOND));
        assert!(group.last_error.is_some_and(|error| error.contains("soon after")));
        assert_eq!(rig.pool.counts().spawning, 0);
        assert!(matches!(rig.pool.get(&x), Err(GetError::Spawn(_))));
        rig.clock.advance(seconds * SECOND);
        ready();
    }
    // A session proves a process that has lived for a while, and a long life proves any.
    rig.clock.advance(SECOND);
    drop(rig.get(&x));
    fails();
    ready();
    fails();
    ready();
    rig.clock.advance(8 * SECOND);
    fails();
    ready();
    assert_eq!(rig.group(&x).backing_off, None);
    let totals = rig.pool.snapshot().totals;
    assert_eq!((totals.spawned, totals.detached, totals.spawns_failed), (9, 8, 0));
}

/// Gets come often, and are served in between.
#[test] // E26
fn sessions_with_new_processes_do_not_end_a_count_of_failures() {
    let rig = Rig::new(|b| b.back_off(SECOND, 8 * SECOND));
    let x = app("x").with_min_processes(1);
    let serves_and_fails = || {
        rig.eventually(|c| c.count == 1 && c.spawning == 0);
        drop(rig.get(&x));
        rig.clock.advance(SECOND / 10);
        // It dies under its session: the next one may come in any state of the process.
        Session::fail(rig.get(&x));
    };
    drop(rig.get(&x));
    serves_and_fails(); // The first is replaced at once.
    for seconds in [2, 4, 8] {
        serves_and_fails();
        assert_eq!(rig.group(&x).backing_off, Some(seconds * SECOND));
        rig.clock.advance(seconds * SECOND);
    }
    rig.eventually(|c| c.count == 1 && c.spawning == 0);
    rig.clock.advance(SECOND);
    drop(rig.get(&x));
    Session::fail(rig.get(&x));
    rig.eventually(|c| c.count == 1 && c.spawning == 0);
    assert_eq!(rig.group(&x).backing_off, None, "it had served for a while");
}

/// The reports come in any order: a process may be seen to end before its spawn has.
#[test] // E26
fn a_process_may_fail_before_it_is_attached() {
    struct Failing(InMemorySpawner, Arc<OnceLock<WeakPool<Failing>>>);
    impl Spawner for Failing {
        type Process = cabrank::in_memory::Handle;
        fn spawn(&self, request: &SpawnRequest) -> Result<Self::Process, SpawnError> {
            let process = self.0.spawn(request);
            if self.0.begun() <= 3 {
                let pool = self.1.get().and_then(WeakPool::upgrade).expect("the pool is open");
                assert!(pool.process_has_failed(request.identifier()));
            }
            process
        }
    }
    let (time, spawner, own) = (ManualClock::new(), InMemorySpawner::new(), Arc::default());
    let builder = ApplicationPool::builder(Failing(spawner.clone(), Arc::clone(&own)));
    let pool = builder.clock(time.clock()).build().expect("a valid pool");
    assert!(own.set(pool.downgrade()).is_ok());
    let x = app("x").with_min_processes(1);
    assert!(matches!(pool.get(&x), Err(GetError::Spawn(_))));
    // The get is woken before the second process is shut down.
    before_long(|| spawner.shut_down().len() == 2);
    assert_eq!(spawner.begun(), 2, "the first is replaced at once");
    time.advance(2 * SECOND);
    before_long(|| spawner.shut_down().len() == 3 && pool.counts().spawning == 0);
    assert!(!pool.process_has_failed(Identifier::from_u64(3)), "it is gone");
    time.advance(4 * SECOND);
    before_long(|| pool.counts().count == 1);
    let totals = pool.snapshot().totals;
    assert_eq!((totals.spawned, totals.detached, totals.unwanted), (4, 3, 3));
}

/// Gets that share a busy process want another one, and must not cause one attempt each.
#[test] // E26
fn a_group_that_backs_off_does_not_spawn_for_those_it_serves() {
    let rig = Rig::without_cleaner(|b| b);
    rig.spawner.next(Spawn::ready().concurrency(None));
    rig.spawner.always("/srv/x", Spawn::fail("no database"));
    let mut sessions = vec![rig.get(&eager("x")), rig.get(&eager("x"))];
    rig.next_back_off();
    for _ in 0..5 {
        sessions.push(rig.get(&eager("x")));
        assert_eq!(rig.pool.counts().spawning, 0);
    }
    rig.clock.advance(SECOND);
    sessions.push(rig.get(&eager("x")));
    assert_eq!(rig.next_back_off(), 2 * SECOND, "the next attempt");
}

/// The cleaner wakes at the end of the back-off, without another get.
#[test] // E26
fn a_waiter_is_given_a_spawn_when_the_back_off_ends() {
    let rig = Rig::new(|b| b);
    let _busy = rig.get(&app("x"));
    rig.spawner.next(Spawn::fail("no database"));
    let waiting = rig.queue_get(&app("x"));
    rig.next_back_off();
    assert!(waiting.is_pending());
    rig.clock.advance(SECOND);
    assert_eq!(waiting.session().pid(), 2);
}

/// In the pseudocode each of its gets kills an idle process of another group (PROP-BACK-OFF-SPARES).
#[test] // E27
fn a_group_that_backs_off_evicts_no_process_and_fails_at_once() {
    let rig = Rig::without_cleaner(|b| b.max(2));
    rig.spawner.always("/srv/broken", Spawn::fail("no database"));
    rig.idle(&app("x"), 2);
    assert!(rig.start_get(&app("broken")).end().is_err());
    assert_eq!(rig.next_detached(), (1, DetachReason::Evicted), "for the first attempt");
    for _ in 0..5 {
        let error = rig.pool.try_get(&app("broken")).err();
        assert!(matches!(error, Some(GetError::Spawn(e)) if e.to_string() == "no database"));
        let error = rig.start_get(&app("broken")).error();
        assert!(matches!(error, GetError::Spawn(_)));
    }
    assert_eq!((rig.spawner.begun(), rig.counts()), (3, (0, 1)));
    rig.clock.advance(SECOND);
    assert!(rig.start_get(&app("broken")).end().is_err());
    assert_eq!(rig.spawner.begun(), 4, "tried again");
}

/// The group's last process leaves while it backs off, so the waiter has lost its reason to wait
/// (INV-WAIT-HAS-CAUSE, INV-BACK-OFF).
#[test] // E27
fn a_waiter_fails_when_the_last_healthy_process_leaves() {
    let rig = Rig::new(|b| b);
    rig.idle(&app("x"), 1);
    let busy = rig.get(&app("x"));
    rig.clock.advance(SECOND); // Its failure is no early death.
    rig.spawner.next(Spawn::fail("no database"));
    let waiting = rig.queue_get(&app("x"));
    rig.next_back_off();
    Session::fail(busy);
    let error = waiting.error();
    assert!(matches!(error, GetError::Spawn(e) if e.to_string() == "no database"));
}

/// The pseudocode checks the minimum only when it creates the group.
#[test] // E28
fn the_minimum_is_refilled_after_every_kind_of_loss() {
    refills("detached", |rig, x| {
        assert!(rig.pool.detach(rig.group(x).processes[0].identifier));
    });
    refills("crashed", |rig, x| {
        rig.spawner.processes().iter().for_each(|process| process.kill());
        drop(rig.get(x));
    });
    refills("broke its session", |rig, x| Session::fail(rig.get(x)));
    refills("did its last request", |rig, x| (0..3).for_each(|_| drop(rig.get(x))));
}

#[track_caller]
fn refills(how: &str, lose: impl Fn(&Rig, &PoolOptions)) {
    let rig = Rig::new(|b| b);
    let x = app("x").with_min_processes(2).with_max_requests(3);
    drop(rig.get(&x));
    rig.eventually(|c| c.count == 2);
    let before = rig.pids(&x);
    rig.clock.advance(30 * SECOND); // Their failures are no early deaths.
    lose(&rig, &x);
    rig.eventually(|c| c.count == 2 && c.spawning == 0);
    assert_ne!(rig.pids(&x), before, "{how}");
}

#[test] // E28
fn the_minimum_is_refilled_after_eviction_when_there_is_room() {
    let rig = Rig::new(|b| b.max(2));
    let x = app("x").with_min_processes(2);
    drop(rig.get(&x));
    rig.eventually(|c| c.count == 2);
    let y = rig.get(&app("y"));
    assert_eq!(rig.pids(&x).len(), 1);
    assert_eq!(rig.pool.counts().spawning, 0, "there is no room");
    rig.pool.set_max(3).expect("three is a valid maximum");
    rig.until(|| rig.pids(&x).len() == 2);
    drop(y);
}

#[test] // E28
fn refilling_backs_off() {
    let rig = Rig::new(|b| b);
    let x = app("x").with_min_processes(2);
    rig.spawner.next(Spawn::ready());
    for _ in 0..3 {
        rig.spawner.next(Spawn::fail("no database"));
    }
    rig.idle(&x, 1);
    for seconds in [1, 2, 4] {
        assert_eq!(rig.next_back_off(), seconds * SECOND);
        assert_eq!(rig.pool.counts().spawning, 0);
        rig.clock.advance(seconds * SECOND);
    }
    rig.eventually(|c| c.count == 2);
    assert_eq!(rig.spawner.begun(), 5);
}

/// The victim is one that no minimum protects, as long as there is one (INV-EVICTABLE, PROP-VICTIM).
#[test] // E29
fn the_longest_idle_above_its_minimum_is_evicted() {
    let rig = Rig::new(|b| b.max(3));
    rig.idle(&app("kept").with_min_processes(1), 1);
    rig.idle(&app("x"), 1);
    rig.idle(&app("y"), 1);
    let session = rig.get(&app("z"));
    assert_eq!(evicted(&rig), "/srv/x", "the kept one is idle for longer");
    drop(session);
}

#[test] // E29
fn a_minimum_gives_way_if_all_are_at_theirs() {
    let rig = Rig::new(|b| b.max(2));
    rig.idle(&app("x").with_min_processes(1), 1);
    rig.idle(&app("y").with_min_processes(1), 1);
    let session = rig.get(&app("z"));
    assert_eq!(evicted(&rig), "/srv/x", "the longest idle");
    drop(session);
}

#[track_caller]
fn evicted(rig: &Rig) -> String {
    rig.event(|event| match event {
        Event::Detached { group, reason: DetachReason::Evicted, .. } => Some(group.to_string()),
        _ => None,
    })
}

/// The back-off goes with the group, though one of its processes still drains (PROP-DETACH-RESETS).
#[test] // E26
fn a_detached_group_forgets_its_back_off_though_it_drains() {
    let rig = Rig::without_cleaner(|b| b);
    let busy = rig.get(&app("x"));
    rig.spawner.next(Spawn::fail("no database"));
    let waiting = rig.queue_get(&app("x"));
    rig.next_back_off();
    assert!(rig.pool.detach_group("/srv/x"));
    drop(waiting.session());
    drop(rig.get(&app("x")));
    assert_eq!(rig.group(&app("x")).last_error, None);
    drop(busy);

    rig.spawner.next(Spawn::ready().concurrency(None));
    let busy = [rig.get(&eager("y")), {
        rig.spawner.next(Spawn::fail("no database"));
        rig.get(&eager("y"))
    }];
    rig.next_back_off();
    assert!(rig.pool.detach_group("/srv/y"));
    drop(rig.get(&eager("y")));
    drop(busy);
}

/// The waiter keeps the group, and with it the minimum.
#[test] // E28
fn the_minimum_is_refilled_after_the_group_was_detached_under_a_waiter() {
    let rig = Rig::new(|b| b.max(2));
    let x = app("x").with_min_processes(2);
    let busy = [rig.get(&x), rig.get(&x)];
    let waiting = rig.queue_get(&x);
    assert!(rig.pool.detach_group("/srv/x"));
    drop(waiting.session());
    rig.eventually(|c| c.count == 2 && c.draining == 2);
    drop(busy);
}

/// A detached group keeps no minimum until the next get asks for it (PROP-FORGOTTEN).
#[test] // E28
fn the_minimum_of_a_detached_group_is_not_refilled_until_a_get_asks() {
    let rig = Rig::new(|b| b.max(2));
    let x = app("x").with_min_processes(2);
    let busy = rig.get(&x);
    rig.eventually(|c| c.count == 2);
    assert!(rig.pool.detach_group("/srv/x"));
    let counts = rig.pool.counts();
    assert_eq!((counts.count, counts.spawning, counts.draining), (0, 0, 1));
    drop(rig.get(&x));
    rig.eventually(|c| c.count == 2);
    drop(busy);
}

#[test] // E28
fn a_lowered_minimum_is_not_refilled_any_more() {
    let rig = Rig::new(|b| b.max(1));
    rig.idle(&app("x").with_min_processes(2), 1);
    rig.idle(&app("x"), 1);
    rig.pool.set_max(3).expect("three is a valid maximum");
    rig.idle(&app("x"), 1);
    assert_eq!((rig.counts(), rig.spawner.begun()), ((0, 1), 1));
    // A raised minimum is filled without any loss.
    rig.idle(&app("x").with_min_processes(2), 1);
    rig.eventually(|c| c.count == 2);
}

/// A pool with room for two processes: one of `a`, with a session that does not end, and one of `b`.
fn with_endless_session() -> (Rig, common::Session) {
    let rig = Rig::new(|b| b.max(2).drain_timeout(60 * SECOND));
    let endless = rig.get(&app("a"));
    rig.idle(&app("b").with_min_processes(1), 1);
    (rig, endless)
}

/// The idle process would stay beside the get for as long as the session lasts (PROP-ENDLESS-SESSIONS).
#[test] // E37
fn a_group_that_starves_gets_the_place_of_an_idle_process() {
    let (rig, endless) = with_endless_session();
    let waiting = rig.queue_get(&app("a"));
    rig.clock.advance(59 * SECOND);
    rig.pool.clean();
    assert!(waiting.is_pending());
    rig.clock.advance(SECOND);
    drop(waiting.session());
    assert_eq!(evicted(&rig), "/srv/b");
    drop(endless);
}

#[test] // E37
fn a_group_that_starves_gets_the_place_of_the_first_process_that_becomes_idle() {
    let (rig, endless) = with_endless_session();
    let busy = rig.get(&app("b"));
    let waiting = rig.queue_get(&app("a"));
    rig.clock.advance(100 * SECOND);
    rig.pool.clean();
    assert!(waiting.is_pending(), "it takes no busy process");
    let other = rig.queue_get(&app("b"));
    drop(busy);
    drop(waiting.session());
    drop(endless);
    drop(other.session());
}

/// Each served get moves its group behind the others (INV-LAST-SERVED).
#[test] // E37
fn a_group_whose_gets_are_served_does_not_starve() {
    let (rig, busy) = with_endless_session();
    let (first, second) = (rig.queue_get(&app("a")), rig.queue_get(&app("a")));
    rig.clock.advance(59 * SECOND);
    drop(busy);
    let busy = first.session();
    rig.clock.advance(59 * SECOND);
    rig.pool.clean();
    assert!(second.is_pending());
    assert_eq!(rig.pids(&app("b")).len(), 1, "its process stays");
    drop(busy);
    drop(second.session());
}

/// A get that has its outcome changes nothing by leaving. The cleaner makes room, and not this get.
#[test] // E37
fn a_get_that_leaves_with_its_error_takes_no_process_from_another_group() {
    let rig = Rig::without_cleaner(|b| b.max(2).drain_timeout(60 * SECOND));
    rig.spawner.always("/srv/c", Spawn::fail("no database").held());
    let mut failed = rig.task(&app("c"));
    assert!(failed.poll().is_none());
    rig.spawner.release();
    rig.eventually(|counts| counts.spawning == 0);
    let endless = rig.get(&app("a"));
    drop(rig.get(&app("b")));
    let idle = rig.pids(&app("b"));
    let waiting = rig.queue_get(&app("a"));
    rig.clock.advance(60 * SECOND);
    drop(failed);
    assert_eq!(rig.pids(&app("b")), idle);
    rig.pool.clean();
    drop(waiting.session());
    assert_eq!(evicted(&rig), "/srv/b");
    drop(endless);
}

/// Options made anew are the group's own, if they ask for the same. A get with them is served as any other, also when
/// another group starves and the cleaner has not passed yet.
#[test] // E37
fn equal_options_made_anew_take_no_process_from_their_own_get() {
    let rig = Rig::without_cleaner(|b| b.max(2).drain_timeout(60 * SECOND));
    let endless = rig.get(&app("a"));
    drop(rig.get(&app("b")));
    let idle = rig.pids(&app("b"));
    let waiting = rig.queue_get(&app("a"));
    rig.clock.advance(60 * SECOND);
    let session = rig.get(&app("b"));
    assert_eq!(rig.pids(&app("b")), idle);
    assert!(waiting.is_pending());
    drop(session);
    drop(waiting.session());
    drop(endless);
}

/// The group that starves is above its own minimum: that is no reason to spare a process that its minimum protects.
#[test] // E37
fn a_group_that_starves_gets_the_place_of_a_protected_process_that_becomes_idle() {
    let (rig, endless) = with_endless_session();
    let b = app("b").with_min_processes(1);
    let busy = rig.get(&b);
    let waiting = rig.queue_get(&app("a"));
    let other = rig.queue_get(&b);
    rig.clock.advance(60 * SECOND);
    rig.pool.clean();
    assert!(waiting.is_pending(), "it takes no busy process");
    drop(busy);
    drop(waiting.session());
    assert_eq!(evicted(&rig), "/srv/b");
    drop(endless);
    drop(other.session());
}
