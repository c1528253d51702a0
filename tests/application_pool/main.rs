//! The application pool: its conformance, errata, user code, messages, and its refinement of the
//! specification.

// The tools of the models run the library's own tests only.
#![cfg(not(any(feature = "loom", feature = "shuttle")))]

#[path = "../common/mod.rs"]
mod common;

mod async_get;
mod conformance;
mod deadlines;
mod edges;
mod ends;
mod errata;
mod forgetting;
mod guards;
mod messages;
mod operating;
mod queue_time;
mod refinement;
mod stress;
mod user_code;
mod watching;
