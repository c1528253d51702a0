//! Collects the numbers of a key, and its last creation that failed, for a borrower that has waited in vain.

use super::inner::Inner;
use super::looking_up::Select;
use crate::kernel::user_code::contain;
use crate::resource_pool::api::error::Failure;
use crate::resource_pool::api::factory::Form;
use crate::resource_pool::api::shortage::{LastFailure, Shortage};
use crate::resource_pool::state::names::SlotKey;
use std::sync::Arc;

impl<F: Form> Inner<F> {
    /// Returns what the key has now. Its borrower has left the queue.
    #[cold]
    pub(crate) fn shortage(&self, key: impl Select<F>) -> Shortage {
        let now = self.clock().now();
        let look = key.select_known(self, |state, key, _| {
            let sub = &state.subs[key];
            let shortage = Shortage {
                active: sub.active,
                idle: sub.idle.len(),
                creating: sub.adding,
                waiting: sub.queue.len(),
                of_other_keys: state.total.saturating_sub(sub.total),
                last_failure: sub
                    .last_failure
                    .as_ref()
                    .map(|(at, text)| LastFailure { text: text.clone(), ago: now.since(*at) }),
                ..Shortage::default()
            };
            (shortage, sub.metadata.clone())
        });
        let pool = self.observed.name().cloned();
        let describe = |metadata| contain(|| self.factory.describe(metadata)).unwrap_or_default();
        match look {
            Some((shortage, meta)) => Shortage { pool, key: describe(&meta), ..shortage },
            // The key is forgotten, because this borrower was the last that needed it.
            None => {
                let of_other_keys = self.state.look(|state| state.total);
                let key = key.given().and_then(describe);
                Shortage { pool, key, of_other_keys, ..Shortage::default() }
            }
        }
    }

    /// Notes the last failure of a creation of the slot's key.
    #[cold]
    pub(crate) fn note_failure(&self, slot: SlotKey, failure: &Failure<F::Error>) {
        let Ok(text) = contain(|| failure.to_string()) else { return };
        let noted = (self.clock().now(), Arc::<str>::from(text));
        let former = self.state.amend(|state| {
            let key = state.slots[slot].key;
            state.subs.links()[key].last_failure.replace(noted)
        });
        drop(former);
    }
}
