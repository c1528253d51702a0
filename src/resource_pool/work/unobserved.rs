//! Stands in for `observed.rs` without the features `tracing` and `metrics`: each call compiles to nothing.

use crate::resource_pool::api::error::BorrowError;
use crate::resource_pool::api::event::Event;
use crate::resource_pool::api::factory::{Creation, Form};
use crate::resource_pool::state::began::Began;
use std::sync::Arc;

/// The name of a pool, for its errors.
#[derive(Clone, Default)]
pub(crate) struct Observed(Option<Arc<str>>);

impl Observed {
    pub(crate) fn by_name(name: Arc<str>) -> Self {
        Observed(Some(name))
    }
    pub(crate) fn name(&self) -> Option<&Arc<str>> {
        self.0.as_ref()
    }
    #[inline]
    pub(crate) fn begin(&self) -> Began {
        Began::default()
    }
    #[inline]
    pub(crate) fn lent(&self, began: Began) -> Began {
        began
    }
    #[inline]
    pub(crate) fn not_lent<E>(&self, _: &BorrowError<E>) {}
    #[inline]
    pub(crate) fn returned(&self, _: &mut Began) {}
    #[inline]
    pub(crate) fn destroyed(&self) {}
    #[inline]
    pub(crate) fn reported<E>(&self, _: &Event<E>) {}
    #[inline]
    pub(crate) fn creation<F: Form>(&self, creation: Creation<F>) -> Creation<F> {
        creation
    }
}
