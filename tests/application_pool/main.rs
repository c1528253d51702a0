//! The application pool: its conformance, errata, user code, messages, and its refinement of the
//! specification.

#[path = "../common/mod.rs"]
mod common;

mod async_get;
mod conformance;
mod errata;
mod messages;
mod refinement;
mod stress;
mod user_code;
