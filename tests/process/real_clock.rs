//! The cleaner on the real clock (erratum E30). A manual clock cannot show this, for moving it wakes
//! the cleaner.

use crate::common::{Getting, Pool, app, before_long, eager};
use cabrank::application_pool::ShutDown;
use cabrank::in_memory::{InMemorySpawner, Spawn};
use cabrank::{ApplicationPool, Session};
use std::sync::{Mutex, PoisonError};
use std::thread::sleep;
use std::time::Duration;

const LIMIT: Duration = Duration::from_millis(50);

/// One pool at a time, so that there is one cleaner.
static ALONE: Mutex<()> = Mutex::new(());

/// Makes a pool whose cleaner sleeps without a deadline when `due` gives it work.
fn asleep_until(
    configure: impl FnOnce(
        cabrank::application_pool::Builder<InMemorySpawner>,
    ) -> cabrank::application_pool::Builder<InMemorySpawner>,
    due: impl FnOnce(&Pool, &InMemorySpawner),
) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let spawner = InMemorySpawner::new();
    let builder = configure(ApplicationPool::builder(spawner.clone()));
    let pool = builder.build().expect("a valid pool");
    sleep(LIMIT);
    due(&pool, &spawner);
}

#[test] // E30
fn the_cleaner_wakes_for_a_session_that_was_closed() {
    asleep_until(
        |b| b.max_idle_time(LIMIT),
        |pool, _| {
            let busy = pool.get(&app("x")).expect("a session");
            sleep(3 * LIMIT);
            drop(busy);
            before_long(|| pool.counts().count == 0);
        },
    );
}

#[test] // E30
fn the_cleaner_wakes_for_a_process_born_in_the_background() {
    asleep_until(
        |b| b.max_idle_time(LIMIT),
        |pool, spawner| {
            spawner.always("/srv/x", Spawn::ready().concurrency(None));
            let busy = [pool.get(&eager("x")), pool.get(&eager("x"))];
            before_long(|| spawner.begun() == 2 && pool.counts().spawning == 0);
            before_long(|| pool.counts().count == 1);
            drop(busy);
        },
    );
}

#[test] // E30
fn the_cleaner_wakes_for_a_shortened_idle_time() {
    asleep_until(
        |b| b,
        |pool, _| {
            drop(pool.get(&app("x")).expect("a session"));
            sleep(LIMIT);
            pool.set_max_idle_time(LIMIT).expect("not zero");
            before_long(|| pool.counts().count == 0);
        },
    );
}

#[test] // E13
fn the_cleaner_wakes_for_the_deadline_of_a_drain() {
    asleep_until(
        |b| b.drain_timeout(LIMIT).max_idle_time(None),
        |pool, spawner| {
            let busy = pool.get(&app("x")).expect("a session");
            pool.detach(Session::identifier(&busy));
            before_long(|| spawner.shut_down() == [(1, ShutDown::DeadlinePassed)]);
            drop(busy);
        },
    );
}

#[test] // E26
fn the_cleaner_wakes_for_the_end_of_a_back_off() {
    asleep_until(
        |b| b.back_off(LIMIT, LIMIT).max_idle_time(None),
        |pool, spawner| {
            let busy = pool.get(&app("x")).expect("a session");
            spawner.next(Spawn::fail("no database"));
            let theirs = pool.clone();
            let waiting = Getting::start(move || theirs.get(&app("x")));
            assert_eq!(waiting.session().pid(), 2);
            drop(busy);
        },
    );
}

/// A lowered minimum makes a process due at once: the cleaner, which sleeps without a deadline, must
/// wake.
#[test] // E30
fn a_process_that_no_minimum_protects_any_more_is_reaped() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let builder = ApplicationPool::builder(InMemorySpawner::new()).max_idle_time(LIMIT);
    let pool = builder.build().expect("a valid pool");
    let two = app("x").with_min_processes(2);
    drop(pool.get(&two).expect("a session"));
    before_long(|| pool.counts().count == 2);
    sleep(3 * LIMIT);
    assert_eq!(pool.counts().count, 2);
    // The session stays open, so no close wakes the cleaner.
    let busy = pool.get(&app("x")).expect("a session");
    before_long(|| pool.counts().count == 1);
    drop(busy);
}

/// A process that the minimum protected loses this protection when another one joins its group. The cleaner, which
/// sleeps until the newcomer is due, must wake for the older one.
#[test] // E40
fn a_process_that_a_newcomer_makes_superfluous_is_reaped_when_it_is_due() {
    const LIMIT: Duration = Duration::from_secs(2);
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let spawner = InMemorySpawner::new();
    let builder = ApplicationPool::builder(spawner.clone()).max_idle_time(LIMIT);
    let pool = builder.build().expect("a valid pool");
    let x = app("x").with_min_processes(1);
    let busy = pool.get(&x).expect("a session");
    spawner.next(Spawn::ready().held());
    assert!(pool.try_get(&x).is_err(), "orders a second process");
    drop(busy);
    sleep(LIMIT * 3 / 4);
    assert_eq!(pool.counts().count, 1);
    spawner.release();
    before_long(|| pool.counts().count == 2);
    let newcomer = std::time::Instant::now();
    before_long(|| pool.counts().count == 1);
    assert!(newcomer.elapsed() < LIMIT * 3 / 4, "the cleaner has slept until the newcomer is due");
    before_long(|| spawner.shut_down().len() == 1);
}

/// Returns how often each cleaner thread of this process went to sleep, by the kernel's count.
#[cfg(target_os = "linux")]
fn cleaners_sleeps() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").expect("Linux has it");
    let statuses = tasks.flatten().filter_map(|task| {
        let status = std::fs::read_to_string(task.path().join("status")).ok()?;
        status.starts_with("Name:\tcabrank cleaner\n").then_some(status)
    });
    let sleeps = |status: String| {
        let line = status.lines().find(|line| line.starts_with("voluntary_ctxt_switches:"));
        line.expect("Linux counts them").to_owned()
    };
    statuses.map(sleeps).collect()
}

/// A cleaner that polled would wake many times in the time given.
#[cfg(target_os = "linux")]
#[test] // E30
fn the_cleaner_sleeps_while_no_process_is_idle() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    before_long(|| cleaners_sleeps().is_empty());
    let builder = ApplicationPool::builder(InMemorySpawner::new()).max_idle_time(LIMIT);
    let pool = builder.build().expect("a valid pool");
    let busy = pool.get(&app("x")).expect("a session");
    // The cleaner may not have reached its first sleep: one quiet stretch is enough.
    before_long(|| {
        let before = cleaners_sleeps();
        sleep(10 * LIMIT);
        before.len() == 1 && before == cleaners_sleeps()
    });
    assert_eq!(pool.counts().active, 1);
    // The cleaner still wakes for new work.
    drop(busy);
    before_long(|| pool.counts().count == 0);
}

/// The cleaner need not look at processes that are never due (without a limit, or protected by a
/// minimum) or due later than another. Neither closes nor attached processes wake it for these.
#[cfg(target_os = "linux")]
#[test] // E30
fn closes_and_attaches_leave_the_cleaner_asleep_where_no_process_is_due_sooner() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for (limit, min, detaches) in [
        (None, 0, false),
        (None, 0, true),
        (Some(1000 * LIMIT), 1, false),
        (Some(1000 * LIMIT), 1, true),
        (Some(1000 * LIMIT), 0, false),
        (Some(1000 * LIMIT), 0, true),
    ] {
        before_long(|| cleaners_sleeps().is_empty());
        let builder = ApplicationPool::builder(InMemorySpawner::new()).max_idle_time(limit);
        let pool = builder.build().expect("a valid pool");
        let options = app("x").with_min_processes(min);
        if min == 0 {
            drop(pool.get(&app("older")).expect("a session"));
        }
        // The cleaner may not have reached its first sleep: one quiet stretch is enough.
        before_long(|| {
            let before = cleaners_sleeps();
            for _ in 0..10 {
                drop(pool.get(&options).expect("a session"));
                if detaches {
                    let groups = pool.snapshot().groups;
                    let group = groups.iter().find(|group| group.name == "/srv/x");
                    let process = group.expect("its group").processes[0].identifier;
                    assert!(pool.detach(process), "the next get finds another");
                }
                sleep(LIMIT / 10);
            }
            before.len() == 1 && before == cleaners_sleeps()
        });
    }
}
