//! The guard of a lent resource.

use super::factory::Form;
use crate::kernel::section::Guarded;
use crate::kernel::sync::has_failed;
use crate::resource_pool::state::loan::Loan;
use crate::resource_pool::state::slot::Slot;
use crate::resource_pool::work::home::Home;
use crate::resource_pool::work::inner::Inner;
use std::fmt;
use std::ops::{Deref, DerefMut};

/// A borrowed resource, to which it dereferences. Dropping it returns the resource.
///
/// While a panic unwinds, the drop destroys the resource instead, because its state is unknown.
///
/// The drop runs the factory's part on the current thread, and takes the pool's lock for one section. It never
/// panics, and waits only for other such sections.
///
/// ```
#[doc = include_str!("example.txt")]
/// # let pool = ResourcePool::builder(Connections, "db.example").build()?;
/// let connection = pool.borrow()?;
/// assert_eq!(connection.len(), "connection to db.example".len()); // a method of the resource
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "dropping it returns the resource"]
pub struct Borrowed<'p, F: Form> {
    /// The pool. Absent if the loan has it.
    pool: Option<&'p Inner<F>>,
    /// Absent after the return.
    loan: Option<Box<Loan<F>>>,
}

impl<'p, F: Form> Borrowed<'p, F> {
    #[inline]
    pub(crate) fn new(pool: &'p Inner<F>, loan: Box<Loan<F>>) -> Self {
        Borrowed { pool: Some(pool), loan: Some(loan) }
    }

    /// Returns a guard that may outlive this reference to the pool. When the last handle is dropped, the pool still
    /// closes, and destroys the resource on return.
    ///
    /// ```
    #[doc = include_str!("example.txt")]
    /// # let pool = ResourcePool::builder(Connections, "db.example").build()?;
    /// use cabrank::resource_pool::Borrowed;
    ///
    /// let connection = Borrowed::into_owned(pool.borrow()?);
    /// let length = std::thread::spawn(move || connection.len()).join();
    /// assert_eq!(length.ok(), Some(24));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn into_owned(mut guard: Self) -> Borrowed<'static, F> {
        let mut loan = guard.loan.take();
        if let (Some(pool), Some(loan)) = (guard.pool, &mut loan) {
            loan.settle_in(pool.me.upgrade().expect("it is borrowed from"));
        }
        Borrowed { pool: None, loan }
    }

    /// Returns the number of the resource, as in the [snapshot](crate::resource_pool::ResourceSnapshot::id) and in
    /// [reports](crate::resource_pool::Event::Abandoned). The pool never reuses it.
    ///
    /// ```
    #[doc = include_str!("example.txt")]
    /// # let pool = ResourcePool::builder(Connections, "db.example").build()?;
    /// use cabrank::resource_pool::Borrowed;
    ///
    /// let (first, second) = (pool.borrow()?, pool.borrow()?);
    /// assert_eq!((Borrowed::id(&first), Borrowed::id(&second)), (1, 2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn id(guard: &Self) -> u64 {
        guard.slot(|slot| slot.serial)
    }

    /// Names the borrower, for the report of a loan that looks [abandoned](crate::resource_pool::Event::Abandoned).
    pub fn set_label(guard: &Self, label: &str) {
        let label = Some(label.into());
        guard.slot(|slot| slot.label = label);
    }

    fn slot<R>(&self, change: impl FnOnce(&mut Slot<F>) -> R) -> R {
        let loan = self.loan.as_ref().expect("present until it is given back");
        let pool = self.pool.or_else(|| loan.own_pool()).expect("one of them has the pool");
        pool.state.amend(|state| change(&mut state.slots[loan.slot]))
    }

    /// Destroys the resource and frees its place.
    ///
    /// ```
    #[doc = include_str!("example.txt")]
    /// # let pool = ResourcePool::builder(Connections, "db.example").build()?;
    /// use cabrank::resource_pool::Borrowed;
    ///
    /// let connection = pool.borrow()?;
    /// Borrowed::invalidate(connection); // it is broken
    /// assert_eq!(pool.num_total(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn invalidate(mut guard: Self) {
        if let Some((home, loan)) = guard.end() {
            home.pool().invalidate(loan);
        }
    }

    /// Takes the resource out of the pool for good, and frees its place. The factory does not destroy it.
    ///
    /// ```
    #[doc = include_str!("example.txt")]
    /// # let pool = ResourcePool::builder(Connections, "db.example").build()?;
    /// use cabrank::resource_pool::Borrowed;
    ///
    /// let connection: String = Borrowed::detach(pool.borrow()?);
    /// assert_eq!(connection, "connection to db.example");
    /// assert_eq!(pool.num_total(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn detach(mut guard: Self) -> F::Resource {
        let (home, mut loan) = guard.end().expect("present until it is given back");
        home.pool().observed.returned(&mut loan.began);
        // The caller owns the resource from here on: if the next line panics, it is dropped, not destroyed by the
        // factory.
        home.pool().critical(|state, fx| state.give_back_place(loan.slot, fx));
        loan.resource
    }

    /// Returns the resource, and awaits its test and its passivation.
    ///
    /// A drop leaves both to the next borrower if the factory is asynchronous.
    ///
    /// # Cancel safety
    /// If the future is dropped at an await, the resource is destroyed.
    pub async fn put_back(mut guard: Self) {
        if let Some((home, loan)) = guard.end() {
            home.pool().put_back(loan).await;
        }
    }

    /// Takes the loan out of its guard.
    #[inline]
    fn end(&mut self) -> Option<(Home<'p, F>, Box<Loan<F>>)> {
        let mut loan = self.loan.take()?;
        Some((loan.leave_home(self.pool), loan))
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

/// Returns a resource while a panic unwinds, or to a pool that only the loan has. A function of its own, so that the
/// usual drop stays small.
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
