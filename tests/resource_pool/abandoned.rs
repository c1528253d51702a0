//! Loans that look abandoned: when they do, who is told, and what becomes of them.

use crate::common::{Lent, Outcome, locked, pool};
use crate::shared::SECOND;
use crate::shared::task::{Task, block_on};
use crate::steps::{self, Step};
use cabrank::resource_pool::{Borrowed, ResourceState};
use std::time::Duration;

/// Loans that look abandoned after the close are told of, and taken back: else nothing ends it.
/// PROP-RP-CLOSE-ENDS.
#[test]
fn an_abandoned_loan_is_taken_back_after_the_close() {
    let rig = pool(|b| b.abandoned_after(10 * SECOND).remove_abandoned(true));
    let lost = rig.lend();
    rig.pool.close();
    assert_eq!(rig.due(), Some(10 * SECOND));
    rig.clock.advance(10 * SECOND);
    rig.pool.maintain();
    assert!(rig.pool.wait_closed(Duration::ZERO), "nothing is left");
    assert_eq!(rig.events(), ["m: Abandoned { id: 1, lent_for: 10s, removed: true }"]);
    drop(lost);
    assert_eq!((rig.counts(), rig.script.alive()), ((0, 0), 0));
}

/// A loan begins when its borrower comes for what it was handed, not before.
#[test]
fn what_nobody_has_picked_up_is_no_loan() {
    let rig = pool(|b| b.max_active(1).abandoned_after(10 * SECOND).remove_abandoned(true));
    let lent = rig.lend();
    let mut task = rig.task();
    drop(lent);
    rig.clock.advance(100 * SECOND);
    assert_eq!((rig.due(), rig.counts(), rig.events().len()), (None, (1, 0), 0));
    let lent = task.poll().expect("it was granted").expect("a resource");
    assert_eq!((lent.number, rig.due()), (1, Some(10 * SECOND)));
    drop(lent);
    assert_eq!((rig.counts(), rig.script.alive()), ((0, 1), 1));
}

/// A loan that looks abandoned is told of, once.
#[test]
fn an_abandoned_loan_is_reported() {
    let rig = pool(|b| b.max_active(2).abandoned_after(10 * SECOND));
    let [mut lost, fine] = rig.lend_all::<2>().map(Some);
    assert_eq!(rig.due(), Some(10 * SECOND));
    drop(fine);
    rig.clock.advance(11 * SECOND);
    assert_eq!(rig.due(), None);
    rig.pool.maintain();
    assert_eq!(rig.events(), ["m: Abandoned { id: 1, lent_for: 11s, removed: false }"]);
    assert_eq!(rig.counts(), (1, 1));
    drop(lost.take());
    assert_eq!((rig.counts(), rig.script.alive()), ((0, 2), 2));
}

/// Where it is to be removed, its place is given to who waits; it dies when it comes back after all.
#[test]
fn an_abandoned_loan_makes_room() {
    let rig =
        pool(|b| b.max_active(1).max_total(1).abandoned_after(10 * SECOND).remove_abandoned(true));
    let lost = rig.lend();
    let waits = rig.queue();
    rig.clock.advance(10 * SECOND);
    rig.pool.maintain();
    let served = waits.end().expect("its place");
    assert_eq!((served.number, rig.counts(), rig.pool.num_total()), (2, (1, 0), 1));
    let states: Vec<_> =
        rig.pool.snapshot().keys[0].resources.iter().map(|resource| resource.state).collect();
    assert_eq!(states, [ResourceState::Abandoned, ResourceState::Lent]);
    drop(lost);
    assert_eq!((rig.counts(), rig.script.alive()), ((1, 0), 1));
    drop(served);
    assert_eq!((rig.counts(), rig.script.alive()), ((0, 1), 1));
    assert_eq!(rig.events(), ["m: Abandoned { id: 1, lent_for: 10s, removed: true }"]);
}

/// What ends otherwise after it was given up: detached, invalidated, and while the pool is closed.
#[test]
fn an_abandoned_loan_ends_in_every_way() {
    for end in [drop as fn(Lent), Borrowed::invalidate, |l| drop(l.detach())] {
        let rig = pool(|b| b.abandoned_after(SECOND).remove_abandoned(true));
        let lost = rig.lend();
        rig.clock.advance(SECOND);
        rig.pool.maintain();
        assert_eq!((rig.counts(), rig.pool.num_total()), ((0, 0), 0));
        rig.pool.close();
        assert!(rig.pool.wait_closed(Duration::ZERO), "it does not wait for what is lost");
        end(lost);
        assert_eq!((rig.counts(), rig.script.alive()), ((0, 0), 0));
    }
}

/// What takes the factory long is not lent yet: neither a creation nor an activation nor a test is taken for a
/// borrower that has gone, and nothing is made beyond the limits because it takes its time.
#[test]
fn the_factorys_time_is_not_the_borrowers() {
    let rig = pool(|b| {
        let b = b.max_total(1).test_on_create(true).test_on_borrow(true);
        b.abandoned_after(SECOND).remove_abandoned(true)
    });
    for call in ["create", "validate", "activate"] {
        let (clock, theirs) = (rig.clock.clone(), rig.pool.clone());
        rig.script.on(call, move |_| {
            clock.advance(9 * SECOND);
            theirs.maintain();
            assert_eq!((theirs.num_active(), theirs.num_total()), (1, 1));
            Outcome::Well
        });
    }
    for how in ["made", "out of stock"] {
        let lent = rig.lend();
        assert_eq!((rig.due(), rig.events().len()), (Some(SECOND), 0), "{how}");
        drop(lent);
    }
    let lent = rig.lend();
    rig.clock.advance(SECOND);
    rig.pool.maintain();
    assert_eq!(rig.events(), ["m: Abandoned { id: 1, lent_for: 1s, removed: true }"]);
    assert_eq!((rig.counts(), rig.script.made()), ((0, 0), 1));
    drop(lent);
    assert_eq!(rig.script.alive(), 0);
}

/// Nor is what it takes the factory to take it back: what was given back in time is not told of, nor destroyed.
#[test]
fn the_factorys_time_on_return_is_not_the_borrowers() {
    for call in ["validate", "passivate"] {
        let rig =
            pool(|b| b.test_on_return(true).abandoned_after(10 * SECOND).remove_abandoned(true));
        let lent = rig.lend();
        rig.clock.advance(SECOND);
        assert_eq!(rig.due(), Some(9 * SECOND));
        let (clock, theirs) = (rig.clock.clone(), rig.pool.clone());
        rig.script.on(call, move |_| {
            clock.advance(10 * SECOND);
            theirs.maintain();
            assert_eq!((theirs.num_active(), theirs.num_total()), (1, 1));
            Outcome::Well
        });
        drop(lent);
        assert_eq!((rig.events(), rig.counts()), (vec![], (0, 1)), "{call}");
        assert_eq!((rig.lend().number, rig.script.alive()), (1, 1));
    }
}

/// The same where it is awaited; and who is cut short there leaves nothing behind.
#[test]
fn what_is_put_back_is_no_loan() {
    for (call, ends) in [("validate", true), ("passivate", true), ("passivate", false)] {
        let rig = steps::rig(|b| {
            b.test_on_return(true).abandoned_after(10 * SECOND).remove_abandoned(true)
        });
        let lent = rig.lend();
        rig.steps.on(call, Step::Held);
        let mut returns = Task::new(lent.put_back());
        assert!(returns.poll().is_none());
        rig.clock.advance(10 * SECOND);
        block_on(rig.pool.maintain_async());
        assert_eq!(rig.counts(), (1, 0, 1), "{call}");
        if ends {
            rig.steps.go_on(call);
            returns.finish();
        } else {
            drop(returns);
        }
        let stays = usize::from(ends);
        assert_eq!((rig.counts(), rig.steps.alive()), ((0, stays, stays), stays));
        assert!(locked(&rig.events).is_empty());
    }
}
