//! A borrower looks up a key that calls the pool back, while the pool forgets another key of the same hash.
//!
//! Guards that keys are hashed, compared and cloned outside the lock (`Inner::search`, `Search::find_next`,
//! `Inner::with_key`). Guards too that they are dropped outside it (`Effect::Forget`). Otherwise a key that
//! re-enters the pool deadlocks. The keys of `rig.rs` do not re-enter the pool: they assert that no lock is held.
//!
//! Asserted: the borrower gets a resource of its own key, whether or not the lookup compared it with the other key.
//! The other key is forgotten.

use crate::models::resource_pool::rig::*;
use crate::models::rig::Reentry;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A key that re-enters the pool. All keys have the same hash.
struct Caller {
    name: &'static str,
    reentry: Reentry,
    comparisons: Arc<AtomicUsize>,
}

impl PartialEq for Caller {
    fn eq(&self, other: &Self) -> bool {
        self.comparisons.fetch_add(1, Ordering::SeqCst);
        self.reentry.enter();
        self.name == other.name
    }
}

impl Eq for Caller {}

impl Hash for Caller {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.reentry.enter();
        state.write_u8(0);
    }
}

impl Clone for Caller {
    fn clone(&self) -> Self {
        self.reentry.enter();
        let Caller { name, reentry, comparisons } = self;
        Caller { name, reentry: reentry.clone(), comparisons: comparisons.clone() }
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.reentry.enter();
    }
}

/// Creates a resource that is the name of its key.
struct Maker;

impl ResourceFactory for Maker {
    type Resource = &'static str;
    type Metadata = Caller;
    type Error = &'static str;

    fn create(&self, of: &Caller) -> Result<&'static str, &'static str> {
        Ok(of.name)
    }
    fn destroy(&self, of: &Caller, name: &'static str) {
        assert_eq!(of.name, name, "destroyed as another key's");
    }
}

#[test]
fn resource_calling_key_x_forgotten() {
    let expected = ["compared", "not compared"];
    explore(Model("resource_calling_key_x_forgotten", 351), &expected, |outcomes| {
        let reentry = Reentry::default();
        let comparisons: Arc<AtomicUsize> = Arc::default();
        let [x, y] = ["x", "y"].map(|name| {
            let (reentry, comparisons) = (reentry.clone(), comparisons.clone());
            Caller { name, reentry, comparisons }
        });
        let clock = crate::ManualClock::new();
        let builder = KeyedResourcePool::<Caller, Maker>::builder(Maker).clock(clock.clock());
        let pool = builder.maintenance(false).build().expect("a valid pool");
        let weak = pool.downgrade();
        reentry.enable(move || {
            if let Some(pool) = weak.upgrade() {
                pool.num_keys();
            }
        });
        let neighbour = Borrowed::into_owned(pool.borrow(&x).expect("a resource"));
        comparisons.store(0, Ordering::SeqCst);
        let leaving = spawn(move || Borrowed::invalidate(neighbour));
        assert_eq!(*pool.borrow(&y).expect("a resource"), "y", "lent a resource of another key");
        let compared = comparisons.load(Ordering::SeqCst);
        leaving.join().expect("no panic");
        outcomes.note(match compared {
            0 => "not compared",
            1 => "compared",
            more => panic!("compared {more} times with one key"),
        });
        assert_eq!((pool.num_keys(), pool.num_idle()), (1, 1));
        pool.close();
        assert!(pool.wait_closed(SECOND), "nothing is left of a closed pool");
    });
}
