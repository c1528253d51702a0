//! The parts of the server that requests need.

use crate::configuration::ServerLimits;
use crate::exchange::buffers::Buffers;
use crate::exchange::served::Served;
use crate::request::head::Head;
use crate::request::networks::Networks;
use cabrank_spawner::connections::Connections;
use std::sync::Arc;

/// The parts of the server that requests need.
#[derive(Debug)]
pub(crate) struct Serving {
    pub(crate) limits: ServerLimits,
    /// The proxies whose word on the client's address and scheme counts.
    pub(crate) trusted_proxies: Networks,
    pub(crate) buffers: Buffers,
    /// The connections to the processes of all applications.
    pub(crate) connections: Connections,
    /// At least one.
    pub(crate) applications: Vec<Arc<Served>>,
}

impl Serving {
    /// Returns the application that a request with this head asks.
    pub(crate) fn application_of(&self, _: &Head) -> &Arc<Served> {
        &self.applications[0]
    }
}
