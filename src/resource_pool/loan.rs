//! A resource with what the pool knows of it: it moves between the idle list, a guard and a test.

use super::began::Began;
use super::factory::Form;
use super::inner::Inner;
use super::slot::{Meta, SlotKey};
use std::sync::Arc;

/// A resource and its slot. Boxed when the resource is created, so that only its address moves, and a guard is two
/// words.
pub(crate) struct Loan<F: Form> {
    pub(super) slot: SlotKey,
    pub(super) meta: Meta<F>,
    /// The last return neither tested nor passivated it: the next borrower has to.
    pub(super) unclean: bool,
    /// When the loan began, in a pool that is observed.
    pub(super) began: Began,
    /// The pool, during a loan that may outlive other references to the pool.
    pub(super) home: Option<Arc<Inner<F>>>,
    pub(super) resource: F::Resource,
}

impl<F: Form> Loan<F> {
    pub(super) fn new(slot: SlotKey, meta: Meta<F>, resource: F::Resource) -> Box<Self> {
        Box::new(Loan { slot, meta, unclean: false, began: Began::default(), home: None, resource })
    }

    /// Takes the pool out of the loan. Otherwise the pool would own itself.
    pub(super) fn leave_home<'p>(&mut self, pool: Option<&'p Inner<F>>) -> Home<'p, F> {
        match (pool, self.home.take()) {
            (Some(pool), _) => Home::At(pool),
            (None, Some(pool)) => Home::Owned(pool),
            (None, None) => unreachable!("one of them has the pool"),
        }
    }
}

/// The pool of a loan.
pub(super) enum Home<'p, F: Form> {
    At(&'p Inner<F>),
    Owned(Arc<Inner<F>>),
}

impl<F: Form> Home<'_, F> {
    #[inline]
    pub(super) fn pool(&self) -> &Inner<F> {
        match self {
            Home::At(pool) => pool,
            Home::Owned(pool) => pool,
        }
    }
}
