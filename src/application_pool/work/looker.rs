//! Looks at restart files that may take long, such as those of a network file system that hangs.
//!
//! A caller that may block for as long as it takes looks itself. A task must not block, and a thread with a time limit
//! must not block past it: a thread of the pool looks for them, and they wait as for a process. So a look that hangs
//! holds up the gets of its directory only, each until its deadline, its cancellation or `close`.
//!
//! A get whose time limit has passed already waits for no look, and begins one. It goes by the last look of its group.
//! Without such a look it fails, because a process that starts now would have no baseline (erratum E23). When the look
//! ends, it counts for the group as the look of the next get would. So a caller that only polls sees a touch, too.
//!
//! Each directory has at most one such look in flight. A get that comes meanwhile waits for the next one, because
//! the look in flight may have begun before a touch that precedes the get (erratum E24). With a throttle, the look in
//! flight will do. The thread looks as long as gets wait, and then ends.

use super::inner::Inner;
use super::restart_files::RestartFiles;
use crate::application_pool::api::error::GetError;
use crate::application_pool::api::options::PoolOptions;
use crate::application_pool::api::spawner::Spawner;
use crate::application_pool::state::effects::{Effect, Effects};
use crate::application_pool::state::look::Look;
use crate::application_pool::state::looks::{Looked, WaitForLook};
use crate::application_pool::state::state::{Outcome, State};
use crate::kernel::at_work::AtWork;
use crate::kernel::clock::Deadline;
use crate::kernel::collections::wait_queue::{Queue, Wake};
use crate::kernel::section::{Guarded, Patience, Wait};
use crate::kernel::sync::{has_failed, thread};
use std::path::{Path, PathBuf};
use std::sync::Arc;

impl<S: Spawner> Wait<Arc<Inner<S>>> for WaitForLook {
    type Outcome = Outcome<S>;
    type GivenUp = ();

    fn take(&mut self, state: &mut State<S>, _: &mut Effects<S>) -> Option<Outcome<S>> {
        state.waiters.take(self.waiter)
    }
    fn wake<'s>(&self, state: &'s mut State<S>) -> &'s mut Wake {
        state.waiters.wake_mut(self.waiter)
    }
    fn give_up(&mut self, state: &mut State<S>, fx: &mut Effects<S>) {
        // A get that has its outcome is in no queue, and its look's record may be gone.
        let mut none = Queue::default();
        let queue = match state.looking.get_mut(&self.dir) {
            Some(looking) if looking.nth == self.nth => &mut looking.this,
            Some(looking) if looking.nth < self.nth => &mut looking.next,
            _ => &mut none,
        };
        let (_, waker) = state.waiters.cancel(queue, self.waiter);
        if let Some(waker) = waker {
            fx.push(Effect::DropWaker(waker));
        }
    }
}

impl<S: Spawner> Inner<S> {
    /// Looks at the restart files: user code, so without the lock.
    ///
    /// A get whose time limit has passed looks later: the look may hang.
    pub(crate) async fn look(
        self: &Arc<Self>,
        files: &RestartFiles,
        options: &PoolOptions,
        patience: Patience,
    ) -> Result<Looked, Box<GetError>> {
        let dir = options.restart_dir();
        if let Some(look) = files.recent(&dir, self.clock()) {
            return Ok(Looked::Seen(look));
        }
        let looks_itself = match patience {
            Patience::None | Patience::Thread(Deadline::Never) => true,
            Patience::Thread(deadline) if self.clock().has_passed(deadline) => {
                return Ok(Looked::Later(dir.into()));
            }
            Patience::Thread(_) | Patience::Task => AtWork::is_for(&**self),
        };
        let look = match looks_itself {
            true => files.look(dir, self.clock()),
            false => Box::pin(self.look_elsewhere(dir.into(), files, patience)).await?,
        };
        Ok(Looked::Seen(look))
    }

    /// Waits for a look that a thread of the pool makes.
    async fn look_elsewhere(
        self: &Arc<Self>,
        dir: Arc<Path>,
        files: &RestartFiles,
        patience: Patience,
    ) -> Result<Arc<Look>, Box<GetError>> {
        let is_thread = matches!(patience, Patience::Thread(_));
        let throttled = files.is_throttled();
        let wait =
            self.critical(|state, fx| state.wait_for_look(&dir, is_thread, throttled, fx))?;
        match self.turn(wait, patience).await {
            Ok(Outcome::Looked(look)) => Ok(look),
            Ok(_) => Err(Box::new(GetError::Closed)),
            Err(()) => Err(Box::new(GetError::TimedOut)),
        }
    }

    /// Starts the thread that looks at a directory.
    pub(crate) fn start_looking(self: &Arc<Self>, dir: Arc<Path>) {
        let mut looker = Looker { pool: self.clone(), dir: Some(dir) };
        // A thread that cannot be started drops its closure, and with it the looker.
        let _ = thread::start("cabrank look", None, move || {
            let _at_work = AtWork::begin(&*looker.pool);
            while looker.look() {}
        });
    }
}

/// Guards that an ordered look ends.
struct Looker<S: Spawner> {
    pool: Arc<Inner<S>>,
    /// Absent once no get waits for a look.
    dir: Option<Arc<Path>>,
}

impl<S: Spawner> Looker<S> {
    /// Looks once. Returns whether gets wait for another look.
    fn look(&mut self) -> bool {
        let pool = &self.pool;
        let (Some(files), Some(dir)) = (&pool.restart_files, &self.dir) else { return false };
        let look = files.look(PathBuf::from(&**dir), pool.clock());
        let again = pool.critical(|state, fx| state.look_has_ended(dir, &look, fx));
        if !again {
            self.dir = None;
        }
        again
    }
}

/// The thread could not be started. An unreadable directory asks for no restart.
impl<S: Spawner> Drop for Looker<S> {
    fn drop(&mut self) {
        let Some(dir) = self.dir.take().filter(|_| !has_failed()) else { return };
        let look = Arc::new(Look::unreadable(PathBuf::from(&*dir)));
        while self.pool.critical(|state, fx| state.look_has_ended(&dir, &look, fx)) {}
    }
}

#[cfg(all(test, feature = "in-memory", not(any(feature = "loom", feature = "shuttle"))))]
mod tests {
    use super::*;
    use crate::ApplicationPool;
    use crate::in_memory::InMemorySpawner;

    /// Two gets wait for the look in flight, and two that came later for the next one.
    #[test]
    fn a_looker_whose_thread_does_not_start_ends_each_wait() {
        let builder = ApplicationPool::builder(InMemorySpawner::new()).cleaner(false);
        let pool = builder.build().expect("a valid pool");
        let (inner, dir) = (pool.inner(), Arc::from(Path::new("/srv/x/tmp")));
        let waits: Vec<WaitForLook> = inner.critical(|state, fx| {
            let mut wait = |any_will_do, fx: &mut Effects<_>| {
                state.wait_for_look(&dir, false, any_will_do, fx).expect("an open pool")
            };
            let waits = vec![wait(false, fx), wait(true, fx), wait(false, fx), wait(false, fx)];
            // The thread of this order would look at once.
            drop(fx.list.take(|effect| matches!(effect, Effect::Look(_))));
            waits
        });
        assert_eq!(waits.iter().map(|wait| wait.nth).collect::<Vec<_>>(), [0, 0, 1, 1]);
        drop(Looker { pool: inner.clone(), dir: Some(dir) });
        for mut wait in waits {
            let outcome = inner.critical(|state, fx| wait.take(state, fx));
            let Some(Outcome::Looked(look)) = outcome else { panic!("it still waits") };
            assert_eq!(look.restart, crate::application_pool::state::look::Seen::Unreadable);
        }
        assert!(inner.critical(|state, _| state.looking.is_empty()));
    }
}
