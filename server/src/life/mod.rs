//! The life of a server.
//!
//! [`start`] leads from binding the port to the end of the last process, and [`signals`] has the requests to stop.
//! [`messages`] has the texts for the operator, [`pid_file`] the pid file, and [`events`] logs the pool's events.

pub(crate) mod events;
pub(crate) mod messages;
pub(crate) mod pid_file;
pub(crate) mod signals;
pub(crate) mod start;
