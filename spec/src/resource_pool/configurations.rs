//! The explored pools.

use crate::resource_pool::machine::{Config, May};
use crate::resource_pool::rules::Rules;
use crate::resource_pool::state::{Key, Limit, Limits, Options, WhenExhausted};

const FAIR: Options =
    Options { when_exhausted: WhenExhausted::Block, fair: true, fifo: false, races: 0 };
const BARGING: Options = Options { fair: false, races: 1, ..FAIR };
const BARGING_TWICE: Options = Options { races: 2, ..BARGING };
const FIFO: Options = Options { fifo: true, ..FAIR };
const FAIL: Options = Options { when_exhausted: WhenExhausted::Fail, ..FAIR };
const GROW: Options = Options { when_exhausted: WhenExhausted::Grow, ..FAIR };

const fn active(number: usize) -> Limits {
    Limits { max_active: Limit::at(number), ..Limits::NONE }
}
const fn total(number: usize) -> Limits {
    Limits { max_total: Limit::at(number), ..Limits::NONE }
}

impl Limits {
    const fn and_total(self, number: usize) -> Limits {
        Limits { max_total: Limit::at(number), ..self }
    }
    const fn per_key(self, number: usize) -> Limits {
        Limits { max_total_per_key: Limit::at(number), ..self }
    }
    const fn idle(self, min: usize, max: usize) -> Limits {
        Limits { min_idle: min, max_idle: Limit::at(max), ..self }
    }
}

/// Returns borrowers of the only key.
fn of_one(number: usize) -> Vec<Vec<Key>> {
    vec![vec![0]; number]
}
/// Returns borrowers of two keys: two of one key each, and one of both.
fn of_two() -> Vec<Vec<Key>> {
    vec![vec![0], vec![1], vec![0, 1]]
}

/// Returns four borrowers of two keys: three of one key each, and one of both.
fn of_four() -> Vec<Vec<Key>> {
    vec![vec![0], vec![0], vec![1], vec![0, 1]]
}

macro_rules! configurations {
    ($($name:literal $about:literal $keys:literal, $clients:expr, $options:expr, $limits:expr, $resize:expr, [$($may:ident)*];)*) => {
        /// Returns all pools.
        pub fn all() -> Vec<Config> {
            vec![$(Config {
                name: $name,
                about: $about,
                keys: $keys,
                clients: $clients,
                options: $options,
                limits: $limits,
                resize: $resize.to_vec(),
                may: vec![$(May::$may),*],
                rules: Rules::AS_MENDED,
            }),*]
        }
    };
}

configurations! {
    "rp-one" "max_total 1: idle resources fail, borrowers give up and die"
        1, of_one(3), FAIR, total(1), [], [ActivateFail Invalidate Die GiveUp];
    "rp-active" "max_active 2, no max_total: creations and idle resources fail, borrowers try and give up"
        1, of_one(4), FAIR, active(2), [], [CreateFail ActivateFail Try GiveUp];
    "rp-total" "max_total 2: resources are invalidated and detached, borrowers die and give up"
        1, of_one(4), FAIR, total(2), [], [FreshFail CreateFail ActivateFail Invalidate Detach Die GiveUp];
    "rp-fifo" "the oldest is lent first; resources outlive their lifetimes, and are added"
        1, of_one(3), FIFO, active(2).and_total(3), [], [ActivateFail Invalidate GiveUp Expire Add];
    "rp-fail" "max_active 1, max_total 2: borrowers are refused at the limit; resources are added"
        1, of_one(3), FAIL, active(1).and_total(2), [], [CreateFail ActivateFail Invalidate Add];
    "rp-grow" "max_active 1, but the pool grows to max_total 2, and then borrowers wait"
        1, of_one(4), GROW, active(1).and_total(2), [], [FreshFail CreateFail ActivateFail Invalidate GiveUp];
    "rp-barging" "newcomers may barge: max_active 1, max_total 2, creations fail, borrowers give up"
        1, of_one(4), BARGING, active(1).and_total(2), [], [FreshFail CreateFail ActivateFail Invalidate Detach GiveUp];
    "rp-barging-none" "newcomers may barge: max_total 1, max_idle 0, borrowers leave creations"
        1, of_one(4), BARGING_TWICE, active(1).and_total(1).idle(0, 0), [], [CreateFail ActivateFail Invalidate GiveUp Cancel];
    "rp-barging-all" "newcomers may barge: max_active 2, max_total 3, most other events"
        1, of_one(3), BARGING, active(2).and_total(3).idle(1, 2), [],
        [FreshFail CreateFail Invalidate GiveUp Cancel Add Test ClearAll Close];
    "rp-all" "the same, but newcomers queue behind the waiters"
        1, of_one(3), FAIR, active(2).and_total(3).idle(1, 2), [], [FreshFail CreateFail Invalidate GiveUp Cancel Add Test ClearAll Close];
    "rp-cancel" "borrowers leave creations, which end, and creations fail"
        1, of_one(4), FAIR, active(2).and_total(3), [], [CreateFail ActivateFail Cancel GiveUp];
    "rp-await" "borrowers that create take what comes back first; they leave creations, which end"
        1, of_one(3), FAIR, active(2).and_total(3), [], [CreateFail Invalidate Cancel GiveUp Await];
    "rp-await-leave" "the same in max_total 2, and their creations go on"
        1, of_one(3), FAIR, active(2).and_total(2), [], [GiveUp Leave Await Close];
    "rp-await-barging" "the same, and newcomers may barge"
        1, of_one(3), BARGING, active(2).and_total(2), [], [GiveUp Leave Await];
    "rp-gives-way" "max_total 2: orphaned creations give way to waiters"
        1, of_one(3), FAIR, total(2), [], [GiveUp Leave ClearAll];
    "rp-served-stays" "max_total 3: creations whose borrowers were served beside those that give way"
        1, of_one(4), FAIR, total(3), [], [GiveUp Leave Await];
    "rp-overdue" "max_total 2: orphaned creations become overdue, and all give way to waiters"
        1, of_one(3), FAIR, total(2), [], [GiveUp Leave Overdue];
    "rp-overdue-served" "the same, and creations whose borrowers were served"
        1, of_one(3), FAIR, total(2), [], [GiveUp Leave Await Overdue Close];
    "rp-overdue-refill" "min_idle 1, max_total 1: a refill becomes overdue, and gives way to waiters"
        1, of_one(3), FAIR, total(1).idle(1, 1), [], [CreateFail GiveUp Leave Add Overdue Close];
    "rp-minimum" "min_idle 1, max_idle 2: idle resources become due, are refilled, added, and fail"
        1, of_one(3), FAIR, active(2).and_total(3).idle(1, 2), [], [FreshFail CreateFail ActivateFail Invalidate GiveUp Add Age AgeHard];
    "rp-left" "min_idle 1, max_total 1: borrowers and additions leave creations, and creations fail"
        1, of_one(3), FAIR, total(1).idle(1, 1), [], [CreateFail GiveUp Leave Add];
    "rp-outlived" "idle resources expire before their eviction"
        1, of_one(3), FAIR, active(2).and_total(2).idle(0, 2), [], [ActivateFail GiveUp Add Outlive];
    "rp-clear" "the pool is cleared and closed while others borrow, wait and add"
        1, of_one(4), FAIR, active(2).and_total(2), [], [CreateFail Add GiveUp Clear ClearAll Close];
    "rp-test" "idle resources are tested while others borrow, clear and close"
        1, of_one(3), FAIR, active(2).and_total(3), [], [ActivateFail GiveUp Test Clear ClearAll Close];
    "rp-resize" "every limit is raised and lowered"
        1, of_one(3), FAIR, active(2).and_total(2).idle(0, 2),
        [active(1).and_total(3).idle(0, 1), active(2).and_total(1).idle(0, 1)], [Invalidate GiveUp Add Test];
    "rp-keyed-one" "2 keys share max_total 1: idle resources are evicted for the other key"
        2, of_two(), FAIR, total(1), [], [FreshFail CreateFail ActivateFail Invalidate Detach Die GiveUp Cancel Clear ClearAll Close];
    "rp-keyed-two" "2 keys share max_total 2, max_active 1: a full key blocks no other"
        2, of_four(), FAIR, active(1).and_total(2), [], [FreshFail CreateFail ActivateFail Invalidate GiveUp];
    "rp-keyed-per-key" "2 keys share max_total 2, each with at most 1; resources are added"
        2, of_four(), FAIR, total(2).per_key(1), [], [ActivateFail Invalidate GiveUp Add];
    "rp-keyed-grow" "2 keys share max_total 2, each with at most 1, and grow"
        2, of_two(), GROW, active(1).and_total(3).per_key(2), [], [CreateFail Invalidate GiveUp Cancel];
    "rp-keyed-barging" "2 keys share max_total 2, each with at most 1; newcomers may barge"
        2, of_four(), BARGING, total(2).per_key(1), [], [CreateFail Invalidate GiveUp];
    "rp-keyed-cancel" "2 keys share max_total 2: borrowers leave creations, the pool is cleared and closed"
        2, of_two(), FAIR, active(1).and_total(2), [], [CreateFail ActivateFail Cancel GiveUp ClearAll Close];
    "rp-keyed-await" "2 keys share max_total 2, each with at most 2: borrowers that create take what comes back first, and orphaned creations give way"
        2, of_two(), FAIR, total(2).per_key(2), [], [GiveUp Leave Await];
    "rp-keyed-test" "2 keys share max_total 2: idle resources are tested, become due, and are refilled"
        2, of_two(), FAIR, total(2).idle(1, 2), [], [GiveUp Invalidate Test Age];
    "rp-keyed-outlived" "2 keys share max_total 2, each with at most 1: idle resources expire before their eviction"
        2, of_four(), FAIR, total(2).per_key(1), [], [GiveUp Add Outlive];
    "rp-barging-outlived" "the same, and newcomers may barge"
        2, of_two(), BARGING, total(2).per_key(1), [], [GiveUp Add Outlive];
    "rp-keyed-resize" "2 keys share max_total 2, which is lowered to 1; so is max_total_per_key"
        2, of_two(), FAIR, total(2).per_key(2), [total(1).per_key(1), total(2).per_key(1)], [Invalidate GiveUp Add];
    "rp-keyed-all" "2 keys share max_total 2, max_active 1, most other events"
        2, of_two(), FAIR, active(1).and_total(2), [],
        [FreshFail CreateFail ActivateFail Invalidate GiveUp Cancel Add Test ClearAll Close];
    "rp-three-keys" "3 keys share max_total 2: the least recently used resource is evicted"
        3, vec![vec![0], vec![1], vec![2], vec![0, 1, 2]], FAIR, active(1).and_total(2), [], [Invalidate GiveUp];
    "rp-three-keys-one-each" "3 keys share max_total 2, each with at most 1: an eviction victim counts until its destruction"
        3, vec![vec![0], vec![1], vec![0, 2]], FAIR, total(2).per_key(1), [], [CreateFail Invalidate GiveUp Add Clear Close];
    "rp-three-keys-barging" "the same, and newcomers may barge"
        3, vec![vec![0], vec![1], vec![0, 2]], BARGING, total(2).per_key(1), [], [CreateFail Invalidate GiveUp];
}

/// Returns the pool of this name.
pub fn named(name: &str) -> Option<Config> {
    all().into_iter().find(|config| config.name == name)
}
