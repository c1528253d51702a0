//! Time limits of a factory's calls, on tokio's paused time.

use crate::common::locked;
use crate::runtimes::Numbers;
use crate::steps::{Building, Rig, Step, Steps, rig_on};
use cabrank::Clock;
use cabrank::periodic_executor::Tokio;
use cabrank::resource_pool::{
    AddError, Async, BorrowError, Borrowed, BuildError, Failure, ResourcePool,
};
use std::future::Future;
use std::time::Duration;

/// So long that a busy machine does not add a tenth to it.
pub(crate) const LIMIT: Duration = Duration::from_secs(3600);

pub(crate) fn in_paused_time(test: impl Future<Output = ()>) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(test);
}

/// Returns a pool with time limits for tests, activations and passivations.
fn limited(configure: impl FnOnce(Building) -> Building) -> Rig {
    let limits =
        |b: Building| b.validate_timeout(LIMIT).activate_timeout(LIMIT).passivate_timeout(LIMIT);
    // None is overdue.
    let slow = |b: Building| b.create_timeout(4 * LIMIT).overdue_after(2 * LIMIT);
    rig_on(|b| configure(slow(limits(b))).clock(Clock::monotonic()), Tokio::current())
}

/// Borrows a resource that is there, or is created as soon as the runtime runs.
pub(crate) async fn lend(rig: &Rig) -> Borrowed<'static, Async<Steps>> {
    rig.pool.borrow_async().await.map(Borrowed::into_owned).expect("a resource")
}

/// Awaits a call that a limit has to end, and the destruction that may follow in a task.
pub(crate) async fn ends<T>(call: impl Future<Output = T>) -> T {
    let begin = tokio::time::Instant::now();
    let output = call.await;
    let passed = begin.elapsed();
    assert!((LIMIT..LIMIT + LIMIT / 10).contains(&passed), "{passed:?}");
    tokio::task::yield_now().await;
    output
}

fn said(rig: &Rig) -> Vec<String> {
    std::mem::take(&mut *locked(&rig.events))
}

/// The borrower gets another resource.
#[test]
fn a_test_that_hangs_ends() {
    in_paused_time(async {
        let rig = limited(|b| b.test_on_borrow(true));
        drop(lend(&rig).await);
        rig.steps.on("validate", Step::Held);
        let lent = ends(rig.pool.borrow_async()).await.expect("another");
        assert_eq!((lent.number, rig.counts()), (2, (1, 0, 1)));
        assert_eq!((said(&rig), rig.steps.alive()), (vec!["ValidateTimedOut".to_owned()], 1));
    });
}

#[test]
fn the_test_of_a_new_resource_that_hangs_ends() {
    in_paused_time(async {
        let rig = limited(|b| b.test_on_create(true));
        rig.steps.on("validate", Step::Held);
        let why = ends(rig.pool.borrow_async()).await.expect_err("it hangs");
        assert_eq!((why, said(&rig)), (BorrowError::Invalid, vec!["ValidateTimedOut".to_owned()]));
        let why = ends(rig.pool.add_async()).await;
        assert_eq!(
            (why, said(&rig)),
            (Err(AddError::Invalid), vec!["ValidateTimedOut".to_owned()])
        );
        assert_eq!((rig.steps.alive(), rig.counts()), (0, (0, 0, 0)));
    });
}

/// The borrower of an idle resource gets another one, the borrower of a new one an error.
#[test]
fn an_activation_that_hangs_ends() {
    in_paused_time(async {
        let rig = limited(|b| b);
        rig.steps.on("activate", Step::Held);
        let why = ends(rig.pool.borrow_async()).await.expect_err("it hangs");
        assert_eq!((why, said(&rig)), (BorrowError::Activate(Failure::TimedOut), vec![]));
        rig.steps.go_on("activate");
        drop(lend(&rig).await);
        rig.steps.on("activate", Step::Held);
        let go_on = async {
            tokio::time::sleep(LIMIT + LIMIT / 2).await;
            rig.steps.go_on("activate");
        };
        let (lent, ()) = join(rig.pool.borrow_async(), go_on).await;
        assert_eq!((lent.expect("another").number, rig.steps.alive()), (3, 1));
        assert_eq!(said(&rig), vec!["ActivateFailed(TimedOut)".to_owned()]);
    });
}

/// A passivation is awaited by the return, by the next borrower after a drop, and by an addition.
#[test]
fn a_passivation_that_hangs_ends() {
    in_paused_time(async {
        let rig = limited(|b| b);
        rig.steps.on("passivate", Step::Held);
        let failed = || vec!["PassivateFailed(TimedOut)".to_owned()];
        ends(Borrowed::put_back(lend(&rig).await)).await;
        assert_eq!((said(&rig), rig.counts()), (failed(), (0, 0, 0)));
        drop(lend(&rig).await);
        let lent = ends(rig.pool.borrow_async()).await.expect("another");
        assert_eq!((lent.number, said(&rig), rig.counts()), (3, failed(), (1, 0, 1)));
        let why = ends(rig.pool.add_async()).await;
        assert_eq!(why, Err(AddError::Passivate(Failure::TimedOut)));
        assert_eq!((said(&rig), rig.counts(), rig.steps.alive()), (vec![], (1, 0, 1), 1));
    });
}

/// Each limit ends the call that it is named after, in a pool that has no other limit.
#[test]
fn a_limit_alone_ends_its_own_call() {
    let limits: [(&str, Set); 3] = [
        ("validate", |b| b.validate_timeout(LIMIT).test_on_return(true)),
        ("activate", |b| b.activate_timeout(LIMIT)),
        ("passivate", |b| b.passivate_timeout(LIMIT)),
    ];
    for (step, limit) in limits {
        in_paused_time(async {
            let rig = rig_on(|b| limit(b).clock(Clock::monotonic()), Tokio::current());
            rig.steps.on(step, Step::Held);
            let call = async {
                match rig.pool.borrow_async().await {
                    Ok(lent) => Borrowed::put_back(lent).await,
                    Err(why) => assert_eq!(why, BorrowError::Activate(Failure::TimedOut)),
                }
            };
            tokio::time::timeout(2 * LIMIT, ends(call)).await.expect(step);
            assert_eq!((rig.counts(), rig.steps.alive()), ((0, 0, 0), 0), "{step}");
        });
    }
}

/// A limit does not disturb calls that end in time.
#[test]
fn slow_calls_end_in_time() {
    in_paused_time(async {
        let rig = limited(|b| b.test_on_borrow(true));
        drop(lend(&rig).await);
        rig.steps.on("validate", Step::Held);
        let go_on = async {
            tokio::time::sleep(LIMIT / 2).await;
            rig.steps.go_on("validate");
        };
        let (lent, ()) = join(rig.pool.borrow_async(), go_on).await;
        assert_eq!((lent.expect("the same").number, said(&rig)), (1, vec![]));
    });
}

/// Awaits both.
async fn join<A, B>(a: impl Future<Output = A>, b: impl Future<Output = B>) -> (A, B) {
    let (mut a, mut b) = (std::pin::pin!(a), std::pin::pin!(b));
    let (mut of_a, mut of_b) = (None, None);
    std::future::poll_fn(|cx| {
        if of_a.is_none() {
            if let std::task::Poll::Ready(output) = a.as_mut().poll(cx) {
                of_a = Some(output);
            }
        }
        if of_b.is_none() {
            if let std::task::Poll::Ready(output) = b.as_mut().poll(cx) {
                of_b = Some(output);
            }
        }
        match (of_a.is_some(), of_b.is_some()) {
            (true, true) => std::task::Poll::Ready(()),
            _ => std::task::Poll::Pending,
        }
    })
    .await;
    (of_a.expect("it has ended"), of_b.expect("it has ended"))
}

type Set = fn(Building) -> Building;

/// Only a runtime can interrupt a call.
#[test]
fn time_limits_need_a_runtime() {
    let limits: [(&str, Set); 5] = [
        ("create_timeout", |b| b.create_timeout(LIMIT)),
        ("validate_timeout", |b| b.validate_timeout(LIMIT)),
        ("activate_timeout", |b| b.activate_timeout(LIMIT)),
        ("passivate_timeout", |b| b.passivate_timeout(LIMIT)),
        ("destroy_timeout", |b| b.destroy_timeout(LIMIT)),
    ];
    for (name, limit) in limits {
        let builder = || limit(ResourcePool::builder(Async(Steps::default()), "m"));
        let Err(why @ BuildError::NotWith { .. }) = builder().build_async() else {
            panic!("refused")
        };
        let expected = format!("{name} does not go with build_async");
        assert!(why.to_string().starts_with(&expected), "{why}");
    }
    let blocking = ResourcePool::builder(Numbers, ()).validate_timeout(LIMIT).build();
    assert!(matches!(blocking, Err(BuildError::NotWith { option: "validate_timeout", .. })));
    let zero = ResourcePool::builder(Numbers, ()).passivate_timeout(Duration::ZERO).build();
    assert!(matches!(zero, Err(BuildError::NotWith { option: "passivate_timeout", .. })));
    in_paused_time(async {
        let zero = ResourcePool::builder(Async(Numbers), ()).passivate_timeout(Duration::ZERO);
        let zero = zero.build_on(Tokio::current());
        assert!(matches!(zero, Err(BuildError::Zero("passivate_timeout"))));
    });
}
