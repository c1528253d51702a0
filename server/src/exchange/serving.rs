//! The parts of the server that requests need.

use crate::configuration::ServerLimits;
use crate::exchange::buffers::Buffers;
use crate::exchange::served::Served;
use crate::request::networks::Networks;
use std::sync::Arc;

/// The parts of the server that requests need.
#[derive(Debug)]
pub(crate) struct Serving {
    pub(crate) limits: ServerLimits,
    /// The proxies whose word on the client's address and scheme counts.
    pub(crate) trusted_proxies: Networks,
    pub(crate) buffers: Buffers,
    pub(crate) application: Arc<Served>,
}
