//! The ends of the ranges: each duration and each count of the public API is zero, the least, or as large as it can be.

use crate::common::{Getting, Rig, SECOND, app, before_long, eager, soon};
use cabrank::application_pool::{BuildError, GetError, Process};
use cabrank::in_memory::{InMemorySpawner, Spawn};
use cabrank::{ApplicationPool, ManualClock, Session};
use std::time::Duration;

const NANO: Duration = Duration::from_nanos(1);
/// Beyond what a clock of 2⁻³² seconds can count.
const AGES: Duration = Duration::from_secs(1 << 32);

/// The longest times. A clock never reaches what is due after them.
const LONG: [Duration; 2] = [AGES, Duration::MAX];
/// A hundred years pass.
const CENTURY: Duration = Duration::from_secs(100 * 365 * 86_400);

#[test]
fn a_get_with_the_longest_time_limit_waits_and_is_served() {
    for timeout in LONG {
        let rig = Rig::without_cleaner(|b| b.max(1).max_idle_time(None));
        let busy = rig.get(&app("x"));
        let gets = [true, false].map(|connects| {
            let (pool, before) = (rig.pool.clone(), rig.pool.counts().waiting);
            let get = Getting::start(move || match connects {
                true => pool.get_timeout(&app("x"), timeout),
                false => pool.checkout_timeout(&app("x"), timeout).map(|lease| {
                    let connection = lease.process().connect().expect("a live process");
                    lease.connected(connection)
                }),
            });
            rig.eventually(|c| c.waiting > before);
            get
        });
        rig.clock.advance(CENTURY);
        assert!(gets.iter().all(Getting::is_pending));
        drop(busy);
        for get in gets {
            drop(get.session());
        }
    }
}

#[test]
fn a_get_with_the_shortest_time_limits_is_served_by_an_idle_process_and_else_late() {
    for timeout in [Duration::ZERO, NANO] {
        let rig = Rig::without_cleaner(|b| b.max(1));
        let busy = rig.get(&app("x"));
        let pool = rig.pool.clone();
        let late = std::thread::spawn(move || {
            let got = pool.get_timeout(&app("x"), timeout).map(drop);
            (got, pool.checkout_timeout(&app("x"), timeout).map(drop))
        });
        before_long(|| {
            rig.clock.advance(NANO);
            late.is_finished()
        });
        let (got, lease) = late.join().expect("no panic");
        assert!(matches!(got, Err(GetError::TimedOut)), "{got:?}");
        assert!(matches!(lease, Err(GetError::TimedOut)), "{lease:?}");
        drop(busy);
        let pool = rig.pool.clone();
        assert_eq!(
            soon(move || pool.get_timeout(&app("x"), timeout).map(|s| s.pid())).ok(),
            Some(1)
        );
    }
}

#[test]
fn the_longest_waits_for_the_end_of_a_pool_end_with_it() {
    for timeout in LONG {
        let rig = Rig::without_cleaner(|b| b.drain_timeout(Duration::MAX));
        let session = rig.get(&app("x"));
        rig.pool.close();
        let (pool, other) = (rig.pool.clone(), rig.pool.clone());
        let waiting = std::thread::spawn(move || pool.wait_closed(timeout));
        let closing = std::thread::spawn(move || other.close_timeout(timeout).is_ok());
        rig.clock.advance(CENTURY);
        for _ in 0..1000 {
            assert!(!waiting.is_finished() && !closing.is_finished(), "a session is open");
            std::thread::yield_now();
        }
        drop(session);
        assert!(soon(move || waiting.join().expect("no panic")));
        assert!(soon(move || closing.join().expect("no panic")));
    }
}

#[test]
fn the_longest_queue_time_idle_time_drain_and_memory_never_end() {
    for long in LONG {
        let rig = Rig::without_cleaner(|b| {
            b.max(2).max_idle_time(long).drain_timeout(long).forget_groups_after(long)
        });
        let limited = app("x").with_max_queue_time(long);
        let busy = rig.get(&limited);
        rig.idle(&app("y"), 1);
        assert!(rig.pool.pre_start(&app("unused")).is_ok());
        // The idle process makes room for another group.
        for z in [app("z"), app("z").with_max_queue_time(long)] {
            drop(rig.start_get(&z).session());
        }
        assert!(rig.pool.detach(Session::identifier(&busy)));
        rig.clock.advance(CENTURY);
        rig.pool.clean();
        assert_eq!((rig.pool.counts().draining, rig.pool.counts().count), (1, 1));
        assert!(rig.pool.snapshot().groups.iter().any(|group| group.name == "/srv/unused"));
        drop(busy);
        rig.pool.set_max_idle_time(NANO).expect("not zero");
        rig.pool.clean();
        assert_eq!(rig.pool.counts().count, 0);
    }
}

#[test]
fn the_shortest_queue_time_idle_time_drain_and_memory_end_at_once() {
    let rig = Rig::without_cleaner(|b| {
        b.max(1)
            .max_idle_time(NANO)
            .drain_timeout(Duration::ZERO)
            .forget_groups_after(Duration::ZERO)
    });
    let busy = rig.get(&app("x"));
    let hurried = rig.queue_get(&app("x").with_max_queue_time(Duration::ZERO));
    rig.pool.clean();
    assert!(matches!(hurried.error(), GetError::QueuedTooLong));
    assert!(rig.pool.detach(Session::identifier(&busy)));
    rig.pool.clean();
    assert_eq!((rig.gone(), rig.pool.counts().draining), (vec![1], 0));
    drop(busy);
    drop(rig.get(&app("x")));
    rig.clock.advance(NANO);
    rig.pool.clean();
    assert_eq!(rig.pool.counts().count, 0);
    rig.pool.clean();
    assert_eq!(rig.pool.snapshot().groups, []);
}

/// A throttle of zero looks for each get, and the longest looks once.
#[test]
fn a_throttle_holds_a_look_for_its_time() {
    for (throttle, looks) in [(Duration::ZERO, 3), (NANO, 3), (AGES, 1), (Duration::MAX, 1)] {
        let rig = Rig::watching(|b| b.stat_throttle(throttle));
        for _ in 0..3 {
            drop(rig.get(&app("x")));
            rig.clock.advance(NANO);
        }
        let of_one_file = |path: &std::path::PathBuf| path.ends_with("restart.txt");
        let seen = rig.files.take_look_ups();
        assert_eq!(seen.iter().filter(|path| of_one_file(path)).count(), looks, "{throttle:?}");
    }
}

/// The group backs off after each of them, for as long as it may, and spawns again after the last.
#[test]
fn a_hundred_spawns_fail_in_a_row() {
    for (first, cap) in [
        (Duration::ZERO, Duration::ZERO),
        (NANO, 60 * SECOND),
        (SECOND, AGES),
        (Duration::MAX, 60 * SECOND),
    ] {
        let rig = Rig::without_cleaner(|b| b.max_idle_time(None).back_off(first, cap));
        let shortest = Duration::from_millis(10);
        let mut before = Duration::ZERO;
        for failures in 1..=100_u32 {
            rig.spawner.next(Spawn::fail("no database"));
            assert!(matches!(rig.start_get(&app("x")).error(), GetError::Spawn(_)));
            let length = rig.next_back_off();
            assert!(length >= before && length >= shortest && length <= cap.max(shortest));
            let shown = rig.group(&app("x")).backing_off.expect("it backs off");
            assert!(length.abs_diff(shown) < SECOND || shown > CENTURY, "{length:?} {shown:?}");
            assert_eq!(rig.pool.snapshot().totals.spawns_failed, u64::from(failures));
            before = length;
            if length > CENTURY / 10 {
                break; // Its end never comes.
            }
            rig.clock.advance(length);
        }
        assert!(rig.pool.restart_group("/srv/x", Default::default()), "it ends the back-off");
        drop(rig.get(&app("x")));
    }
}

/// As many spawns fail in a group with a minimum and without gets.
#[test]
fn a_minimum_survives_a_hundred_failures() {
    let rig = Rig::without_cleaner(|b| b.max_idle_time(None).back_off(SECOND, SECOND));
    (0..100).for_each(|_| rig.spawner.next(Spawn::fail("no database")));
    rig.pool.pre_start(&app("x").with_min_processes(1)).expect("an open pool");
    for failures in 1..=100 {
        rig.until(|| rig.pool.snapshot().totals.spawns_failed == failures);
        rig.eventually(|c| c.spawning == 0);
        rig.clock.advance(SECOND);
        rig.pool.clean();
    }
    rig.eventually(|c| c.count == 1);
}

#[test]
fn the_largest_counts_are_no_limits() {
    let most = usize::MAX;
    let rig = Rig::new(|b| b.max(most).max_per_app(most).max_draining(most));
    let options = app("x").with_max_requests(most).with_max_queue(most);
    rig.spawner.always("/srv/x", Spawn::ready().concurrency(most));
    let sessions = [(); 3].map(|()| rig.get(&options));
    assert_eq!(rig.counts(), (1, 1));
    assert!(rig.pool.restart_group("/srv/x", cabrank::application_pool::RestartMode::Rolling));
    rig.until(|| rig.pids(&app("x")) == [2]);
    rig.pool.set_max(1).expect("not zero");
    rig.pool.set_max(most).expect("not zero");
    rig.pool.set_max_per_app(most).expect("not zero");
    drop(rig.get(&app("y")));
    assert_eq!(rig.pool.counts().draining, 1);
    drop(sessions);
    let default = Rig::new(|b| b.max(most));
    drop(default.get(&app("x")));
}

/// A group below the largest minimum takes what room there is, and no other group's place.
#[test]
fn the_largest_minimum_fills_the_pool() {
    let rig = Rig::new(|b| b.max(3));
    drop(rig.get(&app("x").with_min_processes(usize::MAX)));
    rig.eventually(|c| c.count == 3 && c.spawning == 0);
    drop(rig.get(&app("y")));
    assert_eq!(rig.pids(&app("x")).len(), 2);
}

/// The ranks of a process lie in one word up to 63 sessions.
#[test]
fn a_process_takes_hundreds_of_sessions_and_the_less_busy_one_is_chosen() {
    let rig = Rig::new(|b| b.max(2).max_idle_time(None));
    rig.spawner.always("/srv/x", Spawn::ready().concurrency(None));
    let mut sessions = vec![rig.get(&eager("x"))];
    sessions.push(rig.get(&eager("x")));
    rig.eventually(|c| c.count == 2 && c.spawning == 0);
    sessions.extend((0..298).map(|_| rig.get(&eager("x"))));
    let numbers = || rig.group(&app("x")).processes.iter().map(|p| p.sessions).collect::<Vec<_>>();
    assert_eq!(numbers(), [150, 150]);
    // Each closed session makes its process the less busy one.
    for _ in 0..150 {
        let closed = sessions.remove(0).pid();
        let next = rig.get(&eager("x"));
        assert_eq!(next.pid(), closed);
        drop(next);
        sessions.retain({
            let mut one = true;
            move |session| session.pid() == closed || !std::mem::take(&mut one)
        });
        let numbers = numbers();
        assert!(numbers[0].abs_diff(numbers[1]) <= 2, "{numbers:?}");
    }
    drop(sessions);
    assert_eq!((numbers(), rig.counts()), (vec![0, 0], (0, 2)));
}

/// Each limit of zero would leave the pool without a use, and is refused under its name.
#[test]
fn a_limit_of_zero_is_refused_by_its_name() {
    let builder = || ApplicationPool::builder(InMemorySpawner::new()).cleaner(false);
    let pool = builder().build().expect("a valid pool");
    let named = |refused: Result<(), BuildError>| refused.expect_err("zero").to_string();
    for (option, refused) in [
        ("max", [builder().max(0).build().map(drop), pool.set_max(0)]),
        ("max_per_app", [builder().max_per_app(0).build().map(drop), pool.set_max_per_app(0)]),
        (
            "max_idle_time",
            [
                builder().max_idle_time(Duration::ZERO).build().map(drop),
                pool.set_max_idle_time(Duration::ZERO),
            ],
        ),
    ] {
        let expected = format!("{option} must not be zero");
        assert_eq!(refused.map(named), [expected.clone(), expected]);
    }
    let shown = pool.snapshot();
    assert_eq!((shown.max, shown.max_per_app), (6, None), "a refused limit changes no setting");
}

/// The times and counts that the documentation gives for a pool that is built without settings.
#[test]
fn the_defaults_are_those_of_the_documentation() {
    let clock = ManualClock::new();
    let spawner = InMemorySpawner::with_clock(clock.clock());
    let (sender, events) = std::sync::mpsc::channel();
    let builder = ApplicationPool::builder(spawner.clone()).clock(clock.clock()).cleaner(false);
    let pool = builder.observer(move |event| _ = sender.send(event.clone())).build();
    let pool = pool.expect("a valid pool");
    assert_eq!((pool.snapshot().max, pool.snapshot().max_per_app), (6, None));
    let passes = |seconds: u64| {
        clock.advance(Duration::from_secs(seconds));
        pool.clean();
    };
    // The idle time, and the time of a drain.
    drop(pool.get(&app("x")).expect("a session"));
    passes(299);
    assert_eq!(pool.counts().count, 1);
    passes(1);
    assert_eq!(pool.counts().count, 0);
    let busy = pool.get(&app("x")).expect("a session");
    assert!(pool.detach(Session::identifier(&busy)));
    passes(59);
    assert_eq!(pool.counts().draining, 1);
    passes(1);
    assert_eq!(pool.counts().draining, 0);
    // The back-offs.
    let mut back_offs = Vec::new();
    for _ in 0..7 {
        spawner.next(Spawn::fail("no database"));
        assert!(pool.get(&app("y")).is_err());
        let retry_in = |event| match event {
            cabrank::application_pool::Event::SpawnFailed { retry_in, .. } => Some(retry_in),
            _ => None,
        };
        let length = events.iter().find_map(retry_in).expect("a back-off");
        back_offs.push(length.as_secs());
        passes(length.as_secs());
    }
    assert_eq!(back_offs, [1, 2, 4, 8, 16, 30, 30]);
    // The options of an application.
    let options = app("x");
    assert_eq!((options.environment(), options.min_processes()), ("production", 0));
    assert_eq!((options.max_requests(), options.max_queue()), (None, Some(100)));
    assert_eq!((options.max_queue_time(), options.use_global_queue()), (None, false));
    assert!(!options.eager_growth() && options.restart_mode() == Default::default());
    passes(1_000_000);
    assert_eq!(pool.snapshot().groups.len(), 2, "groups are kept until they are detached by name");
}
