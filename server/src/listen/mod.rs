//! Where clients connect.
//!
//! A [`listener`] is an open socket. The [`acceptors`] accept its connections, within the [`budget`] of descriptors, and share
//! them among cores.

pub(crate) mod acceptors;
pub(crate) mod budget;
pub(crate) mod listener;
