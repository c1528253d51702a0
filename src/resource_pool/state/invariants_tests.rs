//! Breaks every invariant on purpose, in a pool in which all of them hold, and checks that its assertion fires.

use super::names::{SlotKey, SubKey};
use super::options::Options;
use super::slot::{Order, SlotState};
use super::state::State;
use crate::kernel::clock::{ManualClock, Time};
use crate::kernel::section::{Guarded, broken, check_breaks};
use crate::resource_pool::api::factory::ResourceFactory;
use crate::resource_pool::{Borrowed, KeyedResourcePool, ResourcePool};
use std::future::Future;
use std::mem::{ManuallyDrop, forget};
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

struct Made;
impl ResourceFactory for Made {
    type Resource = Box<u8>;
    type Metadata = &'static str;
    type Error = std::convert::Infallible;
    fn create(&self, _: &&'static str) -> Result<Box<u8>, std::convert::Infallible> {
        Ok(Box::new(1))
    }
}

type TheState = State<Made>;

/// The pool that a break starts from.
#[derive(Clone, Copy, PartialEq)]
enum In {
    /// Key a: one lent, two idle. Key b: one lent, one waiter.
    Keyed,
    /// One lent, one idle, one waiter: `max_active` is reached.
    Fair,
    /// Like `Fair`, but newcomers may barge.
    Unfair,
}

/// Returns the messages of the invariants that `spoil` breaks.
fn violations(within: In, spoil: impl FnOnce(&mut TheState)) -> Vec<String> {
    match within {
        In::Keyed => of_keys(spoil),
        In::Fair => of_one(true, spoil),
        In::Unfair => of_one(false, spoil),
    }
}

fn look(state: &mut TheState, spoil: impl FnOnce(&mut TheState)) -> Vec<String> {
    let broken_now = |state: &TheState| broken(TheState::INVARIANTS, state).collect::<Vec<_>>();
    assert_eq!(broken_now(state), [""; 0]);
    spoil(state);
    broken_now(state)
}

fn of_keys(spoil: impl FnOnce(&mut TheState)) -> Vec<String> {
    let clock = ManualClock::new();
    let pool = KeyedResourcePool::builder(Made).max_active(1).max_idle(2).max_total(4);
    let pool = pool.max_lifetime(Duration::from_secs(9)).maintenance(false).clock(clock.clock());
    // A broken pool is never dropped: its shutdown would fail.
    let pool = ManuallyDrop::new(pool.build().expect("valid"));
    let lent = ManuallyDrop::new(["a", "b"].map(|key| pool.borrow(&key).map(Borrowed::into_owned)));
    pool.add(&"a").expect("room");
    clock.advance(Duration::from_secs(1));
    pool.add(&"a").expect("room");
    let mut waits =
        ManuallyDrop::new(Box::pin(async { pool.borrow_async(&"b").await.map(forget) }));
    let polled = waits.as_mut().as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(polled.is_pending() && lent.iter().all(Result::is_ok));
    pool.inner().state.break_state(|state| look(state, spoil))
}

fn of_one(fair: bool, spoil: impl FnOnce(&mut TheState)) -> Vec<String> {
    let pool = ResourcePool::builder(Made, "m").max_active(1).fair(fair).build();
    let pool = ManuallyDrop::new(pool.expect("valid"));
    let lent = ManuallyDrop::new(pool.borrow());
    pool.add().expect("room");
    let mut waits = ManuallyDrop::new(Box::pin(async { pool.borrow_async().await.map(forget) }));
    let polled = waits.as_mut().as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(polled.is_pending() && lent.is_ok());
    pool.inner().state.break_state(|state| look(state, spoil))
}

fn slot(all: &TheState, state: SlotState) -> SlotKey {
    let found = all.slots.iter().find(|(_, slot)| slot.state == state);
    found.expect("a slot in this state").0
}
fn sub(all: &TheState, state: SlotState) -> SubKey {
    all.slots[slot(all, state)].key
}

type Break = fn(&mut TheState);

/// Every invariant's name, and ways in which it is broken.
fn breaks() -> Vec<(&'static str, In, Break)> {
    vec![
        ("INV-RP-COUNTS", In::Keyed, |s| s.total += 1),
        ("INV-RP-COUNTS", In::Keyed, |s| s.active -= 1),
        ("INV-RP-COUNTS", In::Keyed, |s| s.idle += 1),
        ("INV-RP-COUNTS", In::Keyed, |s| s.leaving += 1),
        ("INV-RP-COUNTS", In::Keyed, |s| s.tested += 1),
        ("INV-RP-COUNTS", In::Keyed, |s| s.subs.touch(SubKey::FIRST).total += 1),
        ("INV-RP-COUNTS", In::Keyed, |s| s.subs.touch(SubKey::FIRST).active += 1),
        ("INV-RP-COUNTS", In::Keyed, |s| s.subs.touch(SubKey::FIRST).adding += 1),
        ("INV-RP-COUNTS", In::Keyed, |s| s.subs.touch(SubKey::FIRST).leaving += 1),
        ("INV-RP-COUNTS", In::Keyed, |s| s.subs.touch(SubKey::FIRST).outside += 1),
        ("INV-RP-COUNTS", In::Keyed, |s| {
            let lent = slot(s, SlotState::Lent);
            s.slots[lent].state = SlotState::Reclaimed;
        }),
        ("INV-RP-COUNTS", In::Keyed, |s| {
            let idle = slot(s, SlotState::Idle);
            s.slots[idle].state = SlotState::Marked;
        }),
        ("INV-RP-MAX-TOTAL", In::Keyed, |s| s.limits.max_total = 3),
        ("INV-RP-MAX-ACTIVE", In::Fair, |s| s.limits.max_active = 0),
        ("INV-RP-MAX-TOTAL-PER-KEY", In::Keyed, |s| s.limits.max_total_per_key = 2),
        ("INV-RP-CLOSED", In::Keyed, |s| s.closed = true),
        ("INV-RP-MAX-IDLE", In::Keyed, |s| s.limits.max_idle = Some(1)),
        ("INV-RP-ONE-PLACE", In::Keyed, |s| {
            let idle = slot(s, SlotState::Idle);
            drop(s.slots[idle].content.take());
        }),
        ("INV-RP-ONE-PLACE", In::Keyed, |s| {
            let idle = slot(s, SlotState::Idle);
            s.slots[idle].tested = true;
        }),
        ("INV-RP-EPOCH", In::Keyed, |s| s.epoch += 1),
        ("INV-RP-LIFETIME", In::Keyed, |s| {
            let lent = slot(s, SlotState::Lent);
            s.end_life(lent);
        }),
        ("INV-RP-IDLE-ORDER", In::Keyed, |s| {
            let first = s.subs[sub(s, SlotState::Idle)].idle.front().expect("two are idle");
            s.slots[first].since = Time::default().plus(Duration::from_secs(5));
        }),
        ("INV-RP-AGE-ORDER", In::Keyed, |s| {
            let first = s.by_age.front().expect("two are idle");
            s.by_age.remove(&mut s.slots, first);
        }),
        ("INV-RP-LINE", In::Keyed, |s| {
            s.line.set(s.subs.links(), SubKey::new(1), Some(7));
        }),
        ("INV-RP-LINE", In::Keyed, |s| s.limits.max_active = 2),
        ("INV-RP-LINE", In::Keyed, |s| {
            s.line.set(s.subs.links(), SubKey::FIRST, Some(7));
        }),
        ("INV-RP-WAITING", In::Keyed, |s| s.waiting += 1),
        ("INV-RP-WAITING", In::Unfair, |s| s.retrying += 1),
        ("INV-RP-WAITING", In::Unfair, |s| {
            // Both counts are wrong in the same way.
            s.retrying += 1;
            s.subs.touch(SubKey::FIRST).retrying += 1;
        }),
        ("INV-RP-ORDERS", In::Keyed, |s| s.creating += 1),
        ("INV-RP-ORDERS", In::Keyed, |s| s.overdue += 1),
        ("INV-RP-ORDERS", In::Keyed, |s| s.dropping += 1),
        ("INV-RP-ORDERS", In::Keyed, |s| {
            let lent = slot(s, SlotState::Lent);
            s.slots[lent].order = Order::InTime;
        }),
        ("INV-RP-ORDERS", In::Keyed, |s| s.subs.touch(SubKey::FIRST).dropping += 1),
        ("INV-RP-MAX-CREATING", In::Fair, |s| {
            s.creates = true;
            s.creating = usize::MAX;
            s.options = Arc::new(Options { max_creating: 1, ..(*s.options).clone() });
        }),
        ("INV-RP-ORDERED", In::Fair, |s| {
            s.creates = true;
            s.to_order.set(s.subs.links(), SubKey::FIRST, Some(1));
        }),
        ("INV-RP-EXACT-WAKE-UP", In::Fair, |s| s.limits.max_active = 2),
        ("INV-RP-BARGING", In::Unfair, |s| s.limits.max_active = 2),
    ]
}

#[test]
fn a_break_of_each_invariant_is_reported_by_its_name() {
    let breaks = breaks().into_iter().map(|(name, within, spoil)| (name, (within, spoil)));
    check_breaks(TheState::INVARIANTS, breaks, |(within, spoil)| violations(within, spoil));
}

#[test]
#[should_panic(expected = "INV-RP-COUNTS does not hold")]
fn a_critical_section_that_breaks_an_invariant_panics_with_its_name() {
    let pool = ResourcePool::builder(Made, "m").build();
    let pool = ManuallyDrop::new(pool.expect("a valid pool"));
    pool.inner().critical(|state, _| state.total = 0x10);
}
