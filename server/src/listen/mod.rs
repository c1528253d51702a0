//! Where clients connect.
//!
//! A [`listener`] is an open socket: of TCP, or a Unix socket, whose [`socket_file`] stands in a directory that [`place`] opens.
//! The [`acceptors`] accept its connections, within the [`budget`] of descriptors, and share them among cores. Each core has [`listeners`] of its own.

pub(crate) mod acceptors;
pub(crate) mod budget;
pub(crate) mod listener;
mod listeners;
pub(crate) mod place;
pub(crate) mod socket_file;
