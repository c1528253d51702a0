//! The processes of an application: the pool, as an exchange sees it.

use crate::exchange::admission::{Admission, Place};
use crate::exchange::endings::Ending;
use cabrank::PoolOptions;
use cabrank::application_pool::{GetError, Identifier};
use cabrank_spawner::process::AppConnection;
use cabrank_spawner::{Pool, Session};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// The processes of an application.
#[derive(Debug)]
pub(crate) enum Processes {
    Pool {
        pool: Pool,
        /// One object for all requests: the pool compares pointers before it compares contents.
        options: PoolOptions,
        admission: Arc<Admission>,
    },
    /// Processes that a test plays.
    #[cfg(test)]
    Played(crate::exchange::played::Played),
}

impl Processes {
    /// Waits for a process, and takes a hold on it. `place` is the one of an attempt before this.
    ///
    /// # Errors
    /// The pool has no process for the request.
    pub(crate) async fn get(&self, mut place: Option<Place>) -> Result<Hold, GetError> {
        match self {
            Processes::Pool { pool, options, admission } => {
                let session = admission.session(pool, options, &mut place).await?;
                admission.learn(session.process.concurrency);
                Ok(Hold::Session { session, place })
            }
            #[cfg(test)]
            Processes::Played(played) => played.get(),
        }
    }

    /// Waits until a process is ready for the first request.
    ///
    /// # Errors
    /// No process becomes ready.
    pub(crate) async fn boot(&self) -> Result<(), GetError> {
        match self {
            Processes::Pool { pool, options, admission } => {
                // The limit on the time in the queue is for clients.
                let options = options.clone().with_max_queue_time(None);
                let session = pool.get_async(&options).await?;
                admission.learn(session.process.concurrency);
                // The boot is no request, for `--max-requests` and for the status.
                Session::cancel(session);
                Ok(())
            }
            #[cfg(test)]
            Processes::Played(_) => Ok(()),
        }
    }

    /// Notes an answer that its client is about to have whole, while the application has not finished.
    pub(crate) fn begin_ending(&self) -> Option<Ending> {
        match self {
            Processes::Pool { admission, .. } => admission.begin_ending(),
            #[cfg(test)]
            Processes::Played(played) => Some(played.endings.begin()),
        }
    }

    /// Takes a process out of the pool that has ended or refuses connections, perhaps by a request.
    pub(crate) fn is_gone(&self, process: Identifier) {
        match self {
            Processes::Pool { pool, .. } => drop(pool.process_is_gone(process)),
            #[cfg(test)]
            Processes::Played(played) => played.note("detached"),
        }
    }

    /// Returns whether a process, which gets no more requests, has more than one. It looks through the whole pool.
    pub(crate) fn is_shared(&self, process: Identifier) -> bool {
        match self {
            Processes::Pool { pool, .. } => {
                let groups = pool.snapshot().groups.into_iter();
                let mut all = groups.flat_map(|group| group.processes);
                all.any(|found| found.identifier == process && found.sessions > 1)
            }
            #[cfg(test)]
            Processes::Played(_) => false,
        }
    }

    /// Takes a process out of the pool that has failed by itself.
    pub(crate) fn has_failed(&self, process: Identifier) {
        match self {
            Processes::Pool { pool, .. } => drop(pool.process_has_failed(process)),
            #[cfg(test)]
            Processes::Played(played) => played.note("failed"),
        }
    }
}

/// A request's hold on a process. Dropping it ends the session, and gives the request's place among those in progress back.
#[derive(Debug)]
pub(crate) enum Hold {
    Session {
        session: Session,
        /// `None`: the process takes a limited number of requests.
        place: Option<Place>,
    },
    #[cfg(test)]
    Played(AppConnection, crate::exchange::played::Token),
}

impl Hold {
    /// Takes the request's place, for the next attempt.
    pub(crate) fn take_place(&mut self) -> Option<Place> {
        match self {
            Hold::Session { place, .. } => place.take(),
            #[cfg(test)]
            Hold::Played(..) => None,
        }
    }

    /// Ends the session, and reports that its process refuses connections.
    pub(crate) fn fail(self) {
        match self {
            Hold::Session { session, .. } => Session::fail(session),
            #[cfg(test)]
            Hold::Played(_, token) => token.note("refused"),
        }
    }
}

impl Deref for Hold {
    type Target = AppConnection;
    fn deref(&self) -> &AppConnection {
        match self {
            Hold::Session { session, .. } => session,
            #[cfg(test)]
            Hold::Played(connection, _) => connection,
        }
    }
}

impl DerefMut for Hold {
    fn deref_mut(&mut self) -> &mut AppConnection {
        match self {
            Hold::Session { session, .. } => session,
            #[cfg(test)]
            Hold::Played(connection, _) => connection,
        }
    }
}
