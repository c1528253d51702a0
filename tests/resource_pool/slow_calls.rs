//! A user's call takes time, by the manual clock, before each kind of deadline: what counts from when.

use crate::common::{Keyed, Outcome, Rig, keyed, pool};
use crate::shared::SECOND;
use cabrank::ManualClock;
use cabrank::resource_pool::{BorrowError, Borrowed};
use std::time::Duration;

/// Makes the call take so long.
fn takes<P>(rig: &Rig<P>, call: &'static str, time: Duration) {
    let clock = rig.clock.clone();
    rig.script.on(call, move |_| {
        clock.advance(time);
        Outcome::Well
    });
}

/// Makes the call take so long, and fail.
fn takes_in_vain<P>(rig: &Rig<P>, call: &'static str, time: Duration) {
    let clock = rig.clock.clone();
    rig.script.on(call, move |_| {
        clock.advance(time);
        Outcome::Fails
    });
}

/// The time of a borrow limits its waits. A resource that was found in time is lent, however slow its creation is.
#[test]
fn a_slow_creation_is_lent() {
    for call in ["create", "validate", "activate"] {
        let rig = pool(|b| b.test_on_create(true).max_wait(SECOND));
        takes(&rig, call, 9 * SECOND);
        let lent = rig.pool.borrow().expect(call);
        drop(lent);
        takes(&rig, call, Duration::ZERO);
        drop(rig.pool.borrow_timeout(Duration::ZERO).expect(call));
    }
}

/// An idle resource fails, and its time is over: the borrower does not begin with another one.
#[test]
fn a_slow_failure_ends_the_borrow_in_time() {
    for (call, slow, ends) in [
        ("validate", SECOND, true),
        ("validate", SECOND / 2, false),
        ("activate", SECOND, true),
        ("activate", SECOND / 2, false),
        ("destroy", SECOND, true),
    ] {
        let rig = pool(|b| b.test_on_borrow(true));
        rig.pool.prefill(2).expect("there is room");
        if call == "destroy" {
            rig.script.fails("validate");
            takes(&rig, "destroy", slow);
        } else {
            takes_in_vain(&rig, call, slow);
        }
        let got = rig.pool.borrow_timeout(SECOND).map(drop);
        // Half of the time is left for the second one only.
        let made = rig.script.made();
        assert!(matches!(got, Err(BorrowError::TimedOut(_))), "{call} {slow:?}: {got:?}");
        assert_eq!(made, 2, "{call} {slow:?}");
        assert_eq!(rig.counts(), (0, usize::from(ends)), "{call} {slow:?}");
    }
}

/// A resource lives from the beginning of its creation: neither the wait nor the victim's destruction counts.
#[test]
fn a_life_begins_with_the_creation() {
    let rig: Rig<Keyed> = keyed(|b| b.max_total(1).max_lifetime(10 * SECOND));
    drop(rig.lend("a"));
    takes(&rig, "destroy", 9 * SECOND);
    takes(&rig, "create", 3 * SECOND);
    let lent = rig.lend("b");
    let age = rig.pool.snapshot().keys[0].resources[0].age;
    assert_eq!(age, Some(3 * SECOND));
    drop(lent);
    rig.script.is_well("destroy");
    rig.clock.advance(6 * SECOND);
    rig.pool.maintain();
    assert_eq!(rig.pool.num_idle(), 1);
    rig.clock.advance(SECOND);
    rig.pool.maintain();
    assert_eq!(rig.pool.num_idle(), 0);
}

/// The creation alone takes longer than the life: the resource is not lent a second time.
#[test]
fn a_creation_that_takes_longer_than_its_life_is_lent_once() {
    let rig = pool(|b| b.max_lifetime(SECOND).min_idle(1));
    takes(&rig, "create", 2 * SECOND);
    let lent = rig.lend();
    drop(lent);
    assert_eq!(rig.counts(), (0, 0));
    rig.pool.maintain();
    assert_eq!((rig.counts(), rig.script.alive()), ((0, 0), 0));
    // It counts as a failure, so the next refill comes later.
    assert_eq!(rig.due(), Some(SECOND / 2));
}

/// A loan looks abandoned by its borrower's time, without that of the factory before and after it.
#[test]
fn a_loan_begins_and_ends_without_the_factorys_time() {
    for call in ["create", "activate", "validate", "passivate"] {
        let rig = pool(|b| {
            let tested = b.test_on_create(true).test_on_borrow(true).test_on_return(true);
            tested.abandoned_after(2 * SECOND)
        });
        takes(&rig, call, 9 * SECOND);
        for _ in 0..2 {
            let lent = rig.lend();
            rig.clock.advance(SECOND);
            rig.pool.maintain();
            drop(lent);
            rig.pool.maintain();
        }
        assert_eq!(rig.events(), [""; 0], "{call}");
        let lent = rig.lend();
        rig.clock.advance(2 * SECOND);
        rig.pool.maintain();
        assert_eq!(rig.events().len(), 1, "{call}");
        drop(lent);
    }
}

/// A resource is idle from the end of its return.
#[test]
fn the_idle_time_begins_after_the_return() {
    for call in ["validate", "passivate"] {
        let rig = pool(|b| b.test_on_return(true).max_idle_time(2 * SECOND));
        takes(&rig, call, 9 * SECOND);
        drop(rig.lend());
        rig.clock.advance(SECOND);
        assert_eq!(rig.due(), Some(SECOND), "{call}");
        assert_eq!(rig.counts(), (0, 1), "{call}");
        rig.clock.advance(SECOND);
        rig.pool.maintain();
        assert_eq!(rig.counts(), (0, 0), "{call}");
    }
}

/// A test of an idle resource does not make it younger.
#[test]
fn a_slow_test_does_not_begin_the_idle_time_again() {
    let rig =
        pool(|b| b.test_while_idle(true).eviction_interval(SECOND).max_idle_time(20 * SECOND));
    rig.pool.add().expect("there is room");
    takes(&rig, "validate", 9 * SECOND);
    for _ in 0..2 {
        rig.clock.advance(SECOND);
        rig.pool.maintain();
    }
    assert_eq!(rig.pool.num_idle(), 1);
    rig.clock.advance(SECOND);
    rig.pool.maintain();
    assert_eq!(rig.counts(), (0, 0));
}

/// The pause after a failed refill begins with the failure.
#[test]
fn a_back_off_begins_with_the_failure() {
    let rig = pool(|b| b.min_idle(1));
    takes_in_vain(&rig, "create", 9 * SECOND);
    assert_eq!(rig.due(), Some(SECOND / 2));
    rig.clock.advance(SECOND / 2);
    assert_eq!(rig.due(), Some(SECOND));
}

/// A close calls the factory for all idle resources. The time of the wait after it is its own.
#[test]
fn the_wait_for_the_end_has_its_own_time() {
    let rig = pool(|b| b.max_active(4));
    rig.pool.prefill(3).expect("there is room");
    let lent = rig.lend();
    takes(&rig, "destroy", 9 * SECOND);
    rig.pool.close();
    let pool = rig.pool.clone();
    let waits = crate::common::Background::start(move || pool.wait_closed(SECOND));
    // The destruction of the last one takes longer than the wait, which has begun or will.
    drop(lent);
    let ended = waits.end_by(&rig.clock, SECOND);
    assert!(ended || rig.pool.wait_closed(Duration::ZERO), "{ended}");
    assert_eq!(rig.script.alive(), 0);
}

/// A waiter whose time passes during another caller's slow call fails in time; the others stay.
#[test]
fn a_slow_call_of_another_ends_a_wait() {
    for call in ["passivate", "validate"] {
        let rig = pool(|b| b.max_active(1).test_on_return(true).max_wait(SECOND));
        let lent = rig.lend();
        let late = rig.queue();
        let mut task = rig.task();
        takes(&rig, call, SECOND);
        let clock: ManualClock = rig.clock.clone();
        let before = crate::common::Background::start(move || {
            drop(clock);
            drop(lent);
        });
        before.end();
        // The thread has given up, or was granted the resource, in this order: its time had passed by then.
        match late.end() {
            Err(error) => assert!(matches!(error, BorrowError::TimedOut(_)), "{call}"),
            Ok(lent) => drop(lent),
        }
        assert!(task.poll().expect("its turn").is_ok(), "{call}");
    }
}

/// The event says how long the loan was when it was found.
#[test]
fn a_late_report_says_the_whole_time() {
    let rig = pool(|b| b.abandoned_after(SECOND).max_idle_time(SECOND));
    rig.pool.add().expect("there is room");
    let (_lent, _other) = (rig.lend(), rig.pool.add());
    takes(&rig, "destroy", 5 * SECOND);
    rig.clock.advance(2 * SECOND);
    rig.pool.maintain();
    let events = rig.events();
    assert!(events[0].contains("lent_for: 2s"), "{events:?}");
    assert_eq!(events.len(), 1);
}

/// A label is that of its own loan.
#[test]
fn a_report_has_the_label_of_its_loan() {
    let rig = pool(|b| b.max_active(1).abandoned_after(SECOND));
    let first = rig.lend();
    Borrowed::set_label(&first, "first");
    drop(first);
    let _second = rig.lend();
    rig.clock.advance(SECOND);
    rig.pool.maintain();
    let events = rig.events();
    assert!(events[0].contains("label: None"), "{events:?}");
}
