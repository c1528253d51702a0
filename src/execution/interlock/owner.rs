//! Owners: records instead of threads, so that guards may move between threads, and tasks are owners, too.
//!
//! A record is registered once, under the mutex, and each thread caches the few that it used last. So
//! entering neither allocates nor locks. A dump reads the [`Vitals`], which the guard writes without the
//! mutex.

use super::inner::Inner;
use super::vitals::{OwnerId, Place, Vitals};
use crate::collections::slab_list::Key;
use std::sync::Arc;

pub(super) struct Record {
    pub(super) home: Arc<Inner>,
    pub(super) place: Place,
}

impl Record {
    pub(super) fn key(&self) -> Key {
        self.place.key
    }
    pub(super) fn vitals(&self) -> &Vitals {
        &self.place.vitals
    }
    pub(super) fn id(&self) -> OwnerId {
        self.vitals().id()
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        self.home.keep(self.place.clone());
    }
}

/// Two references to one record, for the guard and for the thread's ambient frame. Created once, so that
/// beginning an execution touches no reference count.
pub(super) struct Seat {
    pub(super) record: Arc<Record>,
    /// Absent while an ambient frame has it, and for good if a panic lost that frame.
    pub(super) twin: Option<Arc<Record>>,
}

impl Seat {
    /// Returns a record that this thread used last, else any spare one, else a new one.
    #[inline]
    pub(super) fn take(home: &Arc<Inner>) -> Seat {
        cache::take(home).unwrap_or_else(|| Seat::find(home))
    }
    #[cold]
    fn find(home: &Arc<Inner>) -> Seat {
        let place = home.spare().unwrap_or_else(|| home.register());
        let record = Arc::new(Record { home: home.clone(), place });
        Seat { twin: Some(record.clone()), record }
    }
    #[inline]
    pub(super) fn give_back(self) {
        cache::put(self);
    }
}

/// The records that this thread used last.
#[cfg(not(all(test, any(feature = "loom", feature = "shuttle"))))]
mod cache {
    use super::super::inner::Inner;
    use super::Seat;
    use std::cell::{Cell, RefCell};
    use std::sync::Arc;

    /// How many a thread keeps besides the last. Each keeps its interlock's memory alive.
    const KEPT: usize = 3;

    std::thread_local! {
        static LAST: Cell<Option<Seat>> = const { Cell::new(None) };
        static OTHERS: RefCell<Vec<Seat>> = const { RefCell::new(Vec::new()) };
    }

    #[inline]
    pub(super) fn take(home: &Arc<Inner>) -> Option<Seat> {
        // An ending thread has no cache.
        match LAST.try_with(Cell::take).ok().flatten() {
            Some(seat) if Arc::ptr_eq(&seat.record.home, home) => Some(seat),
            other => take_other(home, other),
        }
    }
    #[cold]
    fn take_other(home: &Arc<Inner>, last: Option<Seat>) -> Option<Seat> {
        last.into_iter().for_each(put_other);
        let found = OTHERS.try_with(|seats| {
            let mut seats = seats.borrow_mut();
            let at = seats.iter().rposition(|seat| Arc::ptr_eq(&seat.record.home, home))?;
            Some(seats.swap_remove(at))
        });
        found.ok().flatten()
    }
    #[inline]
    pub(super) fn put(seat: Seat) {
        let mut seat = Some(seat);
        if let Ok(Some(former)) = LAST.try_with(|last| last.replace(seat.take())) {
            put_other(former);
        }
    }
    #[cold]
    fn put_other(seat: Seat) {
        let mut seat = Some(seat);
        let oldest = OTHERS.try_with(|seats| {
            let mut seats = seats.borrow_mut();
            let oldest = (seats.len() == KEPT).then(|| seats.remove(0));
            seats.extend(seat.take());
            oldest
        });
        drop((oldest, seat));
    }
}

/// Caches no record: to `std` all threads of a model are one, and a record that outlives its execution is an
/// error.
#[cfg(all(test, any(feature = "loom", feature = "shuttle")))]
mod cache {
    use super::super::inner::Inner;
    use super::Seat;
    use std::sync::Arc;

    pub(super) fn take(_: &Arc<Inner>) -> Option<Seat> {
        None
    }
    pub(super) fn put(_: Seat) {}
}

/// The ancestors of a child that lived when it began, nearest first.
pub(super) struct Lineage {
    pub(super) id: OwnerId,
    vitals: Arc<Vitals>,
    up: Option<Arc<Lineage>>,
}

impl Lineage {
    /// Returns the lineage of a child of this record's execution, without ancestors that have ended. So it
    /// stays short in an endless chain of executions, each begun before the previous one ends.
    pub(super) fn below(record: &Record, up: Option<Arc<Lineage>>) -> Arc<Lineage> {
        let all_live = Lineage::chain(up.as_ref()).all(|ancestor| ancestor.lives());
        let up = match all_live {
            true => up,
            false => {
                let living: Vec<_> =
                    Lineage::chain(up.as_ref()).filter(|ancestor| ancestor.lives()).collect();
                let above = |up, next: &Arc<Lineage>| {
                    Some(Arc::new(Lineage { id: next.id, vitals: next.vitals.clone(), up }))
                };
                living.into_iter().rev().fold(None, above)
            }
        };
        Arc::new(Lineage { id: record.id(), vitals: record.place.vitals.clone(), up })
    }
    fn chain(nearest: Option<&Arc<Lineage>>) -> impl Iterator<Item = &Arc<Lineage>> {
        std::iter::successors(nearest, |ancestor| ancestor.up.as_ref())
    }
    /// Returns true until its execution ends.
    fn lives(&self) -> bool {
        self.vitals.is_live(self.id)
    }
    /// Returns true until all their executions have ended. A parent begins before it creates the child, so
    /// the child sees it.
    pub(super) fn is_live(&self) -> bool {
        self.lives() || Lineage::chain(self.up.as_ref()).any(|ancestor| ancestor.lives())
    }
}

impl Drop for Lineage {
    /// A loop, because a long chain would overflow the stack.
    fn drop(&mut self) {
        let mut up = self.up.take();
        while let Some(mut last) = up.and_then(Arc::into_inner) {
            up = last.up.take();
        }
    }
}
