//! The server's words about itself: [`record`] has what is known of each request. [`logging`] sets the log up, [`log_queue`] keeps tasks from waiting for its reader, and [`rare`] limits lines.

pub(crate) mod log_queue;
pub(crate) mod logging;
pub(crate) mod rare;
pub(crate) mod record;
