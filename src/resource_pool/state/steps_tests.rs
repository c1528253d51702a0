//! The cost of a section grows only with the number of elements that it removes. Where `due.rs`, `refill.rs` and
//! `wait_queue.rs` say so, it also grows with the logarithm of the number of keys or waiters.
//!
//! These tests count steps from one element of a list or heap to another, within the sections alone: without the
//! invariants, which look at everything.

use super::effects::Effects;
use super::loan::Loan;
use super::maintenance_task::MaintenanceTask;
use super::names::{Shared, SlotKey, SubKey};
use super::refill::{NextRefill, Vacancy};
use super::slot::Content;
use super::state::{State, Step};
use crate::kernel::clock::ManualClock;
use crate::kernel::collections::wait_queue::{Queue, Waiters};
use crate::kernel::section::Patience;
use crate::kernel::steps::counted;
use crate::kernel::user_code::UserValue;
use crate::resource_pool::api::factory::ResourceFactory;
use crate::resource_pool::{Builder, KeyedResourcePool};
use std::mem::ManuallyDrop;
use std::time::Duration;

struct Made;
impl ResourceFactory for Made {
    type Resource = ();
    type Metadata = usize;
    type Error = std::convert::Infallible;
    fn create(&self, _: &usize) -> Result<(), std::convert::Infallible> {
        Ok(())
    }
}

type Keyed = KeyedResourcePool<usize, Made>;
type Building = Builder<Made, Keyed>;
type Fx = Effects<Made>;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

/// A pool on which the test runs bare sections; their effects are not run.
struct Rig {
    pool: ManuallyDrop<Keyed>,
    clock: ManualClock,
}

impl Rig {
    fn new(configure: impl FnOnce(Building) -> Building) -> Rig {
        let clock = ManualClock::new();
        let builder = Keyed::builder(Made).maintenance(false).clock(clock.clock());
        let pool = configure(builder).build().expect("valid");
        Rig { pool: ManuallyDrop::new(pool), clock }
    }
    /// Returns the section's result and its number of steps.
    fn section<R>(&self, section: impl FnOnce(&mut State<Made>, &mut Fx) -> R) -> (R, usize) {
        let mut fx = Effects::new();
        self.pool.inner().state.break_state(|state| {
            counted(|| {
                let result = section(state, &mut fx);
                state.settle(&mut fx);
                result
            })
        })
    }
    fn key(&self, number: usize) -> SubKey {
        let owned = Shared::new(UserValue::new(number));
        self.section(|state, _| {
            let key = state.new_key(number as u64, &owned, None).expect("the key is new");
            // As by a look-up: the end of the section forgets an unused key.
            state.subs.touch(key).held += 1;
            key
        })
        .0
    }
    fn lend(&self, key: SubKey) -> SlotKey {
        let lent = self.section(|state, fx| match state.begin(key, &Patience::None, fx) {
            Step::Create(order) => order.slot,
            Step::Take(loan) => loan.slot,
            _ => panic!("there is room"),
        });
        self.section(|state, _| state.note_first_created(lent.0));
        lent.0
    }
    fn give_back(&self, slot: SlotKey) -> usize {
        let meta = Shared::new(UserValue::new(0));
        let loan = Loan::new(slot, meta, ());
        self.section(|state, fx| state.give_back(slot, Content::Ready(loan), fx)).1
    }
}

/// Returns the most steps that one section makes, with ten keys and with ten thousand.
fn most_steps(run: fn(usize) -> Vec<usize>) -> [usize; 2] {
    [10, 10_000].map(|number| run(number).into_iter().max().expect("a section ran"))
}

/// A minimum protects the oldest idle resources, which the eviction examines first.
fn evictions(keys: usize) -> Vec<usize> {
    let rig = Rig::new(|b| b.min_idle(1).soft_max_idle_time(SECOND).max_idle_time(MINUTE));
    let keys: Vec<_> = (0..keys).map(|number| rig.key(number)).collect();
    let twice: Vec<_> = keys.iter().map(|key| [rig.lend(*key), rig.lend(*key)]).collect();
    let mut steps: Vec<_> = twice.iter().map(|[one, _]| rig.give_back(*one)).collect();
    rig.clock.advance(SECOND);
    steps.extend(twice.iter().take(5).map(|[_, two]| rig.give_back(*two)));
    let mut pass = None;
    loop {
        let (goes_on, made) = rig.section(|state, fx| state.evict_next(&mut pass, fx));
        steps.push(made);
        steps.push(rig.section(|state, _| state.next_due(MaintenanceTask::Evict)).1);
        if !goes_on {
            break;
        }
    }
    let idle = rig.section(|state, _| state.idle).0;
    assert_eq!(idle, keys.len(), "five exceeded the minimum");
    steps
}

/// Every key has a lent resource and a refill that failed.
struct Failed {
    rig: Rig,
    lent: Vec<SlotKey>,
    tried: Vec<SubKey>,
    steps: Vec<usize>,
}

impl Failed {
    fn new(keys: usize) -> Failed {
        let rig = Rig::new(|b| b.min_idle(1).max_total(usize::MAX));
        let lent = (0..keys).map(|number| rig.lend(rig.key(number))).collect();
        let mut failed = Failed { rig, lent, tried: Vec::new(), steps: Vec::new() };
        failed.try_all();
        failed
    }
    /// Fails the refill of each key that can be refilled now.
    fn try_all(&mut self) {
        self.tried.clear();
        while let Some(Vacancy { slot, .. }) = self.next() {
            let key = self.rig.section(|state, _| state.slots[slot].key).0;
            self.tried.push(key);
            self.section(|state, _| state.note_refill(slot, false));
            self.section(|state, fx| state.added(slot, Content::Nothing, fx));
            self.rig.clock.advance(Duration::from_nanos(1));
        }
    }
    fn next(&mut self) -> Option<Vacancy<Made>> {
        loop {
            match self.section(|state, fx| state.next_refill(fx)) {
                NextRefill::This(vacancy) => return Some(vacancy),
                NextRefill::Again => {}
                NextRefill::Nothing => return None,
            }
        }
    }
    fn section<R>(&mut self, section: impl FnOnce(&mut State<Made>, &mut Fx) -> R) -> R {
        let (result, made) = self.rig.section(section);
        self.steps.push(made);
        result
    }
}

/// A resource leaves while all keys are below their minimum and back off.
fn departures(keys: usize) -> Vec<usize> {
    let mut failed = Failed::new(keys);
    for slot in std::mem::take(&mut failed.lent).into_iter().take(5) {
        failed.section(|state, fx| state.give_back_place(slot, fx));
        failed.section(|state, _| state.next_due(MaintenanceTask::Refill));
    }
    failed.steps
}

/// After the back-off, the keys are refilled in the order in which they failed.
fn back_offs(keys: usize) -> Vec<usize> {
    let mut failed = Failed::new(keys);
    let first = failed.tried.clone();
    assert_eq!(first.len(), keys);
    failed.rig.clock.advance(SECOND);
    failed.try_all();
    assert_eq!(failed.tried, first);
    failed.steps
}

/// All waiters lose the race and are queued again in any order.
fn retries(waiting: usize) -> Vec<usize> {
    let (mut waiters, mut queue) = (Waiters::<()>::default(), Queue::default());
    let keys: Vec<_> = (0..waiting).map(|_| waiters.enqueue_task(&mut queue)).collect();
    let tickets: Vec<_> = keys.iter().map(|key| waiters.ticket(*key)).collect();
    for key in keys {
        drop(waiters.resolve_front(&mut queue, ()));
        assert_eq!(waiters.take(key), Some(()));
    }
    let (even, odd): (Vec<_>, Vec<_>) = tickets.into_iter().partition(|ticket| ticket % 2 == 0);
    let back = even.into_iter().rev().chain(odd);
    back.map(|ticket| counted(|| waiters.requeue(&mut queue, false, ticket)).1).collect()
}

#[test]
fn a_section_makes_no_more_steps_in_a_large_pool() {
    for run in [evictions, departures, back_offs, retries] {
        let [few, many] = most_steps(run);
        // A heap of 10,000 is ten levels higher than one of ten; each is at most two steps.
        assert!(many <= few + 20, "{few} steps with ten, {many} with ten thousand");
    }
}
