//! What is lent: it comes back when it is dropped.

use super::factory::Form;
use super::pool::Inner;
use super::slot::{Content, Meta};
use crate::slab_list::Key;
use crate::sync::has_failed;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// The pool that lent it: a reference is enough for most, and costs nothing.
enum Home<'p, F: Form> {
    At(&'p Arc<Inner<F>>),
    Owned(Arc<Inner<F>>),
}

impl<F: Form> Home<'_, F> {
    #[inline]
    fn pool(&self) -> &Arc<Inner<F>> {
        match self {
            Home::At(pool) => pool,
            Home::Owned(pool) => pool,
        }
    }
}

/// A resource and its place.
pub(crate) struct Loan<F: Form> {
    pub(super) slot: Key,
    pub(super) resource: F::Resource,
    pub(super) meta: Meta<F>,
}

/// A resource that is lent: derefs to it. Dropping it returns the resource to the pool; while a panic
/// unwinds, the resource is destroyed instead, for nobody knows in what state it is (ruling 8).
///
/// The drop takes the pool's lock, for one section that ends with the hand-over to whoever waits; what the
/// factory has to do with the resource it does on the thread that drops it. It never panics, and
/// never waits for anybody but those who are in such a section.
#[must_use = "dropping it returns the resource"]
pub struct Borrowed<'p, F: Form> {
    home: Home<'p, F>,
    /// Absent once it has been given back.
    loan: Option<Loan<F>>,
}

impl<'p, F: Form> Borrowed<'p, F> {
    #[inline]
    pub(super) fn new(pool: &'p Arc<Inner<F>>, loan: Loan<F>) -> Self {
        Borrowed { home: Home::At(pool), loan: Some(loan) }
    }

    /// The same, for a thread or a task that may outlive this reference to the pool. A pool whose last
    /// handle is dropped is closed even so: what comes back then is destroyed.
    pub fn into_owned(mut self) -> Borrowed<'static, F> {
        let pool = self.home.pool().clone();
        Borrowed { home: Home::Owned(pool), loan: self.loan.take() }
    }

    /// The resource is not to be used again: it is destroyed, and its place is free.
    pub fn invalidate(mut self) {
        if let Some(loan) = self.loan.take() {
            self.home.pool().invalidate(loan);
        }
    }

    /// Takes the resource out of the pool for good: its place is free, and it is not destroyed.
    pub fn detach(mut self) -> F::Resource {
        let Loan { slot, resource, meta } =
            self.loan.take().expect("present until it is given back");
        // If what follows panics, the resource is dropped: it is the caller's.
        self.home.pool().critical(|state, fx| state.give_back_place(slot, fx));
        drop(meta);
        resource
    }

    /// Returns the resource, and awaits what there is to be done with it: its test, if there is to be
    /// one, and its passivation. Without this, that is left to its next borrower if the factory is an
    /// asynchronous one.
    ///
    /// # Cancel safety
    /// If it is dropped at an await, the resource is destroyed.
    pub async fn put_back(mut self) {
        if let Some(loan) = self.loan.take() {
            let pool = self.home.pool();
            pool.put_back(loan).await;
        }
    }

    pub(super) fn into_loan(mut self) -> Loan<F> {
        self.loan.take().expect("present until it is given back")
    }
    fn loan(&self) -> &Loan<F> {
        self.loan.as_ref().expect("present until it is given back")
    }
}

impl<F: Form> Drop for Borrowed<'_, F> {
    #[inline]
    fn drop(&mut self) {
        // Taken apart at once: copied as a whole, it would be read as it was not written.
        let Some(Loan { slot, resource, meta }) = self.loan.take() else { return };
        if has_failed() {
            return;
        }
        match std::thread::panicking() {
            false => self.home.pool().give_back(slot, resource, meta),
            true => self.home.pool().invalidate(Loan { slot, resource, meta }),
        }
    }
}

impl<F: Form> Deref for Borrowed<'_, F> {
    type Target = F::Resource;
    #[inline]
    fn deref(&self) -> &F::Resource {
        &self.loan().resource
    }
}

impl<F: Form> DerefMut for Borrowed<'_, F> {
    #[inline]
    fn deref_mut(&mut self) -> &mut F::Resource {
        &mut self.loan.as_mut().expect("present until it is given back").resource
    }
}

impl<F: Form> fmt::Debug for Borrowed<'_, F>
where
    F::Resource: fmt::Debug,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Borrowed").field(&self.loan().resource).finish()
    }
}

/// A place that is reserved for a resource that is being made, tested or activated. Given back when it is
/// dropped, on whatever path: an error, a panic or a cancelled future (rule 5).
pub(crate) struct Reserved<'p, F: Form> {
    pool: &'p Arc<Inner<F>>,
    slot: Option<Key>,
    /// What is there already: destroyed with the reservation, for it is half activated at best.
    resource: Option<F::Resource>,
    pub(super) meta: Meta<F>,
}

impl<'p, F: Form> Reserved<'p, F> {
    #[inline]
    pub(super) fn new(
        pool: &'p Arc<Inner<F>>,
        slot: Key,
        resource: Option<F::Resource>,
        meta: Meta<F>,
    ) -> Self {
        Reserved { pool, slot: Some(slot), resource, meta }
    }
    pub(super) fn pool(&self) -> &'p Arc<Inner<F>> {
        self.pool
    }
    #[inline]
    pub(super) fn parts(&mut self) -> (&F::Metadata, &mut F::Resource) {
        let resource = self.resource.as_mut().expect("it has been made");
        (self.pool.metadata(&self.meta), resource)
    }
    pub(super) fn made(&mut self, resource: F::Resource) {
        self.resource = Some(resource);
    }
    /// It is ready to be lent. Leaves nothing here; taken piece by piece, for it would be copied otherwise.
    #[inline]
    pub(super) fn lend(&mut self) -> Borrowed<'p, F> {
        let slot = self.slot.take().expect("taken only by those who consume it");
        let resource = self.resource.take().expect("it has been made");
        Borrowed::new(self.pool, Loan { slot, resource, meta: self.meta.take() })
    }
    /// Destroys what there is, and keeps the place.
    pub(super) fn discard(&mut self) {
        if let Some(resource) = self.resource.take() {
            self.pool.dispose(&self.meta, resource);
        }
    }
    pub(super) fn slot(&self) -> Key {
        self.slot.expect("taken only by those who consume it")
    }
    /// The place, for somebody else to take care of.
    pub(super) fn into_slot(mut self) -> Key {
        self.slot.take().expect("taken only by those who consume it")
    }
}

impl<F: Form> Reserved<'_, F> {
    #[cold]
    fn give_up(&mut self, slot: Key) {
        if has_failed() {
            return;
        }
        self.pool.critical(|state, fx| match self.resource.take() {
            Some(resource) => state.invalidate(slot, Content::Ready(resource), fx),
            None => state.give_back_place(slot, fx),
        });
    }
}

impl<F: Form> Drop for Reserved<'_, F> {
    #[inline]
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            self.give_up(slot);
        }
    }
}
