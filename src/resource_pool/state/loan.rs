//! A resource with what the pool knows of it: it moves between the idle list, a guard and a test.

use super::began::Began;
use super::names::{Meta, SlotKey};
use crate::resource_pool::api::factory::Form;
use std::any::Any;
use std::sync::Arc;

/// A resource and its slot. Boxed when the resource is created, so that only its address moves, and a guard is two
/// words.
pub(crate) struct Loan<F: Form> {
    pub(crate) slot: SlotKey,
    pub(crate) meta: Meta<F>,
    /// The last return neither tested nor passivated it: the next borrower has to.
    pub(crate) unclean: bool,
    /// It was ordered, and no other borrower was there for it: a failure of its activation is its borrower's.
    pub(crate) fresh: bool,
    /// Its borrower's arrival, where the pool creates.
    pub(crate) ticket: u64,
    /// When the loan began, in a pool that is observed.
    pub(crate) began: Began,
    /// The pool, during a loan that may outlive other references to the pool. The state owns the idle loans and does not
    /// know the pool, so the type is erased: `work/home.rs` puts it in and takes it out.
    pub(crate) home: Option<Arc<dyn Any + Send + Sync>>,
    pub(crate) resource: F::Resource,
}

impl<F: Form> Loan<F> {
    pub(crate) fn new(slot: SlotKey, meta: Meta<F>, resource: F::Resource) -> Box<Self> {
        Box::new(Loan {
            slot,
            meta,
            unclean: false,
            fresh: false,
            ticket: 0,
            began: Began::default(),
            home: None,
            resource,
        })
    }
}
