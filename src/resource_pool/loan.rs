//! A resource with what the pool knows of it: it moves between the idle list, a guard and a test.

use super::began::Began;
use super::factory::Form;
use super::slot::{Meta, SlotKey};
use std::any::Any;
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
    /// The pool, during a loan that may outlive other references to the pool. The state owns the idle loans and does not
    /// know the pool, so the type is erased: `home.rs` puts it in and takes it out.
    pub(super) home: Option<Arc<dyn Any + Send + Sync>>,
    pub(super) resource: F::Resource,
}

impl<F: Form> Loan<F> {
    pub(super) fn new(slot: SlotKey, meta: Meta<F>, resource: F::Resource) -> Box<Self> {
        Box::new(Loan { slot, meta, unclean: false, began: Began::default(), home: None, resource })
    }
}
