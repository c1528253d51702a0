//! The life of a server: [`start`] has its way from binding the port to the end of the last process, and [`signals`]
//! the requests to stop.

pub(crate) mod signals;
pub(crate) mod start;
