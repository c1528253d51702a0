//! The two forms of a guard, which borrows the pool or owns a part of it: each end of a loan is the same for both.

use crate::common::{Keyed, Lent, Pool, Rig, Script, keyed, pool};
use crate::steps::{self, Steps};
use cabrank::resource_pool::{Async, Borrowed, Form};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Ends a loan while its borrower panics.
fn panics<F: Form>(lent: Borrowed<'_, F>) {
    let body = AssertUnwindSafe(move || {
        let _lent = lent;
        resume_unwind(Box::new("on purpose"));
    });
    catch_unwind(body).expect_err("it panics");
}

/// Ends a loan during the unwinding of another value's owner.
fn is_dropped_by_a_drop<F: Form>(lent: Borrowed<'_, F>) {
    struct Owner<'p, F: Form>(Option<Borrowed<'p, F>>);
    impl<F: Form> Drop for Owner<'_, F> {
        fn drop(&mut self) {
            drop(self.0.take());
        }
    }
    let owner = Owner(Some(lent));
    let body = AssertUnwindSafe(move || {
        let _owner = owner;
        resume_unwind(Box::new("on purpose"));
    });
    catch_unwind(body).expect_err("it panics");
}

type End = for<'p> fn(Borrowed<'p, Script>);

/// How a loan ends, what the factory is called for, and the numbers of active and idle resources.
const ENDS: [(&str, End, &str, (usize, usize)); 6] = [
    ("drop", |lent| drop(lent), "passivate 1", (0, 1)),
    ("put_back", |lent| now(Borrowed::put_back(lent)), "passivate 1", (0, 1)),
    ("invalidate", |lent| Borrowed::invalidate(lent), "destroy 1", (0, 0)),
    ("detach", |lent| drop(Borrowed::detach(lent)), "", (0, 0)),
    ("panic", panics, "destroy 1", (0, 0)),
    ("drop by a drop", is_dropped_by_a_drop, "destroy 1", (0, 0)),
];

fn now(future: impl Future<Output = ()>) {
    crate::shared::task::block_on(future);
}

#[test]
fn each_end_of_a_loan_is_the_same_for_both_forms() {
    for (name, end, calls, counts) in ENDS {
        for owned in [false, true] {
            let rig: Rig<Pool> = pool(|b| b);
            let lent = rig.pool.borrow().expect("one");
            rig.script.calls();
            match owned {
                false => end(lent),
                true => end(Borrowed::into_owned(lent)),
            }
            let after = (rig.script.calls(), rig.counts(), rig.script.alive());
            assert_eq!(after, (calls.to_owned(), counts, counts.1), "{name}, owned: {owned}");
        }
    }
}

#[test]
fn each_end_of_a_keyed_loan_is_the_same_for_both_forms() {
    for (name, end, calls, counts) in ENDS {
        for owned in [false, true] {
            let rig: Rig<Keyed> = keyed(|b| b.max_total(1));
            let lent = rig.pool.borrow(&"a").expect("one");
            rig.script.calls();
            match owned {
                false => end(lent),
                true => end(Borrowed::into_owned(lent)),
            }
            let after = (rig.script.calls(), rig.counts(), rig.pool.num_keys());
            assert_eq!(after, (calls.to_owned(), counts, counts.1), "{name}, owned: {owned}");
        }
    }
}

/// In an asynchronous pool, a drop leaves the passivation to the next borrower, and a panic destroys.
#[test]
fn a_panic_destroys_the_resource_of_an_asynchronous_pool() {
    for owned in [false, true] {
        let rig = steps::rig(|b| b);
        let mut borrows = Box::pin(rig.pool.borrow_async());
        let lent = poll_once(borrows.as_mut());
        match owned {
            false => panics(lent),
            true => panics::<Async<Steps>>(Borrowed::into_owned(lent)),
        }
        assert_eq!((rig.counts(), rig.steps.alive()), ((0, 0, 0), 0), "owned: {owned}");
    }
}

fn poll_once<T, E: std::fmt::Debug>(
    future: std::pin::Pin<&mut impl Future<Output = Result<T, E>>>,
) -> T {
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    match future.poll(&mut cx) {
        std::task::Poll::Ready(got) => got.expect("one"),
        std::task::Poll::Pending => panic!("it is pending"),
    }
}

/// The next waiter gets a new resource in the place of the destroyed one.
#[test]
fn a_panic_makes_room_for_a_waiter() {
    for owned in [false, true] {
        let rig = pool(|b| b.max_active(1));
        let lent = rig.pool.borrow().expect("one");
        let mut waits = rig.task();
        match owned {
            false => panics(lent),
            true => panics(Borrowed::into_owned(lent)),
        }
        assert_eq!(waits.poll().expect("it was woken").expect("a place").number, 2);
    }
}

/// An owned guard keeps what it needs of a pool that is gone.
#[test]
fn each_end_of_a_loan_may_come_after_the_pool() {
    for (name, end, _, _) in ENDS {
        let rig = pool(|b| b);
        let lent: Lent = rig.lend();
        let (script, _) = rig.end();
        script.calls();
        end(lent);
        let destroys = script.calls().contains("destroy 1");
        assert_eq!((destroys, script.alive()), (name != "detach", 0), "{name}");
    }
}

/// A guard's number and label are those of its loan.
#[test]
fn both_forms_have_the_number_and_the_label_of_their_loan() {
    let rig = pool(|b| b);
    let one = rig.pool.borrow().expect("one");
    let two = rig.lend();
    assert_eq!((Borrowed::id(&one), Borrowed::id(&two)), (1, 2));
    assert_eq!((one.number, two.number), (1, 2));
    Borrowed::set_label(&one, "one");
    Borrowed::set_label(&two, "two");
    crate::shared::soon(move || drop(two));
    assert_eq!(rig.counts(), (1, 1));
    drop(one);
}
