//! What a critical section leaves to be done after the lock is released: rule 1, no foreign code under
//! a lock. Each effect is contained.
//!
//! First who waits is woken, then the maintenance, or stopped, and only then is anything destroyed, told of or
//! dropped: for that may take its time, or hang. So a destruction that hangs keeps nobody from what has become
//! free, and holds up no refill (`maintenance.rs`).

use super::due::Duty;
use super::event::PoolEvent;
use super::factory::Form;
use super::pool::Inner;
use super::slot::{Content, Meta};
use crate::foreign::{Foreign, contained, release};
use crate::slab_list::Key;
use crate::wait_queue::Wake;
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
            let _ = contained(|| wake.wake());
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
                Effect::Release(waker) => release(waker),
                Effect::Tell(meta, event) => pool.tell(&meta, event),
            }
        }
    }
}

/// Keeps the user's metadata where it is dropped contained.
pub(crate) type Shared<T> = std::sync::Arc<Foreign<T>>;
