//! The explored pools. The figures beside the name are the pinned numbers of states and steps, and the depth.

use crate::checking::system::{self, Named};
use crate::resource_pool::machine::{Config, May};
use crate::resource_pool::rules::Rules;
use crate::resource_pool::state::{Key, Limit, Limits, Options, WhenExhausted};

const FAIR: Options = Options {
    when_exhausted: WhenExhausted::Block,
    fair: true,
    fifo: false,
    races: 0,
    creates: false,
    max_creating: Limit::NONE,
};
const BARGING: Options = Options { fair: false, races: 1, ..FAIR };
const BARGING_TWICE: Options = Options { races: 2, ..BARGING };
const FIFO: Options = Options { fifo: true, ..FAIR };
const FAIL: Options = Options { when_exhausted: WhenExhausted::Fail, ..FAIR };
/// The pool creates, not its borrowers.
const ORDERS: Options = Options { creates: true, ..FAIR };
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
    ($($name:literal [$states:literal, $steps:literal, $depth:literal] $about:literal $keys:literal,
       $clients:expr, $options:expr, $limits:expr, $resize:expr, [$($may:ident)*];)*) => {
        /// Returns all pools.
        pub fn all() -> Vec<Named<Config>> {
            vec![$(Named {
                name: $name,
                about: $about.into(),
                machine: Config {
                    about: $about,
                    keys: $keys,
                    clients: $clients,
                    options: $options,
                    limits: $limits,
                    resize: $resize.to_vec(),
                    may: vec![$(May::$may),*],
                    rules: Rules::AS_MENDED,
                },
                pinned: ($states, $steps, $depth),
                ends: &[],
            }),*]
        }
    };
}

configurations! {
    "rp-one" [108, 415, 8] "max_total 1: idle resources fail, borrowers give up and die"
        1, of_one(3), FAIR, total(1), [], [ActivateFail Invalidate Die GiveUp];
    "rp-active" [1131, 7016, 12] "max_active 2, no max_total: creations and idle resources fail, borrowers try and give up"
        1, of_one(4), FAIR, active(2), [], [CreateFail ActivateFail Try GiveUp];
    "rp-total" [1582, 10_300, 12] "max_total 2: resources are invalidated and detached, borrowers die and give up"
        1, of_one(4), FAIR, total(2), [], [FreshFail CreateFail ActivateFail Invalidate Detach Die GiveUp];
    "rp-fifo" [1718, 9466, 15] "the oldest is lent first; resources outlive their lifetimes, and are added"
        1, of_one(3), FIFO, active(2).and_total(3), [], [ActivateFail Invalidate GiveUp Expire Add];
    "rp-fail" [58, 277, 8] "max_active 1, max_total 2: borrowers are refused at the limit; resources are added"
        1, of_one(3), FAIL, active(1).and_total(2), [], [CreateFail ActivateFail Invalidate Add];
    "rp-grow" [1582, 9436, 12] "max_active 1, but the pool grows to max_total 2, and then borrowers wait"
        1, of_one(4), GROW, active(1).and_total(2), [], [FreshFail CreateFail ActivateFail Invalidate GiveUp];
    "rp-barging" [3501, 20_956, 12] "newcomers may barge: max_active 1, max_total 2, creations fail, borrowers give up"
        1, of_one(4), BARGING, active(1).and_total(2), [], [FreshFail CreateFail ActivateFail Invalidate Detach GiveUp];
    "rp-barging-none" [4562, 25_801, 14] "newcomers may barge: max_total 1, max_idle 0, borrowers leave creations"
        1, of_one(4), BARGING_TWICE, active(1).and_total(1).idle(0, 0), [], [CreateFail ActivateFail Invalidate GiveUp Cancel];
    "rp-barging-all" [63_333, 608_513, 21] "newcomers may barge: max_active 2, max_total 3, most other events"
        1, of_one(3), BARGING, active(2).and_total(3).idle(1, 2), [],
        [FreshFail CreateFail Invalidate GiveUp Cancel Add Test ClearAll Close];
    "rp-all" [21_844, 193_646, 18] "the same, but newcomers queue behind the waiters"
        1, of_one(3), FAIR, active(2).and_total(3).idle(1, 2), [], [FreshFail CreateFail Invalidate GiveUp Cancel Add Test ClearAll Close];
    "rp-cancel" [2713, 18_550, 15] "borrowers leave creations, which end, and creations fail"
        1, of_one(4), FAIR, active(2).and_total(3), [], [CreateFail ActivateFail Cancel GiveUp];
    "rp-orders" [7168, 51_391, 16] "the pool creates: max_active 2, max_total 3; creations, idle and new resources fail, borrowers give up"
        1, of_one(4), ORDERS, active(2).and_total(3), [], [CreateFail ActivateFail FreshFail GiveUp];
    "rp-orders-try" [113, 766, 10] "the pool creates: max_active 1, max_total 2; borrowers try, are refused at the limit, and resources are added"
        1, of_one(3), Options { when_exhausted: WhenExhausted::Fail, ..ORDERS }, active(1).and_total(2), [], [CreateFail Invalidate Try Add];
    "rp-orders-all" [27_582, 235_437, 14] "the pool creates: most other events"
        1, of_one(3), ORDERS, active(2).and_total(3).idle(1, 2), [], [FreshFail CreateFail Invalidate GiveUp Add Outlive ClearAll Close];
    "rp-orders-slow" [191, 702, 8] "the pool creates in one place, and each creation is overdue before it ends"
        1, of_one(3), ORDERS, total(1), [], [Overdue Slow GiveUp];
    "rp-orders-hang" [4561, 28_163, 13] "the pool creates: max_total 2, creations may hang, become overdue, and end by their limit"
        1, of_one(3), ORDERS, total(2), [], [Overdue Hang GiveUp ClearAll];
    "rp-orders-hang-active" [5405, 44_481, 13] "the same in max_active 2 without max_total, and creations fail"
        1, of_one(3), ORDERS, active(2), [], [Overdue Hang CreateFail GiveUp Close];
    "rp-orders-grow" [2913, 16_650, 15] "the pool creates and grows beyond max_active 1 to max_total 2"
        1, of_one(3), Options { when_exhausted: WhenExhausted::Grow, ..ORDERS }, active(1).and_total(2), [], [Overdue Hang Invalidate GiveUp];
    "rp-orders-barging" [29_816, 211_203, 17] "the pool creates, and newcomers may barge: idle and new resources fail"
        1, of_one(4), Options { fair: false, races: 1, ..ORDERS }, active(2).and_total(2), [], [CreateFail ActivateFail FreshFail GiveUp];
    "rp-orders-minimum" [12_561, 96_384, 18] "the pool creates: min_idle 1, max_idle 2; refills hang and become overdue"
        1, of_one(3), ORDERS, active(2).and_total(3).idle(1, 2), [], [CreateFail Overdue Hang GiveUp];
    "rp-orders-runtime" [2173, 14_113, 13] "the pool creates until its runtime ends, and again when it is back"
        1, of_one(3), ORDERS, active(2).and_total(2), [], [CreateFail ActivateFail GiveUp Cancel RuntimeEnds];
    "rp-orders-resize" [2826, 16_159, 17] "the pool creates while limits are raised and lowered"
        1, of_one(3), ORDERS, active(2).and_total(2).idle(0, 2),
        [active(1).and_total(3).idle(0, 1), active(2).and_total(1).idle(0, 1)], [Invalidate GiveUp];
    "rp-orders-keyed" [29_188, 191_255, 14] "the pool creates: 2 keys share max_total 2, idle resources are evicted for the other key"
        2, of_four(), ORDERS, total(2), [], [CreateFail Invalidate GiveUp];
    "rp-orders-keyed-one" [844, 5151, 9] "the pool creates: 2 keys share max_total 1; the pool is cleared and closed"
        2, of_two(), ORDERS, total(1), [], [FreshFail CreateFail ActivateFail Invalidate GiveUp ClearAll Close];
    "rp-orders-keyed-hang" [6793, 41_056, 15] "the pool creates: 2 keys share max_total 2, each with at most 1, and creations may hang"
        2, of_two(), ORDERS, total(2).per_key(1), [], [Overdue Hang GiveUp];
    "rp-orders-keyed-few" [30_484, 207_046, 15] "the pool creates one resource at a time for 2 keys"
        2, of_two(), Options { max_creating: Limit::at(1), ..ORDERS }, total(3), [], [CreateFail Overdue GiveUp];
    "rp-orders-keyed-runtime" [902, 4822, 10] "the pool creates for 2 keys until its runtime ends"
        2, of_two(), ORDERS, total(1), [], [GiveUp RuntimeEnds Close];
    "rp-orders-three-keys" [17_065, 99_614, 27] "the pool creates: 3 keys share max_total 2, each with at most 1; and newcomers may barge"
        3, vec![vec![0], vec![1], vec![0, 2]], Options { fair: false, races: 1, ..ORDERS }, total(2).per_key(1), [], [CreateFail Invalidate GiveUp];
    "rp-minimum" [2157, 14_458, 12] "min_idle 1, max_idle 2: idle resources become due, are refilled, added, and fail"
        1, of_one(3), FAIR, active(2).and_total(3).idle(1, 2), [], [FreshFail CreateFail ActivateFail Invalidate GiveUp Add Age AgeHard];
    "rp-outlived" [898, 4195, 15] "idle resources expire before their eviction"
        1, of_one(3), FAIR, active(2).and_total(2).idle(0, 2), [], [ActivateFail GiveUp Add Outlive];
    "rp-clear" [10_311, 74_033, 13] "the pool is cleared and closed while others borrow, wait and add"
        1, of_one(4), FAIR, active(2).and_total(2), [], [CreateFail Add GiveUp Clear ClearAll Close];
    "rp-test" [8749, 67_429, 25] "idle resources are tested while others borrow, clear and close"
        1, of_one(3), FAIR, active(2).and_total(3), [], [ActivateFail GiveUp Test Clear ClearAll Close];
    "rp-resize" [5030, 32_356, 18] "every limit is raised and lowered"
        1, of_one(3), FAIR, active(2).and_total(2).idle(0, 2),
        [active(1).and_total(3).idle(0, 1), active(2).and_total(1).idle(0, 1)], [Invalidate GiveUp Add Test];
    "rp-keyed-one" [622, 3985, 10] "2 keys share max_total 1: idle resources are evicted for the other key"
        2, of_two(), FAIR, total(1), [], [FreshFail CreateFail ActivateFail Invalidate Detach Die GiveUp Cancel Clear ClearAll Close];
    "rp-keyed-two" [4441, 26_223, 18] "2 keys share max_total 2, max_active 1: a full key blocks no other"
        2, of_four(), FAIR, active(1).and_total(2), [], [FreshFail CreateFail ActivateFail Invalidate GiveUp];
    "rp-keyed-per-key" [3245, 18_517, 14] "2 keys share max_total 2, each with at most 1; resources are added"
        2, of_four(), FAIR, total(2).per_key(1), [], [ActivateFail Invalidate GiveUp Add];
    "rp-keyed-grow" [3332, 19_366, 21] "2 keys share max_total 2, each with at most 1, and grow"
        2, of_two(), GROW, active(1).and_total(3).per_key(2), [], [CreateFail Invalidate GiveUp Cancel];
    "rp-keyed-barging" [15_292, 91_650, 21] "2 keys share max_total 2, each with at most 1; newcomers may barge"
        2, of_four(), BARGING, total(2).per_key(1), [], [CreateFail Invalidate GiveUp];
    "rp-keyed-cancel" [4339, 29_239, 21] "2 keys share max_total 2: borrowers leave creations, the pool is cleared and closed"
        2, of_two(), FAIR, active(1).and_total(2), [], [CreateFail ActivateFail Cancel GiveUp ClearAll Close];
    "rp-keyed-test" [5822, 30_392, 23] "2 keys share max_total 2: idle resources are tested, become due, and are refilled"
        2, of_two(), FAIR, total(2).idle(1, 2), [], [GiveUp Invalidate Test Age];
    "rp-keyed-outlived" [5653, 32_243, 16] "2 keys share max_total 2, each with at most 1: idle resources expire before their eviction"
        2, of_four(), FAIR, total(2).per_key(1), [], [GiveUp Add Outlive];
    "rp-barging-outlived" [7024, 38_208, 21] "the same, and newcomers may barge"
        2, of_two(), BARGING, total(2).per_key(1), [], [GiveUp Add Outlive];
    "rp-keyed-resize" [6124, 35_476, 14] "2 keys share max_total 2, which is lowered to 1; so is max_total_per_key"
        2, of_two(), FAIR, total(2).per_key(2), [total(1).per_key(1), total(2).per_key(1)], [Invalidate GiveUp Add];
    "rp-keyed-all" [10_641, 83_273, 13] "2 keys share max_total 2, max_active 1, most other events"
        2, of_two(), FAIR, active(1).and_total(2), [],
        [FreshFail CreateFail ActivateFail Invalidate GiveUp Cancel Add Test ClearAll Close];
    "rp-three-keys" [12_967, 70_908, 19] "3 keys share max_total 2: the least recently used resource is evicted"
        3, vec![vec![0], vec![1], vec![2], vec![0, 1, 2]], FAIR, active(1).and_total(2), [], [Invalidate GiveUp];
    "rp-three-keys-one-each" [2663, 16_480, 8] "3 keys share max_total 2, each with at most 1: an eviction victim counts until its destruction"
        3, vec![vec![0], vec![1], vec![0, 2]], FAIR, total(2).per_key(1), [], [CreateFail Invalidate GiveUp Add Clear Close];
    "rp-three-keys-barging" [3648, 17_409, 30] "the same, and newcomers may barge"
        3, vec![vec![0], vec![1], vec![0, 2]], BARGING, total(2).per_key(1), [], [CreateFail Invalidate GiveUp];
}

/// Returns the pool of this name.
pub fn named(name: &str) -> Option<Config> {
    system::named(all(), name).map(|named| named.machine)
}
