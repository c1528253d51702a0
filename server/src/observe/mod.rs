//! The log: [`logging`] sets it up, [`log_queue`] keeps tasks from waiting for its reader, and [`rare`] limits lines.

pub(crate) mod log_queue;
pub(crate) mod logging;
pub(crate) mod rare;
