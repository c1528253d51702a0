//! What a critical section leaves to be done after the lock is released: rule 1, no foreign code under
//! a lock. Each effect is contained.
//!
//! First who waits is woken, then the maintenance, or stopped, and only then is anything destroyed, told of or
//! dropped: for that may take its time, or hang. So a destruction that hangs keeps nobody from what has become
//! free, and holds up no refill (`maintenance.rs`).

use super::duty::Duty;
use super::event::PoolEvent;
use super::factory::Form;
use super::pool::Inner;
use super::slot::{Content, Meta};
use crate::collections::slab_list::Key;
use crate::collections::wait_queue::Wake;
use crate::user_code::{contain, drop_contained};
use std::task::Waker;

/// A resource that has left.
pub(crate) struct Dead<F: Form> {
    /// Its place, which is given back once it has been destroyed; none if there is nothing to give back.
    pub(super) slot: Option<Key>,
    pub(super) content: Content<F>,
    pub(super) meta: Meta<F>,
}

pub(crate) enum Effect<F: Form> {
    Destroy(Dead<F>),
    /// A key is looked up no more.
    Forget(Meta<F>),
    Release(Waker),
    Tell(Meta<F>, PoolEvent<F::Error>),
}

/// What the maintenance is to be told.
enum News<F: Form> {
    /// Something of this key is due.
    Due(Duty, Meta<F>),
    /// Nothing may be due any more.
    Stop,
}

/// Who is to be woken, the first of whom needs no allocation, and what else there is to do.
pub(crate) struct Effects<F: Form> {
    wake: Option<Wake>,
    wakes: Vec<Wake>,
    maintenance: Vec<News<F>>,
    rest: Vec<Effect<F>>,
}

impl<F: Form> Effects<F> {
    #[inline]
    pub(super) fn new() -> Self {
        Effects { wake: None, wakes: Vec::new(), maintenance: Vec::new(), rest: Vec::new() }
    }
    pub(super) fn wake(&mut self, wake: Wake) {
        match self.wake {
            None => self.wake = Some(wake),
            Some(_) => self.wakes.push(wake),
        }
    }
    pub(super) fn wake_maintenance(&mut self, duty: Duty, meta: Meta<F>) {
        self.maintenance.push(News::Due(duty, meta));
    }
    pub(super) fn stop_maintenance(&mut self) {
        self.maintenance.push(News::Stop);
    }
    pub(super) fn push(&mut self, effect: Effect<F>) {
        self.rest.push(effect);
    }
    pub(super) fn release_waker(&mut self, waker: Option<Waker>) {
        self.rest.extend(waker.map(Effect::Release));
    }

    /// Carries everything out. The lock is not held. By reference, for a copy would be made before anybody has
    /// looked whether there is something. Nothing is left that has allocated: what is left is to be forgotten.
    #[inline]
    pub(super) fn run(&mut self, pool: &Inner<F>) {
        if self.wake.is_some() || self.rest.capacity() > 0 || self.maintenance.capacity() > 0 {
            self.run_all(pool);
        }
        debug_assert!(self.wakes.capacity() == 0, "nobody is the second to be woken");
    }

    #[cold]
    fn run_all(&mut self, pool: &Inner<F>) {
        for wake in self.wake.take().into_iter().chain(std::mem::take(&mut self.wakes)) {
            let _ = contain(|| wake.wake());
        }
        // A key may be dropped with it, which is foreign code: so it is kept until the end.
        let maintenance = std::mem::take(&mut self.maintenance);
        for news in &maintenance {
            match news {
                News::Due(duty, meta) => pool.wake_maintenance(*duty, meta),
                News::Stop => pool.stop_maintenance(),
            }
        }
        for effect in std::mem::take(&mut self.rest) {
            match effect {
                Effect::Destroy(dead) => pool.destroy(dead),
                Effect::Forget(meta) => drop(meta),
                Effect::Release(waker) => drop_contained(waker),
                Effect::Tell(meta, event) => pool.tell(&meta, event),
            }
        }
    }
}

#[cfg(all(test, not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::super::slot::Shared;
    use super::super::{ResourceFactory, ResourcePool};
    use super::*;
    use crate::user_code::UserValue;
    use std::sync::{Arc, Mutex};

    type Told = Arc<Mutex<Vec<&'static str>>>;

    fn told(told: &Told, what: &'static str) {
        told.lock().expect("nobody panics").push(what);
    }

    struct Metadata(Told, &'static str);
    impl Drop for Metadata {
        fn drop(&mut self) {
            told(&self.0, self.1);
        }
    }

    struct Made;
    impl ResourceFactory for Made {
        type Resource = ();
        type Metadata = Metadata;
        type Error = ();
        fn create(&self, _: &Metadata) -> Result<(), ()> {
            Ok(())
        }
    }

    /// To drop a key is foreign code, which may take its time, or hang.
    #[test]
    fn what_the_maintenance_is_told_of_is_dropped_last() {
        let all = Told::default();
        let pool = ResourcePool::builder(Made, Metadata(all.clone(), "the pool's"));
        let theirs = all.clone();
        let pool = pool.listener(move |_, _| told(&theirs, "told"));
        let pool = pool.maintenance(false).build().expect("valid");
        let meta = |name| Shared::new(UserValue::new(Metadata(all.clone(), name)));
        let mut fx = Effects::new();
        fx.push(Effect::Tell(meta("an event's"), PoolEvent::Invalid));
        fx.wake_maintenance(Duty::Sweep, meta("what is due"));
        fx.stop_maintenance();
        fx.run(pool.inner());
        let order = std::mem::take(&mut *all.lock().expect("nobody panics"));
        assert_eq!(order, ["told", "an event's", "what is due"]);
    }
}
