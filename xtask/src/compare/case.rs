//! The figures of a server under a number of connections.

/// The figures of one turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    /// Processor time of a request, in µs.
    pub(crate) server: f64,
    pub(crate) app: f64,
    /// Requests per second.
    pub(crate) rate: f64,
    /// Latencies in µs.
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    /// In bytes.
    pub(crate) memory: f64,
}

/// One server under one number of connections.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) server: usize,
    pub(crate) connections: usize,
    pub(crate) turns: Vec<Turn>,
}
