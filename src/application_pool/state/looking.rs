//! The looks that a thread of the pool makes, under the lock (`work/looker.rs`).

use super::effects::{Effect, Effects};
use super::look::Look;
use super::looks::{Later, Looked, WaitForLook};
use super::state::{Outcome, State};
use super::table_keys::GroupKey;
use crate::application_pool::api::error::GetError;
use crate::application_pool::api::options::PoolOptions;
use crate::application_pool::api::spawner::Spawner;
use std::path::Path;
use std::sync::Arc;

impl<S: Spawner> State<S> {
    /// Queues a get for a look. Orders the look, unless one is in flight at this directory.
    pub(crate) fn wait_for_look(
        &mut self,
        dir: &Arc<Path>,
        is_thread: bool,
        any_will_do: bool,
        fx: &mut Effects<S>,
    ) -> Result<WaitForLook, GetError> {
        if self.closed {
            return Err(GetError::Closed);
        }
        let in_flight = self.looking.contains_key(dir);
        let looking = self.looking.entry(dir.clone()).or_default();
        let (queue, nth) = match in_flight && !any_will_do {
            true => (&mut looking.next, looking.nth + 1),
            false => (&mut looking.this, looking.nth),
        };
        let waiter = self.waiters.enqueue_caller(queue, is_thread);
        if !in_flight {
            fx.push(Effect::Look(dir.clone()));
        }
        Ok(WaitForLook { dir: dir.clone(), nth, waiter })
    }

    /// Returns the get's look. For a get that may not wait, orders one; then the last look of the group has to do.
    pub(crate) fn look_of<'l>(
        &mut self,
        options: &PoolOptions,
        looked: Option<&'l Looked>,
        fx: &mut Effects<S>,
    ) -> Result<Option<&'l Look>, GetError> {
        let dir = match looked {
            None => return Ok(None),
            Some(Looked::Seen(look)) => return Ok(Some(look)),
            Some(Looked::Later(dir)) => dir,
        };
        if self.closed {
            return Err(GetError::Closed);
        }
        let group = self.find_known(options.app_group_name());
        if !self.looking.contains_key(dir) {
            fx.push(Effect::Look(dir.clone()));
        }
        let later = Later { options: options.clone(), found: group.is_some() };
        let looking = self.looking.entry(dir.clone()).or_default();
        looking.later.insert(options.app_group_name().to_owned(), later);
        match group.is_some_and(|key| self.group(key).seen.contains_key(&**dir)) {
            true => Ok(None),
            false => Err(GetError::TimedOut),
        }
    }

    /// The look has ended that this get began.
    fn has_looked_later(&mut self, get: &Later, look: &Look, fx: &mut Effects<S>) {
        if self.closed {
            return;
        }
        match self.find_known(get.options.app_group_name()) {
            Some(key) if self.needs_restart(key, look) => {
                self.restart(key, get.options.restart_mode(), fx);
            }
            Some(_) => {}
            // Its next get finds a baseline.
            None if !get.found => self.make_group(&get.options, Some(look)),
            None => {}
        }
    }

    /// Finds a group that is not detached by name.
    pub(crate) fn find_known(&self, name: &str) -> Option<GroupKey> {
        let key = self.group_by_name.get(name).copied();
        key.filter(|key| !self.group(*key).forgotten)
    }

    /// Gives each get that waits for this look its result. Returns whether gets wait for another one.
    pub(crate) fn look_has_ended(
        &mut self,
        dir: &Arc<Path>,
        look: &Arc<Look>,
        fx: &mut Effects<S>,
    ) -> bool {
        let looking = self.looking.get_mut(dir).expect("its record outlives the look");
        while !looking.this.is_empty() {
            let outcome = Outcome::Looked(look.clone());
            fx.push(Effect::Wake(self.waiters.resolve_front(&mut looking.this, outcome)));
        }
        std::mem::swap(&mut looking.this, &mut looking.next);
        looking.nth += 1;
        let later = std::mem::take(&mut looking.later);
        let again = !looking.this.is_empty();
        if !again {
            self.looking.remove(dir);
        }
        for get in later.values() {
            self.has_looked_later(get, look, fx);
        }
        again
    }

    /// Ends the wait of each get that waits for a look: the pool is closed.
    pub(crate) fn close_looks(&mut self, fx: &mut Effects<S>) {
        for looking in self.looking.values_mut() {
            for queue in [&mut looking.this, &mut looking.next] {
                while !queue.is_empty() {
                    let wake = self.waiters.resolve_front(queue, Outcome::Closed);
                    fx.push(Effect::Wake(wake));
                }
            }
        }
    }
}
