//! The queue: order, bound, deadlines (E17, E19, E21).

use crate::common::{Getting, Pool, Rig, SECOND, app, before_long, soon};
use cabrank::application_pool::{BuildError, Event, GetError};
use cabrank::in_memory::{Call, InMemorySpawner, Spawn};
use cabrank::{ApplicationPool, ManualClock, Session};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

#[test] // E17
fn gets_are_served_first_come_first_served() {
    let rig = Rig::new(|b| b.max(1));
    let mut session = rig.get(&app("x"));
    let waiting = [(); 4].map(|()| rig.queue_get(&app("x")));
    let mut waiting = waiting.into_iter();
    while let Some(next) = waiting.next() {
        drop(session);
        session = next.session();
        assert!(waiting.as_slice().iter().all(Getting::is_pending), "the others wait on");
        assert_eq!(rig.pool.counts().waiting, waiting.len());
    }
}

/// In the pseudocode a newcomer finds the idle process before the waiter that was woken for it
/// (INV-EXACT-WAKE-UP).
#[test] // E17
fn a_newcomer_does_not_overtake_a_woken_waiter() {
    let rig = Rig::new(|b| b.max(1));
    let busy = rig.get(&app("x"));
    let mut first = rig.task(&app("x"));
    assert!(first.poll().is_none());
    drop(busy);
    // The waiter is woken, but has not run yet.
    assert_eq!(first.wakes(), 1);
    assert!(matches!(rig.pool.try_get(&app("x")), Err(GetError::WouldBlock)));
    let second = rig.queue_get(&app("x"));
    let session = first.poll().expect("it is ready").expect("a session");
    assert!(second.is_pending());
    drop(session);
    drop(second.session());
}

/// In the pseudocode a process freed for one waiter may idle long enough to be evicted for another.
#[test] // E17
fn a_process_freed_for_a_waiter_is_not_evicted_for_another() {
    let rig = Rig::new(|b| b.max(2));
    let (first, _second) = (rig.get(&app("x")), rig.get(&app("x")));
    let mut x = rig.task(&app("x"));
    assert!(x.poll().is_none());
    drop(first);
    let y = rig.queue_get(&app("y"));
    let session = x.poll().expect("it is ready").expect("a session");
    assert!(rig.gone().is_empty());
    drop(session);
    drop(y.session());
}

#[test] // E17
fn only_a_waiter_that_can_proceed_is_woken() {
    let rig = Rig::new(|b| b.max(2));
    let (first, _second) = (rig.get(&app("x")), rig.get(&app("x")));
    let mut tasks: Vec<_> = (0..5).map(|_| rig.task(&app("x"))).collect();
    assert!(tasks.iter_mut().all(|task| task.poll().is_none()));
    drop(first);
    let wakes: Vec<usize> = tasks.iter().map(|task| task.wakes()).collect();
    assert_eq!(wakes, [1, 0, 0, 0, 0]);
}

#[test] // E17
fn a_get_that_waited_says_for_how_long() {
    let rig = Rig::new(|b| b.max(1));
    let busy = rig.get(&app("x"));
    let thread = rig.queue_get(&app("x"));
    rig.clock.advance(3 * SECOND);
    drop(busy);
    let session = thread.session();
    assert_eq!(next_wait(&rig), Duration::ZERO, "for the first process, in no time");
    assert_eq!(next_wait(&rig), 3 * SECOND);
    let mut task = rig.task(&app("x"));
    assert!(task.poll().is_none());
    rig.clock.advance(2 * SECOND);
    drop(session);
    assert!(task.poll().expect("it is ready").is_ok());
    assert_eq!(next_wait(&rig), 2 * SECOND);
    assert_eq!(rig.pool.snapshot().totals.waited, 3);
}

#[track_caller]
fn next_wait(rig: &Rig) -> Duration {
    rig.event(|event| match event {
        Event::Waited { group, waited } if &**group == "/srv/x" => Some(*waited),
        _ => None,
    })
}

/// `get_timeout` and `checkout_timeout` count the same time.
#[test] // E19
fn the_look_at_the_restart_files_counts_in_both_time_outs() {
    let time = ManualClock::new();
    let (theirs, slow) = (time.clone(), Arc::new(AtomicBool::new(false)));
    let is_slow = slow.clone();
    let builder = ApplicationPool::builder(InMemorySpawner::new()).max(1).clock(time.clock());
    let builder = builder.restart_files(move |file| {
        if is_slow.load(Ordering::SeqCst) && file.ends_with("restart.txt") {
            theirs.advance(2 * SECOND);
        }
        Err(std::io::ErrorKind::NotFound.into())
    });
    let pool = builder.build().expect("a valid pool");
    let busy = pool.get(&app("x")).expect("a session");
    slow.store(true, Ordering::SeqCst);
    type Waits = fn(&Pool, Duration) -> Option<GetError>;
    let both: [Waits; 2] = [
        |pool, timeout| pool.get_timeout(&app("x"), timeout).err(),
        |pool, timeout| pool.checkout_timeout(&app("x"), timeout).err(),
    ];
    for waits in both {
        let theirs = pool.clone();
        assert!(matches!(soon(move || waits(&theirs, 2 * SECOND)), Some(GetError::TimedOut)));
        let theirs = pool.clone();
        let waiting = std::thread::spawn(move || waits(&theirs, 3 * SECOND));
        before_long(|| pool.counts().waiting == 1);
        time.advance(SECOND);
        assert!(matches!(soon(|| waiting.join().expect("no panic")), Some(GetError::TimedOut)));
    }
    drop(busy);
    for waits in both {
        // No wait: the process is free.
        assert!(waits(&pool, 3 * SECOND).is_none());
    }
}

#[test] // E19
fn the_queue_is_bounded() {
    let rig = Rig::new(|b| b.max(1));
    let x = app("x").with_max_queue(2);
    let busy = rig.get(&x);
    let waiting = [rig.queue_get(&x), rig.queue_get(&x)];
    let error = rig.start_get(&x).error();
    assert!(matches!(error, GetError::QueueFull { max_queue: 2 }), "{error}");
    let mut task = rig.task(&x);
    let error = task.poll().expect("at once").expect_err("no room to wait");
    assert!(matches!(error, GetError::QueueFull { max_queue: 2 }), "{error}");
    // The other group has a queue of its own.
    let y = rig.queue_get(&app("y"));
    assert_eq!(rig.pool.counts().waiting, 3);
    drop(busy);
    drop(y.session());
    for getting in waiting {
        drop(getting.session());
    }
}

#[test] // E19
fn a_hundred_gets_may_wait_by_default_and_any_number_without_a_bound() {
    let rig = Rig::new(|b| b.max(1));
    let _busy = rig.get(&app("x"));
    let mut tasks: Vec<_> = (0..100).map(|_| rig.task(&app("x"))).collect();
    assert!(tasks.iter_mut().all(|task| task.poll().is_none()));
    let error = rig.task(&app("x")).poll().expect("at once").expect_err("the bound");
    assert!(matches!(error, GetError::QueueFull { max_queue: 100 }), "{error}");
    let unbounded = app("x").with_max_queue(None);
    let mut more: Vec<_> = (0..50).map(|_| rig.task(&unbounded)).collect();
    assert!(more.iter_mut().all(|task| task.poll().is_none()));
    assert_eq!(rig.pool.counts().waiting, 150);
}

#[test] // E19
fn a_get_ends_at_its_deadline_and_not_before() {
    let rig = Rig::new(|b| b.max(1));
    let busy = rig.get(&app("x"));
    let pool = rig.pool.clone();
    let get = Getting::start(move || pool.get_timeout(&app("x"), 5 * SECOND));
    let pool = rig.pool.clone();
    let checkout = Getting::start(move || {
        pool.checkout_timeout(&app("x"), 10 * SECOND).map(|_| unreachable!("it times out"))
    });
    rig.eventually(|c| c.waiting == 2);
    rig.clock.advance(4 * SECOND);
    assert!(get.is_pending());
    assert_eq!(rig.pool.counts().waiting, 2);
    rig.clock.advance(SECOND);
    assert!(matches!(get.error(), GetError::TimedOut));
    rig.eventually(|c| c.waiting == 1);
    rig.clock.advance(5 * SECOND);
    assert!(matches!(checkout.error(), GetError::TimedOut));
    drop(busy);
    assert_eq!((rig.counts(), rig.pool.counts().waiting), ((0, 1), 0));
}

#[test] // E19
fn a_get_without_time_does_not_wait() {
    let rig = Rig::new(|b| b.max(1));
    let _busy = rig.get(&app("x"));
    let pool = rig.pool.clone();
    let get = Getting::start(move || pool.get_timeout(&app("x"), Duration::ZERO));
    assert!(matches!(get.error(), GetError::TimedOut));
    assert!(matches!(rig.pool.try_get(&app("x")), Err(GetError::WouldBlock)));
    assert!(matches!(rig.pool.try_checkout(&app("x")), Err(GetError::WouldBlock)));
    assert_eq!(rig.pool.counts().waiting, 0);
}

/// The failed try asks for a process, so trying again helps.
#[test] // E19
fn trying_causes_what_a_later_try_finds() {
    let rig = Rig::new(|b| b);
    assert!(matches!(rig.pool.try_get(&app("x")), Err(GetError::WouldBlock)));
    rig.eventually(|c| c.count == 1);
    assert_eq!(rig.pool.try_get(&app("x")).expect("it is there now").pid(), 1);
}

/// In the pseudocode every get of such a pool hangs.
#[test] // E19
fn a_maximum_of_zero_is_refused() {
    let builder = || ApplicationPool::builder(InMemorySpawner::new());
    for (builder, option) in [
        (builder().max(0), "max"),
        (builder().max_per_app(0), "max_per_app"),
        (builder().max_idle_time(Duration::ZERO), "max_idle_time"),
    ] {
        assert!(matches!(builder.build(), Err(BuildError::Zero(refused)) if refused == option));
    }
    let rig = Rig::new(|b| b);
    assert!(matches!(rig.pool.set_max(0), Err(BuildError::Zero("max"))));
    assert!(matches!(rig.pool.set_max_per_app(0), Err(BuildError::Zero("max_per_app"))));
    let refused = rig.pool.set_max_idle_time(Duration::ZERO);
    assert!(matches!(refused, Err(BuildError::Zero("max_idle_time"))));
    assert_eq!(rig.pool.snapshot().max, 6);
}

/// The models check this exhaustively; here with many clients, real threads and every kind of end.
#[test] // E21
fn no_waiter_is_left() {
    let rig = Rig::new(|b| b.max(2));
    rig.spawner.always("/srv/b", Spawn::ready().concurrency(2));
    let (sender, receiver) = channel();
    for client in 0..6 {
        let (pool, sender, clock) = (rig.pool.clone(), sender.clone(), rig.clock.clone());
        std::thread::spawn(move || {
            let apps = [app("a"), app("b").with_max_requests(5), app("c")];
            for round in 0..60 {
                let session = pool.get(&apps[(client + round * (client + 1)) % 3]);
                let session = session.expect("every get is served");
                match round % 20 {
                    7 => {
                        clock.advance(SECOND); // It is no early death.
                        Session::fail(session);
                    }
                    11 => drop(pool.detach(Session::identifier(&session))),
                    _ => drop(session),
                }
            }
            let _ = sender.send(());
        });
    }
    for _ in 0..6 {
        receiver.recv_timeout(crate::common::SOON).expect("every client ends");
    }
    before_long(|| rig.pool.counts().spawning == 0);
    let counts = rig.pool.counts();
    assert_eq!((counts.active, counts.waiting, counts.draining), (0, 0, 0));
    assert!(counts.count <= 2);
}

/// The get that finds the queue full also finds that the back-off has ended.
#[test] // E19
fn a_full_queue_serves_the_gets_in_it() {
    let rig = Rig::without_cleaner(|b| b);
    let x = app("x").with_max_queue(1);
    let busy = rig.get(&x);
    rig.spawner.next(Spawn::fail("no database"));
    let waiting = rig.queue_get(&x);
    rig.next_back_off();
    rig.clock.advance(SECOND);
    rig.spawner.next(Spawn::ready().held());
    let error = rig.start_get(&x).error();
    assert!(matches!(error, GetError::QueueFull { max_queue: 1 }), "{error}");
    rig.spawner.release();
    drop(waiting.session());
    drop(busy);
}

/// A manual clock notifies every pool that uses it.
#[test] // E19
fn deadlines_pass_in_every_pool_of_one_clock() {
    let clock = ManualClock::new();
    let gets: Vec<_> = (0..3)
        .map(|_| {
            let spawner = InMemorySpawner::with_clock(clock.clock());
            let builder = ApplicationPool::builder(spawner).max(1).clock(clock.clock());
            let pool = builder.build().expect("a valid pool");
            let busy = pool.get(&app("x")).expect("a session");
            let theirs = pool.clone();
            let get = Getting::start(move || theirs.get_timeout(&app("x"), SECOND));
            before_long(|| pool.counts().waiting == 1);
            (get, busy)
        })
        .collect();
    clock.advance(SECOND);
    for (get, _busy) in gets {
        assert!(matches!(get.error(), GetError::TimedOut));
    }
}

/// The get that meets a crashed process came before the one that waits, and is served before it
/// (PROP-KEEPS-TURN).
#[test] // E38
fn a_get_whose_process_has_crashed_keeps_its_turn() {
    let rig = Rig::new(|b| b.max(1));
    let one = app("x").with_max_queue(1);
    let gate = rig.gate_at(Call::Connect);
    let first = rig.start_get(&one);
    gate.await_arrivals(1);
    let second = rig.queue_get(&one);
    rig.spawner.processes()[0].kill();
    rig.spawner.next(Spawn::ready().held());
    gate.open();
    // The bound of one does not refuse the first, which was admitted before.
    rig.until(|| rig.group(&one).waiting == 2);
    rig.spawner.release();
    let first = first.session();
    assert_eq!(first.pid(), 2);
    assert!(second.is_pending(), "the second get was served first");
    drop(first);
    drop(second.session());
    assert_eq!(rig.pool.snapshot().totals.waited, 2, "a get that waits twice counts once");
}

/// The observer and the totals tell one story of a get that waits twice.
#[test] // E38
fn a_get_that_waits_twice_reports_one_wait() {
    let rig = Rig::new(|b| b.max(1));
    let gate = rig.gate_at(Call::Connect);
    let get = rig.start_get(&app("x"));
    gate.await_arrivals(1); // it has waited for its first process
    rig.spawner.processes()[0].kill();
    rig.spawner.next(Spawn::ready().held());
    gate.open();
    rig.until(|| rig.group(&app("x")).waiting == 1);
    rig.clock.advance(3 * SECOND);
    rig.spawner.release();
    let busy = get.session();
    let other = rig.queue_get(&app("x"));
    rig.clock.advance(2 * SECOND);
    drop(busy);
    drop(other.session());
    assert_eq!([next_wait(&rig), next_wait(&rig)], [3 * SECOND, 2 * SECOND]);
    assert_eq!(rig.pool.snapshot().totals.waited, 2);
}
