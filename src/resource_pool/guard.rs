//! What is lent: it comes back when it is dropped.

use super::factory::Form;
use super::pool::Inner;
use super::slot::Meta;
use crate::collections::slab_list::Key;
use crate::section::Guarded;
use crate::sync::has_failed;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// A resource and its place. Boxed when the resource is made, and from then on only its address goes from
/// hand to hand: a large resource is never moved, and a guard is two words, which nobody copies through memory.
pub(crate) struct Loan<F: Form> {
    pub(super) slot: Key,
    pub(super) meta: Meta<F>,
    /// Not passivated yet, nor tested.
    pub(super) unclean: bool,
    /// The pool, while it is lent to somebody who may outlive other references to it.
    home: Option<Arc<Inner<F>>>,
    pub(super) resource: F::Resource,
}

impl<F: Form> Loan<F> {
    pub(super) fn new(slot: Key, meta: Meta<F>, resource: F::Resource) -> Box<Self> {
        Box::new(Loan { slot, meta, unclean: false, home: None, resource })
    }

    /// Parts the loan from the pool, which would own itself otherwise.
    fn leave_home<'p>(&mut self, pool: Option<&'p Inner<F>>) -> Home<'p, F> {
        match (pool, self.home.take()) {
            (Some(pool), _) => Home::At(pool),
            (None, Some(pool)) => Home::Owned(pool),
            (None, None) => unreachable!("one of them has the pool"),
        }
    }
}

/// A resource that is lent: derefs to it. Dropping it returns the resource to the pool; while a panic
/// unwinds, the resource is destroyed instead, for nobody knows in what state it is.
///
/// The drop takes the pool's lock, for one section that ends with the hand-over to whoever waits; what the
/// factory has to do with the resource it does on the thread that drops it. It never panics, and
/// never waits for anybody but those who are in such a section.
#[must_use = "dropping it returns the resource"]
pub struct Borrowed<'p, F: Form> {
    /// A reference is enough for most, and costs nothing; absent if the loan has the pool.
    pool: Option<&'p Inner<F>>,
    /// Absent once it has been given back.
    loan: Option<Box<Loan<F>>>,
}

impl<'p, F: Form> Borrowed<'p, F> {
    #[inline]
    pub(super) fn new(pool: &'p Inner<F>, loan: Box<Loan<F>>) -> Self {
        Borrowed { pool: Some(pool), loan: Some(loan) }
    }

    /// The same, for a thread or a task that may outlive this reference to the pool. A pool whose last
    /// handle is dropped is closed even so: what comes back then is destroyed.
    pub fn into_owned(mut guard: Self) -> Borrowed<'static, F> {
        let mut loan = guard.loan.take();
        if let (Some(pool), Some(loan)) = (guard.pool, &mut loan) {
            loan.home = Some(pool.me.upgrade().expect("it is borrowed from"));
        }
        Borrowed { pool: None, loan }
    }

    /// The resource is not to be used again: it is destroyed, and its place is free.
    pub fn invalidate(mut guard: Self) {
        if let Some((home, loan)) = guard.end() {
            home.pool().invalidate(loan);
        }
    }

    /// Takes the resource out of the pool for good: its place is free, and it is not destroyed.
    pub fn detach(mut guard: Self) -> F::Resource {
        let (home, loan) = guard.end().expect("present until it is given back");
        // If what follows panics, the resource is dropped: it is the caller's.
        home.pool().critical(|state, fx| state.give_back_place(loan.slot, fx));
        loan.resource
    }

    /// Returns the resource, and awaits what there is to be done with it: its test, if there is to be
    /// one, and its passivation. Without this, that is left to its next borrower if the factory is an
    /// asynchronous one, and there is something to await.
    ///
    /// # Cancel safety
    /// If it is dropped at an await, the resource is destroyed.
    pub async fn put_back(mut guard: Self) {
        if let Some((home, loan)) = guard.end() {
            home.pool().put_back(loan).await;
        }
    }

    /// Parts the loan from its guard.
    #[inline]
    fn end(&mut self) -> Option<(Home<'p, F>, Box<Loan<F>>)> {
        let mut loan = self.loan.take()?;
        Some((loan.leave_home(self.pool), loan))
    }
}

/// The pool of a loan.
enum Home<'p, F: Form> {
    At(&'p Inner<F>),
    Owned(Arc<Inner<F>>),
}

impl<F: Form> Home<'_, F> {
    #[inline]
    fn pool(&self) -> &Inner<F> {
        match self {
            Home::At(pool) => pool,
            Home::Owned(pool) => pool,
        }
    }
}

impl<F: Form> Drop for Borrowed<'_, F> {
    #[inline]
    fn drop(&mut self) {
        let Some(loan) = self.loan.take() else { return };
        if has_failed() {
            return;
        }
        match self.pool {
            Some(pool) if !std::thread::panicking() => pool.give_back(loan),
            pool => end_slowly(pool, loan),
        }
    }
}

/// While a panic unwinds, or to a pool that the loan has: apart, so that what every drop of a guard has in it
/// is small.
#[cold]
#[inline(never)]
fn end_slowly<F: Form>(pool: Option<&Inner<F>>, mut loan: Box<Loan<F>>) {
    let home = loan.leave_home(pool);
    match std::thread::panicking() {
        false => home.pool().give_back(loan),
        true => home.pool().invalidate(loan),
    }
}

impl<F: Form> Deref for Borrowed<'_, F> {
    type Target = F::Resource;
    #[inline]
    fn deref(&self) -> &F::Resource {
        &self.loan.as_ref().expect("present until it is given back").resource
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
        f.debug_tuple("Borrowed").field(&**self).finish()
    }
}

/// A place that is reserved for a resource that is being made, tested or activated. Given back when it is
/// dropped, on whatever path: an error, a panic or a cancelled future (rule 5).
pub(crate) struct Reserved<'p, F: Form> {
    pool: &'p Inner<F>,
    /// As long as there is no resource; one of the two is absent, and both once it has been handed on.
    place: Option<(Key, Meta<F>)>,
    /// What is there is destroyed with the reservation, for it is half activated at best.
    loan: Option<Box<Loan<F>>>,
}

impl<'p, F: Form> Reserved<'p, F> {
    /// Nothing is there yet.
    pub(super) fn new(pool: &'p Inner<F>, slot: Key, meta: Meta<F>) -> Self {
        Reserved { pool, place: Some((slot, meta)), loan: None }
    }
    /// With what is there.
    #[inline]
    pub(super) fn of(pool: &'p Inner<F>, loan: Box<Loan<F>>) -> Self {
        Reserved { pool, place: None, loan: Some(loan) }
    }
    pub(super) fn pool(&self) -> &'p Inner<F> {
        self.pool
    }
    pub(super) fn meta(&self) -> &Meta<F> {
        match (&self.loan, &self.place) {
            (Some(loan), _) => &loan.meta,
            (None, Some((_, meta))) => meta,
            (None, None) => unreachable!("taken only by those who consume it"),
        }
    }
    #[inline]
    pub(super) fn loan_mut(&mut self) -> &mut Loan<F> {
        self.loan.as_mut().expect("it has been made")
    }
    /// Stores the resource that was created.
    pub(super) fn made(&mut self, resource: F::Resource) -> &mut Loan<F> {
        let (slot, meta) = self.place.take().expect("created once");
        self.loan.insert(Loan::new(slot, meta, resource))
    }
    /// It is ready. Leaves nothing here.
    #[inline]
    pub(super) fn loan(&mut self) -> Box<Loan<F>> {
        self.loan.take().expect("it has been made")
    }
    /// Destroys what there is, and keeps the place.
    pub(super) fn discard(&mut self) {
        if let Some(loan) = self.loan.take() {
            let Loan { slot, meta, resource, .. } = *loan;
            let (_, meta) = self.place.insert((slot, meta));
            self.pool.dispose(meta, resource);
        }
    }
    /// The place, for somebody else to take care of.
    pub(super) fn into_slot(mut self) -> Key {
        self.place.take().expect("nothing has been made").0
    }

    #[cold]
    fn give_up(&mut self) {
        if has_failed() {
            return;
        }
        if let Some(loan) = self.loan.take() {
            self.pool.invalidate(loan);
        }
        if let Some((slot, _meta)) = self.place.take() {
            self.pool.critical(|state, fx| state.give_back_place(slot, fx));
        }
    }
}

impl<F: Form> Drop for Reserved<'_, F> {
    #[inline]
    fn drop(&mut self) {
        if self.loan.is_some() || self.place.is_some() {
            self.give_up();
        }
    }
}
