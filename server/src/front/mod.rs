//! The path of a request from an HTTP client to an application process and back.
//!
//! One task does everything for a client's connection, and stays on one core.
//!
//! - [`server`] accepts connections, within the [`budget`] of descriptors, and shares them among cores;
//! - [`core`] has the data of one core: the [`sweep`] of time-outs and recycled buffers ([`input`]);
//! - [`connection`] is the life of a [`client`]'s connection, and [`request`] that of one request;
//! - [`request_body`] reads the body before a process is taken, at a [`pace`] that the server limits;
//! - [`attempts`] takes the request to a process, within the bound of [`admission`], and to another one if that is safe;
//! - [`exchange`] carries the request to the process and the [`answer`] back, over a [`work`];
//! - [`abandoned`] ends the work of a client that has left, and [`overtime`] work that takes too long;
//! - [`tunnel`] connects client and application after an upgrade;
//! - [`error_page`] is the response if there is no answer;
//! - [`rare`] limits log lines.

pub(crate) mod abandoned;
pub(crate) mod admission;
pub(crate) mod answer;
pub(crate) mod attempts;
pub(crate) mod budget;
pub(crate) mod client;
pub(crate) mod connection;
pub(crate) mod core;
pub(crate) mod error_page;
pub(crate) mod exchange;
pub(crate) mod input;
pub(crate) mod overtime;
pub(crate) mod pace;
pub(crate) mod rare;
pub(crate) mod request;
pub(crate) mod request_body;
pub(crate) mod server;
pub(crate) mod sweep;
pub(crate) mod tunnel;
pub(crate) mod work;

use crate::config::Settings;
use crate::http::spool::SpoolLimits;
use admission::Admission;
use budget::{Budget, Shares};
use cabrank::PoolOptions;
use cabrank_spawner::Pool;
use cabrank_spawner::instance_dir::Instance;
use rare::Rare;
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
    fn no_space(&self, what: &str, e: &std::io::Error) {
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

    /// Returns the bounds of an answer, beyond those in [`exchange`].
    pub(crate) fn answer_spool(&self) -> SpoolLimits {
        let memory = exchange::IN_MEMORY;
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
