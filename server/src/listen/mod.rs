//! Where clients connect: a [`listener`] is an open socket, and [`acceptors`] accept connections from it, within the
//! [`budget`] of descriptors, and share them among cores.

pub(crate) mod acceptors;
pub(crate) mod budget;
pub(crate) mod listener;
