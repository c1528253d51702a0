//! Failures that were seen in other pools, one test for each cause.

use crate::common::{Background, Lent, Outcome, Pool, Rig, pool};
use crate::shared::task::block_on;
use crate::shared::{Gate, SECOND};
use cabrank::resource_pool::{BorrowError, Borrowed, ResourceFactory, ResourcePool};

/// Two returns meet two waiters: the drop that returns a resource serves a waiter.
#[test]
fn no_wake_up_is_lost_when_two_returns_meet_two_arrivals() {
    for _ in 0..200 {
        let rig = pool(|b| b.max_active(2));
        let returning = rig.lend_all::<2>().map(|lent| Background::start(move || drop(lent)));
        let arriving: [_; 2] = std::array::from_fn(|_| {
            let pool = rig.pool.clone();
            Background::start(move || pool.borrow().map(Borrowed::into_owned))
        });
        returning.into_iter().for_each(Background::end);
        for arrived in arriving {
            drop(arrived.end().expect("one for each"));
        }
        assert_eq!((rig.counts(), rig.script.made()), ((0, 2), 2));
    }
}

#[test]
fn no_slot_is_lost_after_a_panic_in_create() {
    let rig = pool(|b| b.max_active(1).max_total(1));
    for _ in 0..3 {
        rig.script.panics("create");
        assert!(matches!(rig.pool.try_borrow(), Err(BorrowError::Create(_))));
        assert_eq!((rig.counts(), rig.pool.num_total()), ((0, 0), 0));
    }
    rig.script.is_well("create");
    drop(rig.lend());
    assert_eq!(rig.counts(), (0, 1));
}

/// A failed creation frees its place for a waiter.
#[test]
fn a_panic_in_create_gives_its_place_to_a_waiter() {
    let rig = pool(|b| b.max_active(1));
    let gate = Gate::default();
    let theirs = gate.clone();
    rig.script.on("create", move |_| {
        theirs.pass();
        panic!("on purpose");
    });
    let pool = rig.pool.clone();
    let first = Background::start(move || pool.borrow().map(drop));
    gate.await_arrivals(1);
    let waits = rig.queue();
    rig.script.is_well("create");
    gate.open();
    assert!(matches!(first.end(), Err(BorrowError::Create(_))));
    drop(waits.end().expect("the place is free"));
}

/// The pool lends no resource at or after the end of its lifetime.
#[test]
fn no_resource_is_lent_past_its_lifetime() {
    let rig = pool(|b| b.max_active(1).max_lifetime(10 * SECOND));
    drop(rig.lend());
    rig.clock.advance(10 * SECOND);
    assert_eq!(rig.lend().number, 2);
    // On return, and by a grant.
    let late = rig.lend();
    let waits = rig.queue();
    rig.clock.advance(10 * SECOND);
    drop(late);
    assert_eq!(waits.end().expect("a new one").number, 3);
}

/// A borrower that is cancelled leaves no count behind: before its grant, after it, and after the
/// close.
#[test]
fn no_count_is_leaked_by_cancellation() {
    let rig = pool(|b| b.max_active(1));
    for round in 0..3 {
        let lent = rig.lend();
        let (first, second) = (rig.task(), rig.task());
        assert_eq!(rig.pool.num_waiting(), 2);
        match round {
            0 => {
                drop((second, first));
                drop(lent);
            }
            1 => {
                drop(lent);
                // The second waiter gets the first one's grant, and passes it on when it is dropped.
                drop((first, second));
            }
            _ => {
                rig.pool.close();
                drop((first, second, lent));
            }
        }
        assert_eq!((rig.pool.num_active(), rig.pool.num_waiting()), (0, 0), "round {round}");
        assert_eq!(rig.pool.num_total(), rig.pool.num_idle());
    }
    assert_eq!((rig.script.made(), rig.script.alive()), (1, 0));
}

/// A timeout and a return at the same moment: the resource goes to the next waiter or to the idle
/// list.
#[test]
fn a_return_that_meets_a_timeout_is_not_lost() {
    for _ in 0..300 {
        let rig = pool(|b| b.max_active(1).max_wait(SECOND));
        let lent = rig.lend();
        let first = rig.queue();
        let second = rig.queue();
        let clock = rig.clock.clone();
        let passes = Background::start(move || clock.advance(SECOND));
        drop(lent);
        passes.end();
        let served = [first, second].map(|waits| waits.end().is_ok());
        assert_eq!(rig.counts(), (0, 1), "{served:?}");
    }
}

/// Threads time out while others create. `asynchronous.rs` has the same for tasks, at every await.
#[test]
fn time_outs_create_within_the_limits() {
    let rig = pool(|b| b.max_active(2).max_wait(SECOND));
    let gate = Gate::default();
    let theirs = gate.clone();
    rig.script.on("create", move |_| {
        theirs.pass();
        Outcome::Well
    });
    let start = || {
        let pool = rig.pool.clone();
        Background::start(move || pool.borrow().map(Borrowed::into_owned))
    };
    let creating = [start(), start()];
    gate.await_arrivals(2);
    for _ in 0..5 {
        let waits = rig.queue();
        rig.clock.advance(SECOND);
        assert!(matches!(waits.end(), Err(BorrowError::TimedOut(_))));
    }
    gate.open();
    // A borrower that has begun to create is not ended by its timeout.
    let made = creating.map(|made| made.end().expect("created"));
    assert_eq!((rig.counts(), rig.script.made()), ((2, 0), 2));
    drop(made);
}

/// However a loan ends, the oldest waiter gets the resource, or else its place.
#[test]
fn the_oldest_waiter_gets_what_becomes_free() {
    type End = (usize, fn(&Rig<Pool>, Lent));
    let ends: [End; 8] = [
        (1, |_, lent| drop(lent)),
        (2, |_, lent| Borrowed::invalidate(lent)),
        (2, |_, lent| drop(Borrowed::detach(lent))),
        (2, |rig, lent| {
            rig.script.fails("passivate");
            drop(lent);
        }),
        (2, |rig, lent| {
            rig.script.panics("validate");
            drop(lent);
        }),
        (2, |rig, lent| {
            rig.pool.clear_all();
            drop(lent);
        }),
        (2, |rig, lent| {
            rig.clock.advance(9 * SECOND);
            drop(lent);
        }),
        (2, |_, lent| {
            let panics = std::thread::spawn(move || {
                let _lent = lent;
                std::panic::resume_unwind(Box::new("on purpose"));
            });
            assert!(panics.join().is_err());
        }),
    ];
    for (nth, (number, end)) in ends.into_iter().enumerate() {
        let rig = pool(|b| b.max_active(1).max_lifetime(9 * SECOND).test_on_return(true));
        let lent = rig.lend();
        let (mut first, mut second) = (rig.task(), rig.task());
        end(&rig, lent);
        assert_eq!((first.wakes(), second.wakes()), (1, 0), "end {nth}");
        for call in ["passivate", "validate"] {
            rig.script.is_well(call);
        }
        let served = first.poll().expect("its turn").expect("one");
        assert_eq!(served.number, number, "end {nth}");
        drop(served);
        assert_eq!(second.poll().expect("its turn").expect("one").number, number);
        assert_eq!(rig.counts(), (0, 1), "end {nth}");
    }
}

/// Creates resources that should not be moved.
struct Large;

impl ResourceFactory for Large {
    type Resource = [u8; 4096];
    type Metadata = ();
    type Error = std::convert::Infallible;
    fn create(&self, (): &()) -> Result<[u8; 4096], std::convert::Infallible> {
        Ok([0; 4096])
    }
}

/// Borrowing and returning copy no large resource: it stays where its creation put it.
#[test]
fn a_resource_stays_where_it_is() {
    let pool = ResourcePool::builder(Large, ()).max_active(1).build().expect("valid options");
    let lent = pool.borrow().expect("room");
    let address = std::ptr::from_ref(&*lent);
    let owned = Borrowed::into_owned(lent);
    assert_eq!(std::ptr::from_ref(&*owned), address);
    drop(owned);
    assert_eq!(std::ptr::from_ref(&*pool.borrow().expect("idle")), address);
    let lent = block_on(pool.borrow_async()).expect("idle");
    assert_eq!(std::ptr::from_ref(&*lent), address);
    block_on(Borrowed::put_back(lent));
    let mut looked_at = 0;
    pool.retain(|(), resource| {
        looked_at += usize::from(std::ptr::from_ref(&*resource) == address);
        true
    });
    assert_eq!((looked_at, pool.num_idle()), (1, 1));
}
