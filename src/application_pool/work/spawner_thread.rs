//! The threads that spawn: the pseudocode's `spawner_thread_callback`.
//!
//! Every spawn runs on a thread of its own, even the first one of a group (erratum E4). A [`Reservation`] guards the
//! reservation of its order, and gives it back after an error, a panic, or a failure to start the thread (E11).

use super::inner::Inner;
use crate::application_pool::api::error::SpawnError;
use crate::application_pool::api::spawner::{Process, ShutDown, SpawnRequest, Spawner};
use crate::application_pool::state::spawn_order::SpawnOrder;
use crate::application_pool::state::spawning::NewProcess;
use crate::kernel::at_work::AtWork;
use crate::kernel::section::Guarded;
use crate::kernel::sync::{has_failed, thread};
use crate::kernel::user_code::{SlowDrop, contain};
use std::sync::{Arc, Mutex, PoisonError};

/// Guards the reservation of an order until its spawn has ended.
struct Reservation<S: Spawner> {
    pool: Arc<Inner<S>>,
    order: Option<SpawnOrder>,
}

impl<S: Spawner> Reservation<S> {
    fn end(&mut self, result: Result<NewProcess<S>, SpawnError>) -> Option<SpawnOrder> {
        let order = self.order.take()?;
        self.pool.critical(|state, fx| state.spawn_has_ended(&order, result, fx))
    }
}

impl<S: Spawner> Drop for Reservation<S> {
    fn drop(&mut self) {
        if has_failed() {
            return;
        }
        if let Some(next) = self.end(Err(SpawnError::new("the spawner thread was lost"))) {
            self.pool.start_spawner_thread(next);
        }
    }
}

impl<S: Spawner> Inner<S> {
    /// Starts the thread that carries out the order. A thread that cannot be started is a spawn error like any other
    /// (erratum E11).
    pub(crate) fn start_spawner_thread(self: &Arc<Self>, order: SpawnOrder) {
        let mut order = Some(order);
        while let Some(this) = order {
            order = self.try_to_start_spawner_thread(this);
        }
    }

    /// Starts one thread. If it cannot be started, ends the spawn with an error, and returns the group's next
    /// order, if any.
    fn try_to_start_spawner_thread(self: &Arc<Self>, order: SpawnOrder) -> Option<SpawnOrder> {
        let name = format!("cabrank spawner {}", order.ticket);
        let reservation = Reservation { pool: self.clone(), order: Some(order) };
        // A thread that cannot be started drops its closure. The reservation stays in the slot, and is ended below.
        let slot = Arc::new(Mutex::new(Some(reservation)));
        let theirs = slot.clone();
        let started = thread::start(&name, self.spawner_stack_size, move || {
            let taken = theirs.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(reservation) = taken {
                spawner_thread_callback(reservation);
            }
        });
        let error = started.err()?;
        let mut reservation = slot.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        let error = format!("the spawner thread could not be started: {error}");
        reservation.end(Err(SpawnError::new(error)))
    }
}

/// Spawns until the group needs no more processes.
fn spawner_thread_callback<S: Spawner>(mut reservation: Reservation<S>) {
    let pool = reservation.pool.clone();
    let _at_work = AtWork::begin(&*pool);
    while let Some(order) = &reservation.order {
        let result = pool.spawn(order);
        reservation.order = reservation.end(result);
    }
}

impl<S: Spawner> Inner<S> {
    /// Runs the spawner, which is user code, without the lock: while it hangs, sessions can be closed
    /// (PROP-CLOSE-POSSIBLE).
    fn spawn(self: &Arc<Self>, order: &SpawnOrder) -> Result<NewProcess<S>, SpawnError> {
        let request = SpawnRequest {
            identifier: order.ticket,
            options: order.options.clone(),
            cancel: order.cancel.clone(),
        };
        let spawned = contain(|| {
            if order.reload {
                self.spawner.reload(&order.options);
            }
            self.spawner.spawn(&request)
        });
        let process = match spawned {
            Ok(spawned) => SlowDrop::new(spawned?),
            Err(panic) => return Err(SpawnError::new(format!("the spawner panicked: {panic}"))),
        };
        match contain(|| (process.concurrency(), process.pid())) {
            Ok((concurrency, pid)) => {
                Ok(NewProcess { process, concurrency, pid, home: Box::new(self.clone()) })
            }
            Err(panic) => {
                // The process lives, and only this call can shut it down.
                let _ = contain(|| process.shut_down(ShutDown::Drained));
                Err(SpawnError::new(format!("the process panicked: {panic}")))
            }
        }
    }
}
