//! What came back last is at hand, and not in stock yet, when somebody looks for it there.

use crate::models::resource_pool::rig::*;

/// Something is at hand, and whoever does what is due knows that it is due after a second.
fn at_hand() -> Things<Unkeyed> {
    let rig = unkeyed(|b| b.max_idle_time(SECOND));
    // The first time that was told, and so the thing was put into stock.
    (0..2).for_each(|_| drop(rig.lend()));
    rig
}

/// Guards the look at `State::fresh_until` where what is at hand is lent. Without it, a borrower that comes
/// after the time gets what is too old (PROP-RP-FRESH). Asserted: who comes before it gets the old one, who comes
/// after it a new one; who comes beside it one of the two.
#[test]
fn resource_at_hand_x_late_borrow() {
    let expected = ["the new one", "the old one"];
    explore_small("resource_at_hand_x_late_borrow", &expected, |outcomes| {
        let rig = at_hand();
        let (pool, hour) = (rig.pool.clone(), Bell::new());
        let strikes = hour.clone();
        let borrower = spawn(move || {
            hour.rung(); // A clock that is moved is no step for the tool, and this is.
            pool.borrow().expect("a thing").into_owned()
        });
        strikes.ring();
        rig.clock.advance(SECOND);
        let lent = borrower.join().expect("no panic");
        let number = lent.number;
        drop(lent);
        outcomes.note(if number == 1 { "the old one" } else { "the new one" });
        assert_eq!(use_one(&rig.pool), number, "it has just come back");
        rig.clock.advance(SECOND);
        assert_eq!(use_one(&rig.pool), number + 1);
        rig.end();
    });
}

/// Guards `State::put_away` where the maintenance looks for what is over. Without it, what is at hand is passed over,
/// and stays for ever, for nobody looks again. Asserted: what came back before the time is evicted, and what comes
/// back after it stays.
#[test]
fn resource_at_hand_x_eviction() {
    explore_small("resource_at_hand_x_eviction", &["evicted", "stays"], |outcomes| {
        let rig = at_hand();
        let (lent, hour) = (rig.lend(), Bell::new());
        let strikes = hour.clone();
        let returning = spawn(move || {
            hour.rung(); // As above.
            drop(lent);
        });
        strikes.ring();
        rig.clock.advance(SECOND);
        rig.pool.maintain();
        returning.join().expect("no panic");
        let stays = rig.factory.gone().is_empty();
        outcomes.note(if stays { "stays" } else { "evicted" });
        assert_eq!(rig.counts().1, usize::from(stays));
        rig.clock.advance(SECOND);
        rig.pool.maintain();
        assert_eq!(rig.counts(), (0, 0, 0));
        assert_eq!(rig.end(), [1]);
    });
}

/// A waiter is told to try again, and overtaken; what overtook it comes back before it has woken. Guards
/// `State::put_away` where a thread wakes (`Inner::wait`), which is within a section that others have interrupted.
/// Without it, it finds nothing, and lies down again beside what is at hand, as the assertion at the end of its section
/// finds. Asserted: it is lent the one thing.
#[test]
fn resource_at_hand_x_retry() {
    let expected = ["it came late", "it was first", "it was overtaken"];
    explore_small("resource_at_hand_x_retry", &expected, |outcomes| {
        let rig = unkeyed(|b| b.max_active(1).fair(false));
        let lent = rig.lend();
        let pool = rig.pool.clone();
        let waiter = spawn(move || use_one(&pool));
        let waits = rig.pool.num_waiting() == 1;
        drop(lent);
        let overtakes = rig.pool.try_borrow().map(drop);
        assert_eq!(waiter.join().expect("no panic"), 1);
        outcomes.note(match (waits, overtakes) {
            (true, Ok(())) => "it was overtaken",
            (true, Err(_)) => "it was first",
            (false, _) => "it came late",
        });
        assert_eq!(rig.end(), [1]);
    });
}
