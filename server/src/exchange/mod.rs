//! One request, from its head to the end of its answer.
//!
//! - [`stages`] reads the body of a [`request`], and ends the answer;
//! - [`attempts`] takes the request to a process, within the bound of [`admission`], and to another one if that is safe;
//! - [`endings`] are answers that their clients have, while the application has not finished;
//! - [`pump`] carries the request to the process ([`upload`]) and the answer back ([`download`], [`outbox`]). Both go over
//!   an [`attempt`];
//! - [`abandoned`] ends the work of a client that has left, and [`overtime`] ends work that takes too long;
//! - [`tunnel`] connects client and application after an upgrade;
//! - [`serving`] has the parts of the server that requests need: each application that is [`served`], with its
//!   [`processes`], and the [`buffers`] of what does not fit into memory;
//! - [`end`] is the one type for the end of a request, and [`error_page`] makes the page of a refusal.

pub(crate) mod abandoned;
pub(crate) mod admission;
pub(crate) mod attempt;
pub(crate) mod attempts;
pub(crate) mod buffers;
mod counted;
pub(crate) mod download;
pub(crate) mod end;
pub(crate) mod endings;
pub(crate) mod error_page;
pub(crate) mod outbox;
pub(crate) mod overtime;
#[cfg(test)]
mod played;
pub(crate) mod processes;
pub(crate) mod pump;
pub(crate) mod request;
pub(crate) mod served;
pub(crate) mod serving;
pub(crate) mod stages;
pub(crate) mod tunnel;
pub(crate) mod upload;

#[cfg(test)]
mod ends_tests;
