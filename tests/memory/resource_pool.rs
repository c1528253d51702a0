//! The memory of a pool of resources with keys, after many keys have come and gone.

use crate::{ALONE, bytes};
use cabrank::ManualClock;
use cabrank::resource_pool::{KeyedResourcePool, ResourceFactory};
use std::sync::PoisonError;
use std::time::Duration;

struct Made;
impl ResourceFactory for Made {
    type Resource = u64;
    type Metadata = u64;
    type Error = std::convert::Infallible;
    fn create(&self, key: &u64) -> Result<u64, std::convert::Infallible> {
        Ok(*key)
    }
}

/// With debug assertions each section looks at all keys.
const MANY: u64 = if cfg!(debug_assertions) { 600 } else { 20_000 };

/// Returns the bytes before and after many keys, each with a lent resource that becomes idle and expires. So many keys stay.
fn around(stay: u64) -> (usize, usize) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let clock = ManualClock::new();
    let pool = KeyedResourcePool::<u64, Made>::builder(Made);
    let pool = pool.clock(clock.clock()).maintenance(false).max_idle_time(Duration::from_secs(9));
    let pool = pool.max_active(usize::MAX).max_total(usize::MAX).build().expect("valid");
    let round = |keys| {
        let all: Vec<_> = (0..keys).map(|key| pool.borrow(&key).expect("there is room")).collect();
        drop(all);
        clock.advance(Duration::from_secs(8));
        (0..stay).for_each(|key| drop(pool.borrow(&key).expect("it is idle")));
        clock.advance(Duration::from_secs(1));
        pool.maintain();
        assert_eq!(pool.num_keys(), usize::try_from(stay).expect("a few"));
    };
    round(100);
    let before = bytes();
    round(MANY);
    (before, bytes())
}

#[test]
fn keys_that_have_gone_leave_no_memory() {
    for stay in [0, 9] {
        let (before, after) = around(stay);
        let more = after.saturating_sub(before);
        assert!(more < 200_000, "{more} bytes of {MANY} keys are left beside {stay} that stay");
    }
}
