//! The queue of the destroyer (`destroying.rs`).

use crate::kernel::sync::Mutex;
use crate::resource_pool::api::factory::Form;
use crate::resource_pool::state::effects::Dead;
use std::collections::VecDeque;

/// The resources whose destruction has not begun. `None`: there is no destroyer.
pub(crate) struct Dying<F: Form>(Mutex<Option<VecDeque<Dead<F>>>>);

impl<F: Form> Default for Dying<F> {
    fn default() -> Self {
        Dying(Mutex::new(None))
    }
}

impl<F: Form> Dying<F> {
    /// Returns whether the caller has to begin the destroyer.
    pub(crate) fn add(&self, dead: Dead<F>) -> bool {
        let mut queue = self.0.lock();
        let begins = queue.is_none();
        queue.get_or_insert_default().push_back(dead);
        begins
    }
    /// Returns whether more waits.
    pub(crate) fn has_more(&self) -> bool {
        self.0.lock().as_ref().is_some_and(|queue| !queue.is_empty())
    }
    /// Returns what is destroyed next. `None` ends the destroyer: the next `add` begins another.
    pub(crate) fn next(&self) -> Option<Dead<F>> {
        let mut queue = self.0.lock();
        let next = queue.as_mut().and_then(VecDeque::pop_front);
        if next.is_none() {
            *queue = None;
        }
        next
    }
}
