//! The pool of a loan: of the guard's reference, or of the loan's own.

use super::inner::Inner;
use crate::resource_pool::api::factory::Form;
use crate::resource_pool::state::loan::Loan;
use std::any::Any;
use std::sync::Arc;

impl<F: Form> Loan<F> {
    /// Gives the loan a pool of its own.
    pub(crate) fn settle_in(&mut self, pool: Arc<Inner<F>>) {
        self.home = Some(pool);
    }

    /// Returns the loan's own pool.
    pub(crate) fn own_pool(&self) -> Option<&Inner<F>> {
        let home: &(dyn Any + Send + Sync) = &**self.home.as_ref()?;
        Some(home.downcast_ref().expect("a loan's home is a pool of its factory"))
    }

    /// Takes the pool out of the loan. Otherwise the pool would own itself.
    pub(crate) fn leave_home<'p>(&mut self, pool: Option<&'p Inner<F>>) -> Home<'p, F> {
        match (pool, self.home.take()) {
            (Some(pool), _) => Home::At(pool),
            (None, Some(pool)) => {
                Home::Owned(pool.downcast().expect("a loan's home is a pool of its factory"))
            }
            (None, None) => unreachable!("one of them has the pool"),
        }
    }
}

/// The pool of a loan.
pub(crate) enum Home<'p, F: Form> {
    At(&'p Inner<F>),
    Owned(Arc<Inner<F>>),
}

impl<F: Form> Home<'_, F> {
    #[inline]
    pub(crate) fn pool(&self) -> &Inner<F> {
        match self {
            Home::At(pool) => pool,
            Home::Owned(pool) => pool,
        }
    }
}
