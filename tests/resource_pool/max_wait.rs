//! `max_wait`: the time of a whole borrow, and what its error says.

use crate::common::pool;
use crate::shared::SECOND;
use crate::steps::{Building, Rig, Step, rig_on};
use crate::time_limits::{LIMIT, ends, in_paused_time, lend};
use cabrank::Clock;
use cabrank::periodic_executor::Tokio;
use cabrank::resource_pool::{
    Async, AsyncResourceFactory, BorrowError, Borrowed, KeyedResourcePool, ResourceFactory,
    ResourcePool, Shortage, WhenExhausted,
};
use std::time::Duration;

/// Returns a pool in which only `max_wait` ends a call.
fn limited(configure: impl FnOnce(Building) -> Building) -> Rig {
    let endless = |b: Building| b.create_timeout(None).overdue_after(100 * LIMIT);
    let rig = |b: Building| configure(endless(b).max_wait(LIMIT).clock(Clock::monotonic()));
    rig_on(rig, Tokio::current())
}

fn shortage<T, E>(ended: Result<T, BorrowError<E>>) -> Shortage {
    match ended {
        Err(BorrowError::TimedOut(shortage)) => *shortage,
        Err(_) => panic!("another error"),
        Ok(_) => panic!("it was lent"),
    }
}

/// The calls that a borrower awaits, and its turn. The test lets one of them hang.
const WAITS: [&str; 5] = ["turn", "create", "validate", "activate", "passivate"];

#[test]
fn a_borrow_ends_in_time_whatever_it_waits_for() {
    for waits_for in WAITS {
        in_paused_time(async {
            let rig = limited(|b| b.max_active(1).test_on_borrow(true));
            let lent = match waits_for {
                "create" => None,
                _ => Some(lend(&rig).await),
            };
            // The borrower of an idle resource awaits its passivation, its activation and its test.
            let lent = lent.filter(|_| waits_for == "turn");
            rig.steps.on(waits_for, Step::Held);
            let shortage = shortage(ends(rig.pool.borrow_async()).await);
            let expected = (usize::from(waits_for == "turn"), usize::from(waits_for == "create"));
            assert_eq!((shortage.active, shortage.creating), expected, "{waits_for}");
            assert_eq!((shortage.idle, shortage.waiting), (0, 0), "{waits_for}");
            // The pool destroys a resource that was tested or activated. A creation goes on.
            rig.steps.go_on(waits_for);
            drop(lent);
            tokio::task::yield_now().await;
            let again = lend(&rig).await;
            assert_eq!((rig.counts(), rig.steps.alive()), ((1, 0, 1), 1), "{waits_for}");
            let nth = if ["turn", "create"].contains(&waits_for) { 1 } else { 2 };
            assert_eq!(again.number, nth, "{waits_for}");
        });
    }
}

/// Each part ends in time, and all of them do not.
#[test]
fn the_time_is_that_of_all_parts_together() {
    in_paused_time(async {
        let rig = limited(|b| b.test_on_borrow(true));
        drop(lend(&rig).await);
        rig.steps.on("passivate", Step::Held);
        rig.steps.on("activate", Step::Held);
        let steps = rig.steps.clone();
        tokio::spawn(async move {
            tokio::time::sleep(LIMIT * 2 / 3).await;
            steps.go_on("passivate");
        });
        let ended = ends(rig.pool.borrow_async()).await;
        shortage(ended);
        assert_eq!((rig.counts(), rig.steps.alive()), ((0, 0, 0), 0));
    });
}

/// A borrow that does not wait for others waits for a creation of the pool's.
#[test]
fn a_borrow_that_does_not_wait_ends_in_time_too() {
    in_paused_time(async {
        let rig = limited(|b| b);
        rig.steps.on("create", Step::Held);
        shortage(ends(rig.pool.try_borrow_async()).await);
        let rig = limited(|b| b.when_exhausted(WhenExhausted::Fail));
        rig.steps.on("create", Step::Held);
        shortage(ends(rig.pool.borrow_async()).await);
    });
}

#[test]
fn a_task_waits_for_thirty_seconds_by_default() {
    in_paused_time(async {
        let builder = ResourcePool::builder(Async(Hosts), "db").max_active(1);
        let pool = builder.build_on(Tokio::current()).expect("a valid pool");
        let only = pool.borrow_async().await.expect("a resource");
        let began = tokio::time::Instant::now();
        let waits = pool.borrow_async().await;
        assert_eq!(shortage(waits).active, 1);
        assert_eq!(began.elapsed().as_secs(), 30);
        drop(only);
    });
    in_paused_time(async {
        let builder = ResourcePool::builder(Async(Hosts), "db").max_active(1).max_wait(None);
        let pool = builder.build_on(Tokio::current()).expect("a valid pool");
        let only = pool.borrow_async().await.expect("a resource");
        let waits = tokio::time::timeout(LIMIT, pool.borrow_async()).await;
        assert!(waits.is_err(), "without a limit it waits");
        drop(only);
    });
}

#[test]
fn a_thread_waits_for_thirty_seconds_by_default() {
    let rig = pool(|b| b.max_active(1));
    let only = rig.lend();
    let waits = rig.queue();
    rig.clock.advance(29 * SECOND);
    assert_eq!(rig.pool.num_waiting(), 1);
    rig.clock.advance(SECOND);
    assert_eq!(shortage(waits.end()).active, 1);
    let rig = pool(|b| b.max_active(1).max_wait(None));
    let other = rig.lend();
    let waits = rig.queue();
    rig.clock.advance(1_000_000 * SECOND);
    assert_eq!(rig.pool.num_waiting(), 1);
    drop((only, other));
    drop(waits.end().expect("its turn"));
}

/// A borrower that is served at once begins no time: the next wait has all of it.
#[test]
fn the_time_of_a_thread_begins_with_its_wait() {
    let rig = pool(|b| b.max_active(1).max_wait(2 * SECOND));
    let only = rig.lend();
    rig.clock.advance(9 * SECOND);
    let waits = rig.queue();
    rig.clock.advance(SECOND);
    assert_eq!(rig.pool.num_waiting(), 1);
    drop(only);
    drop(waits.end().expect("in time"));
}

/// A factory that names its hosts, and cannot reach one of them.
struct Hosts;

impl AsyncResourceFactory for Hosts {
    type Resource = u8;
    type Metadata = &'static str;
    type Error = &'static str;
    async fn create(&self, host: &&'static str) -> Result<u8, &'static str> {
        ResourceFactory::create(self, host)
    }
    fn describe(&self, host: &&'static str) -> Option<String> {
        ResourceFactory::describe(self, host)
    }
}

impl ResourceFactory for Hosts {
    type Resource = u8;
    type Metadata = &'static str;
    type Error = &'static str;
    fn create(&self, host: &&'static str) -> Result<u8, &'static str> {
        if *host == "down" { Err("connection refused") } else { Ok(0) }
    }
    fn describe(&self, host: &&'static str) -> Option<String> {
        assert_ne!(*host, "odd", "on purpose");
        Some(format!("host {host}"))
    }
}

/// The error names the pool and the key, counts what there is, and says why the last creation failed.
#[test]
fn the_error_says_what_the_pool_had() {
    let clock = cabrank::ManualClock::new();
    let builder = KeyedResourcePool::builder(Hosts).name("shop").max_total(2).max_active(1);
    let pool = builder.clock(clock.clock()).build().expect("a valid pool");
    let (up, other) = (pool.borrow(&"up").expect("lent"), pool.borrow(&"b").expect("lent"));
    let late = |key: &'static str| pool.borrow_timeout(&key, Duration::ZERO).map(drop);
    let said = late("up").expect_err("late").to_string();
    let expected = "no resource could be lent in time: pool shop, host up: 1 lent, 0 idle, \
        0 being created, 0 other borrowers waiting, 1 of other keys";
    assert_eq!(said, expected);
    // Its borrower was the last that needed the key.
    let expected = "no resource could be lent in time: pool shop, host down: 0 lent, 0 idle, \
        0 being created, 0 other borrowers waiting, 2 of other keys";
    assert_eq!(late("down").expect_err("late").to_string(), expected);
    // A panic of the factory takes the name alone.
    let expected = expected.replace(", host down", "");
    assert_eq!(late("odd").expect_err("late").to_string(), expected);
    drop((up, other));
}

#[test]
fn the_error_says_why_the_last_creation_failed() {
    let rig = pool(|b| b.max_active(1));
    for (goes_wrong, text) in [("fails", "on purpose"), ("panics", "panicked: on purpose")] {
        match goes_wrong {
            "fails" => rig.script.fails("create"),
            _ => rig.script.panics("create"),
        }
        assert!(matches!(rig.pool.borrow(), Err(BorrowError::Create(_))), "{goes_wrong}");
        rig.clock.advance(3 * SECOND);
        rig.script.is_well("create");
        let only = rig.lend();
        let error = rig.pool.borrow_timeout(Duration::ZERO).map(drop).expect_err("late");
        assert!(
            error.to_string().ends_with(&format!("; a creation failed 3.0s ago: {text}")),
            "{error}"
        );
        let last = shortage(Err::<(), _>(error)).last_failure.expect("one has failed");
        assert_eq!((&*last.text, last.ago), (text, 3 * SECOND));
        Borrowed::invalidate(only);
    }
}
