//! The pseudocode's `get`: one procedure for threads and tasks.
//!
//! 1. Look at the restart files, without the lock (`looker.rs`).
//! 2. One critical section serves the caller, makes it wait, or refuses it (`state/checkout.rs`).
//! 3. A caller that waits gets its outcome by a [`Turn`](crate::kernel::section::Turn).
//! 4. Connect to the process, without the lock. If the process is at fault, one section detaches it and looks for
//!    another.

use super::inner::{Inner, WaitForProcess};
use crate::application_pool::api::error::{ConnectError, GetError};
use crate::application_pool::api::event::Event;
use crate::application_pool::api::options::PoolOptions;
use crate::application_pool::api::session::Lease;
use crate::application_pool::api::session::Session;
use crate::application_pool::api::spawner::{Process, Spawner};
use crate::application_pool::state::checkout::{Attempts, Checkout};
use crate::application_pool::state::effects::Effects;
use crate::application_pool::state::ending::Ending;
use crate::application_pool::state::state::{Outcome, State};
use crate::kernel::at_work::AtWork;
use crate::kernel::clock::Time;
use crate::kernel::section::{Guarded, Patience};
use crate::kernel::user_code::{contain, drop_contained};
use std::sync::Arc;
use std::time::Duration;

/// How many processes a get tries to connect to.
const MAX_ATTEMPTS: usize = 10;

// The errors are boxed, so that a success has no room for one. With that room, the success is copied in other widths
// than it was written in, for which a processor stalls.
impl<S: Spawner> Inner<S> {
    #[inline]
    pub(crate) async fn get(
        self: &Arc<Self>,
        options: &PoolOptions,
        patience: Patience,
    ) -> Result<Session<S>, Box<GetError>> {
        // Once a get (erratum E24), and outside the lock: it is file I/O.
        let look = match &self.restart_files {
            Some(files) => Some(self.look(files, options, patience).await?),
            None => None,
        };
        let (mut attempt, mut waits_since) = (1, None);
        let mut attempts = Attempts::default();
        let mut begun = self.begin(|state, fx| {
            state.checkout_first(options, look.as_ref(), &mut attempts, patience, fx)
        });
        loop {
            let lease = match begun {
                Ok(lease) => lease,
                Err(checkout) => self.wait(checkout, patience, &mut waits_since).await?,
            };
            let error = match connect(&lease) {
                Ok(connection) => {
                    self.report_wait(options, waits_since);
                    return Ok(lease.connected(connection));
                }
                Err(error) => error,
            };
            if error.is_local() || attempt == MAX_ATTEMPTS {
                // The process seems to have crashed, or the caller's side is at fault (erratum E31:
                // PROP-LOCAL-FAILURE).
                lease.end(if error.is_local() { Ending::Unused } else { Ending::Failed });
                return Err(Box::new(GetError::Connect(error)));
            }
            attempt += 1;
            let refused = lease.into_entry();
            begun = self.begin(|state, fx| {
                match state.look_of(options, look.as_ref(), fx) {
                    Ok(look) => {
                        state.checkout_again(&refused, options, look, &mut attempts, patience, fx)
                    }
                    // The group was detached by name meanwhile, and has forgotten its last look.
                    Err(error) => {
                        state.end_session(&refused, Ending::Failed, fx);
                        Checkout::Fail(error)
                    }
                }
            });
            drop_contained(error);
        }
    }

    #[inline]
    pub(crate) async fn checkout(
        self: &Arc<Self>,
        options: &PoolOptions,
        patience: Patience,
    ) -> Result<Lease<S>, Box<GetError>> {
        let look = match &self.restart_files {
            Some(files) => Some(self.look(files, options, patience).await?),
            None => None,
        };
        let mut attempts = Attempts::default();
        let begun = self.begin(|state, fx| {
            state.checkout_first(options, look.as_ref(), &mut attempts, patience, fx)
        });
        let mut waits_since = None;
        let lease = match begun {
            Ok(lease) => lease,
            Err(checkout) => self.wait(checkout, patience, &mut waits_since).await?,
        };
        self.report_wait(options, waits_since);
        Ok(lease)
    }

    /// One critical section. Returns the lease if it served the get at once.
    #[inline]
    fn begin(
        self: &Arc<Self>,
        checkout: impl FnOnce(&mut State<S>, &mut Effects<S>) -> Checkout<S>,
    ) -> Result<Lease<S>, Checkout<S>> {
        let mut other = None;
        // A process leaves the section in a register. To return the whole `Checkout` would copy it by fields of other
        // widths than it was written in, for which a processor stalls.
        let served = self.critical(|state, fx| match checkout(state, fx) {
            Checkout::Serve(entry) => Some(entry),
            checkout => {
                other = Some(checkout);
                None
            }
        });
        served.map(Lease::new).ok_or_else(|| other.expect("it was not served"))
    }

    /// Continues a get that was not served at once. Sets `since` to the beginning of its first wait.
    async fn wait(
        self: &Arc<Self>,
        checkout: Checkout<S>,
        patience: Patience,
        since: &mut Option<Time>,
    ) -> Result<Lease<S>, Box<GetError>> {
        match checkout {
            Checkout::Serve(entry) => Ok(Lease::new(entry)),
            Checkout::Fail(error) => Err(Box::new(error)),
            Checkout::Wait { group, waiter } => {
                since.get_or_insert_with(|| self.clock().now());
                // User code that this pool calls could wait for a spawn that its own thread has to start.
                let in_callback = AtWork::is_for(&**self);
                let patience = match in_callback {
                    true => Patience::Thread(self.clock().deadline(Duration::ZERO)),
                    false => patience,
                };
                let outcome = self.turn(WaitForProcess { group, waiter }, patience).await;
                let late = if in_callback { GetError::InCallback } else { GetError::TimedOut };
                let outcome = outcome.map_err(|()| Box::new(late))?;
                outcome.into_lease().map_err(Box::new)
            }
        }
    }

    /// Tells the observer of a get that was served after a wait: once, however often it waited.
    fn report_wait(self: &Arc<Self>, options: &PoolOptions, since: Option<Time>) {
        if let Some(began) = since.filter(|_| self.observer.is_some()) {
            let _at_work = AtWork::begin(&**self);
            let waited = self.clock().now().since(began);
            let group = options.app_group_name().into();
            self.notify_observer(&Event::Waited { group, waited });
        }
    }
}

impl<S: Spawner> Outcome<S> {
    fn into_lease(self) -> Result<Lease<S>, GetError> {
        match self {
            Outcome::Serve(entry) => Ok(Lease::new(entry)),
            Outcome::SpawnFailed(error) => Err(GetError::Spawn(error)),
            Outcome::QueuedTooLong => Err(GetError::QueuedTooLong),
            Outcome::Closed | Outcome::Looked(_) => Err(GetError::Closed),
        }
    }
}

/// Connects to the process of a lease.
#[inline(always)] // Otherwise the connection is copied on its way to the caller.
fn connect<S: Spawner>(
    lease: &Lease<S>,
) -> Result<<S::Process as Process>::Connection, ConnectError> {
    match contain(|| lease.process().connect()) {
        Ok(connected) => connected,
        Err(panic) => Err(ConnectError::local(format!("connect panicked: {panic}"))),
    }
}
