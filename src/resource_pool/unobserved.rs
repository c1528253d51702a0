//! Stands in for `observed.rs` without the features `tracing` and `metrics`: each call compiles to nothing.

use super::error::BorrowError;
use super::event::Event;
use super::factory::{Creation, Form};
use super::loan::Loan;

#[derive(Clone, Default)]
pub(super) struct Observed(());

#[derive(Clone, Copy, Default)]
pub(super) struct Began(());

impl Observed {
    #[inline]
    pub(super) fn begin(&self) -> Began {
        Began(())
    }
    #[inline]
    pub(super) fn lent<F: Form>(&self, began: Began, loan: &mut Loan<F>) {
        loan.began = began;
    }
    #[inline]
    pub(super) fn not_lent<E>(&self, _: &BorrowError<E>) {}
    #[inline]
    pub(super) fn returned<F: Form>(&self, _: &mut Loan<F>) {}
    #[inline]
    pub(super) fn destroyed(&self) {}
    #[inline]
    pub(super) fn reported<E>(&self, _: &Event<E>) {}
    #[inline]
    pub(super) fn creation<F: Form>(&self, creation: Creation<F>) -> Creation<F> {
        creation
    }
}
