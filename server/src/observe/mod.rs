//! The log, and the facts of each request.
//!
//! A [`record`] has the facts of one request. [`logging`] sets the log up, [`log_queue`] keeps tasks from waiting for its
//! reader, and [`rare`] limits lines that could come often. [`text_fields`] has the fields that a line shows
//! as text. [`plain`] takes control characters out of every text.

mod log_file;
pub(crate) mod log_queue;
pub(crate) mod logging;
pub(crate) mod plain;
pub(crate) mod rare;
pub(crate) mod record;
mod text_fields;
