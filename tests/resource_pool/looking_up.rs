//! Looking up a key while the key's own code changes the table.

use crate::common::locked;
use crate::shared::{end_the_run_when_the_library_panics, soon};
use cabrank::resource_pool::{Borrowed, KeyedResourcePool, ResourceFactory};
use std::convert::Infallible;
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

/// A key that acts when it is compared and when it is cloned. Its hash is its first letter.
struct Busy(&'static str, Arc<Doing>);

#[derive(Default)]
struct Doing {
    act: Mutex<Option<Box<dyn FnMut() + Send>>>,
    /// Runs once, during a creation.
    creates: Mutex<Option<Box<dyn FnMut() + Send>>>,
    compared: AtomicUsize,
    cloned: AtomicUsize,
}

impl Doing {
    /// Acts, unless an act is under way.
    fn act(&self) {
        let act = locked(&self.act).take();
        if let Some(mut act) = act {
            act();
            *locked(&self.act) = Some(act);
        }
    }
    fn on_each(&self, act: impl FnMut() + Send + 'static) {
        *locked(&self.act) = Some(Box::new(act));
    }
    fn stop(&self) {
        *locked(&self.act) = None;
    }
    /// Returns how often it was compared and cloned while it acted.
    fn counts(&self) -> (usize, usize) {
        (self.compared.load(SeqCst), self.cloned.load(SeqCst))
    }
    fn count(&self, what: &AtomicUsize) {
        // Skips look-ups by the act itself.
        if locked(&self.act).is_some() {
            what.fetch_add(1, SeqCst);
        }
    }
}

impl Hash for Busy {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.as_bytes()[0].hash(state);
    }
}
impl Eq for Busy {}
impl PartialEq for Busy {
    fn eq(&self, other: &Busy) -> bool {
        self.1.count(&self.1.compared);
        self.1.act();
        self.0 == other.0
    }
}
impl Clone for Busy {
    fn clone(&self) -> Busy {
        self.1.count(&self.1.cloned);
        self.1.act();
        Busy(self.0, self.1.clone())
    }
}

struct OfBusy;
impl ResourceFactory for OfBusy {
    type Resource = &'static str;
    type Metadata = Busy;
    type Error = Infallible;
    fn create(&self, key: &Busy) -> Result<&'static str, Infallible> {
        let creates = locked(&key.1.creates).take();
        if let Some(mut creates) = creates {
            creates();
        }
        Ok(key.0)
    }
}

type Pool = KeyedResourcePool<Busy, OfBusy>;

fn pool() -> (Pool, Arc<Doing>) {
    end_the_run_when_the_library_panics();
    let pool = KeyedResourcePool::builder(OfBusy).max_idle(0).build().expect("a valid pool");
    (pool, Arc::default())
}

/// At each comparison and clone of this key, other keys come and go, of its hash and of another. The
/// key is cloned once, and compared once with each other key of its hash.
#[test]
fn a_look_up_does_not_begin_again_when_other_keys_change() {
    for others in [["b1", "b2"], ["a1", "a2"]] {
        let (pool, doing) = pool();
        let stays = Borrowed::into_owned(pool.borrow(&Busy("a3", doing.clone())).expect("room"));
        let (theirs, their_doing) = (pool.clone(), doing.clone());
        doing.on_each(move || {
            for other in others {
                drop(theirs.borrow(&Busy(other, their_doing.clone())).expect("room"));
            }
        });
        let (looks, key) = (pool.clone(), Busy("a4", doing.clone()));
        let found = soon(move || *looks.borrow(&key).expect("room"));
        assert_eq!((found, doing.counts()), ("a4", (1, 1)), "others: {others:?}");
        doing.stop();
        drop(stays);
        assert_eq!(pool.num_keys(), 0);
    }
}

/// The compared key loses its last resource meanwhile: it stays in the table, and is found.
#[test]
fn a_key_that_is_compared_is_not_forgotten() {
    let (pool, doing) = pool();
    let mut lent =
        Some(Borrowed::into_owned(pool.borrow(&Busy("a", doing.clone())).expect("room")));
    let theirs = pool.clone();
    doing.on_each(move || {
        drop(lent.take());
        assert_eq!((theirs.num_total(), theirs.num_keys()), (0, 1));
    });
    let again = pool.borrow(&Busy("a", doing.clone())).expect("room");
    assert_eq!((*again, doing.counts(), pool.num_keys()), ("a", (1, 0), 1));
    doing.stop();
    drop(again);
    assert_eq!(pool.num_keys(), 0);
    assert_eq!(pool.num_active_of(&Busy("a", doing)), 0);
}

/// A look-up that panics releases its pin.
#[test]
fn a_look_up_that_panics_lets_go() {
    let (pool, doing) = pool();
    let lent = Borrowed::into_owned(pool.borrow(&Busy("a1", doing.clone())).expect("room"));
    for other in ["a1", "a2"] {
        doing.on_each(|| resume_unwind(Box::new("on purpose")));
        let looks = || drop(pool.borrow(&Busy(other, doing.clone())));
        assert!(catch_unwind(AssertUnwindSafe(looks)).is_err());
    }
    drop(lent);
    assert_eq!((pool.num_total(), pool.num_keys()), (0, 0));
}

/// A look-up holds a key whose last resource goes meanwhile. The key begins again: it has no minimum before another one
/// of its resources was created.
#[test]
fn a_held_key_begins_again() {
    end_the_run_when_the_library_panics();
    let doing = Arc::new(Doing::default());
    let pool = KeyedResourcePool::builder(OfBusy).min_idle(1).maintenance(false);
    let pool = pool.build().expect("valid");
    let first = pool.borrow(&Busy("key", doing.clone())).map(Borrowed::into_owned);
    let mut first = Some(first.expect("one"));
    doing.on_each(move || first.take().map(Borrowed::invalidate).unwrap_or_default());
    let (theirs, totals) = (pool.clone(), Arc::new(Mutex::new(vec![])));
    let seen = totals.clone();
    *locked(&doing.creates) = Some(Box::new(move || {
        theirs.maintain();
        locked(&seen).push(theirs.num_total());
    }));
    let next = pool.borrow(&Busy("key", doing.clone())).expect("another");
    doing.stop();
    assert_eq!(*locked(&totals), [1], "the one that is being created");
    drop(next);
}
