//! The parts of the server that requests need.

use crate::configuration::Settings;
use crate::exchange::admission::Admission;
use crate::listen::budget::{Budget, Shares};
use crate::observe::rare::Rare;
use crate::request::spool::SpoolLimits;
use cabrank::PoolOptions;
use cabrank_spawner::Pool;
use cabrank_spawner::instance_dir::Instance;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The parts of the server that requests need.
pub(crate) struct Front {
    pub(crate) pool: Pool,
    /// One object for all requests: the pool compares pointers before it compares contents.
    pub(crate) options: PoolOptions,
    pub(crate) settings: Arc<Settings>,
    pub(crate) budget: Budget,
    /// The directory of the server, for bodies and answers that do not fit into memory.
    instance: Instance,
    /// The line that says that the disk is full.
    full: Rare,
    /// Becomes true when the server shuts down.
    pub(crate) is_closing: AtomicBool,
    pub(crate) admission: Arc<Admission>,
}

impl Front {
    pub(crate) fn new(
        pool: Pool,
        options: PoolOptions,
        settings: Arc<Settings>,
        instance: Instance,
        shares: Shares,
        admission: Arc<Admission>,
    ) -> Self {
        let budget = Budget::new(settings.max_connections.unwrap_or(shares.connections));
        Front {
            pool,
            options,
            settings,
            budget,
            instance,
            full: Rare::default(),
            is_closing: AtomicBool::new(false),
            admission,
        }
    }

    /// Logs that a request or an answer cannot be buffered in a file.
    pub(crate) fn no_space(&self, what: &str, e: &std::io::Error) {
        self.full.log(|left_out| {
            tracing::error!(
                "{what} cannot be buffered in {}: {e} ({left_out} more since the last such line)",
                self.instance.buffered().display()
            );
        });
    }

    fn spool_limits(&self, file: u64) -> SpoolLimits {
        let memory = self.settings.buffer_request;
        SpoolLimits { memory, file, directory: self.instance.buffered() }
    }

    /// Returns the bounds of a request's body.
    pub(crate) fn request_spool(&self) -> SpoolLimits {
        self.spool_limits(self.settings.max_buffered_request)
    }

    /// Returns the bounds of an answer, beyond what waits in memory.
    pub(crate) fn answer_spool(&self) -> SpoolLimits {
        let memory = crate::exchange::pump::IN_MEMORY;
        let file = self.settings.max_buffered_answer;
        SpoolLimits { memory, file, directory: self.instance.buffered() }
    }
}

impl std::fmt::Debug for Front {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Front").finish_non_exhaustive()
    }
}

/// How far a failed exchange had come. The retry depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reached {
    /// The server could not connect to the process.
    Nowhere,
    /// No byte of the request can have reached the application.
    NotTheApp,
    /// The application may have seen the request, but sent no byte of an answer.
    TheApp,
    /// The request or the answer is wrong, so a retry would not help.
    Verdict(u16),
}
