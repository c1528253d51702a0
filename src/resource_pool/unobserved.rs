//! Stands in for `observed.rs` without the features `tracing` and `metrics`: each call compiles to nothing.

use super::began::Began;
use super::error::BorrowError;
use super::event::Event;
use super::factory::{Creation, Form};

#[derive(Clone, Default)]
pub(super) struct Observed(());

impl Observed {
    #[inline]
    pub(super) fn begin(&self) -> Began {
        Began::default()
    }
    #[inline]
    pub(super) fn lent(&self, began: Began) -> Began {
        began
    }
    #[inline]
    pub(super) fn not_lent<E>(&self, _: &BorrowError<E>) {}
    #[inline]
    pub(super) fn returned(&self, _: &mut Began) {}
    #[inline]
    pub(super) fn destroyed(&self) {}
    #[inline]
    pub(super) fn reported<E>(&self, _: &Event<E>) {}
    #[inline]
    pub(super) fn creation<F: Form>(&self, creation: Creation<F>) -> Creation<F> {
        creation
    }
}
